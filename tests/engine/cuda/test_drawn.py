"""NVIDIA's compiler takes programs that are drawn at random, for every device."""

from __future__ import annotations

from drawing import program
from nvidia import compiled_everywhere, table
from programs import scheduled

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import usual_variant

#: A point a thread, as a small domain has it, and tiles. Other numbers draw programs that break a
#: rule of the language, or take seconds each: points, both orders of levels, several kernels.
DRAWN: dict[Domain, tuple[int, ...]] = {(37, 13, 9): (21, 22, 49, 51), (1024, 1024, 128): (22, 51)}


def source(number: int, domain: Domain) -> str:
    schedule = scheduled(program(number))
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, domain))


def test_nvidias_compiler_takes_drawn_programs() -> None:
    """What each kernel needs is printed: `pytest -rP` shows it."""
    cases = [(number, domain) for domain, several in DRAWN.items() for number in several]
    needs = compiled_everywhere(source(*case) for case in cases)
    print(table(needs, [f"program({number}) on {domain}" for number, domain in cases]))
    for found in needs.values():
        assert {number for number, _ in found} == set(range(len(cases)))
        assert all(0 < used.registers <= 255 for used in found.values())
