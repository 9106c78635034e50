"""Kernels that blocks run stage by stage give the bits of the reference, whatever the block."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from differential import LAYOUTS, assert_same, front, inputs, judged, run
from drawing import SCALARS, program
from emulation.machine import EmulatedMachine
from nvidia import compiled_everywhere
from programs import DIFFUSION
from tile_choices import changed

from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.cuda.kernels.staged.text import waits
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.errors import ProgramError
from halocline_engine.schedule.options import Options, Temporaries
from halocline_engine.schedule.plan import plan

HOMES: tuple[Temporaries, ...] = ("shared", "block", "block-moved")
CHOICES: tuple[Temporaries, ...] = (*HOMES, "auto", "recompute", "field")
ORDERS: tuple[dict[str, Any], ...] = ({}, {"descending": True}, {"shuffled": 3})
DEEP = """
def deep(a: Field[float64], b: Field[float32], x: Field[float64], y: Field[float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            t = a[1, 0, 0] - b
            s = b + b[0, -1, 0]
        with interval(1, None):
            t = a[1, 0, -1] * b
            s = b[0, 1, 0] - b
    with computation(PARALLEL):
        with interval(0, -1):
            x = t[0, 1, 1] - s[-1, 0, 0]
            y = t[1, 0, 0] + a
        with interval(-1, None):
            x = t[-1, 0, 0] * s
            y = t[0, -1, -1]
"""


@pytest.mark.parametrize(
    ("kind", "order"), [(k, n) for k in CHOICES for n in range(3 if k in HOMES else 1)]
)
@pytest.mark.parametrize("text", [DIFFUSION, DEEP], ids=["diffusion", "deep"])
def test_every_choice_gives_the_same_bits(
    load: Any, emulation_folder: Path, text: str, kind: Temporaries, order: int
) -> None:
    made, facts = front(text)
    schedule = plan(made, facts, Options(temporaries=kind))
    machine = EmulatedMachine(emulation_folder / "loaded", **ORDERS[order])
    for domain in ((70, 19, 3), (3, 2, 2)):
        given = inputs(made, facts, domain)
        expected = judged(made, facts, given, domain, {})
        assert_same(run(load(schedule, machine), given, domain, {}), expected)


@pytest.mark.parametrize("alignment", [1, 32, 128])
@pytest.mark.parametrize("kind", HOMES)
def test_blocks_and_levels_may_be_any(
    load: Any, emulation_folder: Path, kind: Temporaries, alignment: int
) -> None:
    made, facts = front(DIFFUSION)
    schedule = plan(made, facts, Options(temporaries=kind, alignment=alignment))
    machine = EmulatedMachine(emulation_folder / "loaded", shuffled=alignment)
    domain = (37, 13, 5)
    given = inputs(made, facts, domain)
    expected = judged(made, facts, given, domain, {})
    for block, width, rows, depth in (((8, 2), 1, 1, 3), ((3, 5), 2, 3, 1)):
        tiles = changed(block=block, width=width, rows=rows, depth=depth)
        own = inputs(made, facts, domain)
        assert_same(run(load(schedule, machine, tiles), own, domain, {}), expected)


def test_drawn_programs_give_the_same_bits(load: Any, emulation_folder: Path) -> None:
    random = Random(11)
    found = 0
    while found < 6:
        text = program(random.getrandbits(48), ("PARALLEL", "PARALLEL", "PARALLEL", "FORWARD"))
        try:
            made, facts = front(text)
        except ProgramError:
            continue
        kind = HOMES[found % 3]
        schedule = plan(made, facts, Options(temporaries=kind, fuse=found % 2 == 0))
        domain = (random.randint(1, 21), random.randint(1, 9), 5)
        if not schedule.staging or facts.min_levels > domain[2]:
            continue
        found += 1
        given = inputs(made, facts, domain)
        expected = judged(made, facts, given, domain, SCALARS)
        own = inputs(made, facts, domain, layout=LAYOUTS[found % len(LAYOUTS)])
        machine = EmulatedMachine(emulation_folder / "loaded", **ORDERS[found % 3])
        tiles = changed(block=(4, 4), width=1 + found % 2, depth=2)
        assert_same(run(load(schedule, machine, tiles), own, domain, SCALARS), expected)


def test_a_barrier_left_out_is_seen(
    load: Any, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, facts = front(DIFFUSION)
    schedule = plan(made, facts, Options(temporaries="shared"))

    def none(staged: Any, *, again: bool) -> tuple[bool, ...]:
        return (False,) * len(waits(staged, again=again))

    monkeypatch.setattr("halocline_engine.backends.cuda.kernels.staged.text.waits", none)
    domain = (70, 19, 3)
    given = inputs(made, facts, domain)
    expected = judged(made, facts, given, domain, {})
    with pytest.raises(AssertionError):
        assert_same(run(load(schedule, cold=True), given, domain, {}), expected)


def test_barriers_stand_where_threads_meet_and_nowhere_else() -> None:
    (entry,) = entries_of(plan(*front(DIFFUSION), Options(temporaries="shared")))
    assert entry.staged is not None
    assert waits(entry.staged, again=False) == (False, True, False, True)
    # The next level's first stage writes what was read before the last barrier.
    assert waits(entry.staged, again=True) == (False, True, False, True)
    text = "def two(a: Field[float64], x: Field[float64]):\n"
    text += (
        "    with computation(PARALLEL), interval(...):\n        t = a\n        x = t[1, 0, 0]\n"
    )
    (entry,) = entries_of(plan(*front(text), Options(temporaries="shared")))
    assert entry.staged is not None
    assert waits(entry.staged, again=False) == (False, True)
    assert waits(entry.staged, again=True) == (True, True)


def test_nvidias_compiler_takes_staged_kernels() -> None:
    plans = [
        plan(*front(t), Options(temporaries=kind)) for kind in HOMES for t in (DIFFUSION, DEEP)
    ]
    needs = compiled_everywhere(CudaBackend().build(schedule).source for schedule in plans)
    for architecture, found in needs.items():
        assert {number for number, _ in found} == set(range(len(plans)))
        for kernel, used in found.items():
            # The compiler likes 32 registers and a word on the stack better than 34.
            assert used.stack <= 8, (architecture, kernel, used)
            assert used.registers <= 128, (architecture, kernel, used)
