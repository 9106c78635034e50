"""Programs with loops, levels that only a run knows, and components: all targets agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from differential import LAYOUTS, assert_same, front
from drawing import LEVELS, general_programs, program
from emulation.machine import EmulatedArtifact
from general_runs import OPTIONS, agree, given_arrays, judged, ran
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from interpreted import patch
from nvidia import compiled_everywhere

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.errors import ProgramError
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

DOMAINS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(LEVELS, LEVELS + 1))
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
#: Programs that are drawn from these numbers keep the rules of the language.
KEPT = (41, 63, 9, 12, 84, 94)


def test_loops_mean_what_programs_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)

    @settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=QUIET)
    @given(general_programs(), DOMAINS, st.sampled_from(LAYOUTS), st.integers(0, 9))
    def same_bits(text: str, domain: Domain, layout: str, seed: int) -> None:
        try:
            meaning, facts = front(text)
        except ProgramError:
            assume(False)
            return
        assume(facts.min_levels <= domain[2])
        agree(meaning, facts, domain, layout, seed, *OPTIONS)

    same_bits()


@pytest.mark.parametrize("number", KEPT[:2])
def test_compiled_loops_give_the_same_bits(number: int) -> None:
    meaning, facts = front(program(number, general=True))
    for layout in LAYOUTS[::2]:
        agree(meaning, facts, (4, 3, 5), layout, number, Options())


@pytest.mark.parametrize("number", KEPT)
def test_kernels_give_the_same_bits(number: int, emulation_folder: Path) -> None:
    domain = (5, 4, 6)
    meaning, facts = front(program(number, general=True))
    schedule = plan(meaning, facts)
    for layout in ("along I", "along K"):
        own = given_arrays(meaning, facts, domain, layout, number)
        expected = judged(meaning, facts, own, domain)
        got = ran(EmulatedArtifact(schedule, emulation_folder), meaning, facts, own, domain)
        assert_same(got.arrays, expected.arrays)


def test_nvidias_compiler_takes_the_kernels() -> None:
    sources: list[str] = []
    for number in KEPT:
        schedule = plan(*front(program(number, general=True)))
        variant = usual_variant(schedule)
        sources.append(emit(schedule, variant, tiles_of(schedule, variant, (64, 64, 32))))
    for found in compiled_everywhere(sources).values():
        assert {number for number, _ in found} == set(range(len(sources)))
