"""Which steps may run slab by slab, and what needs memory for one slab only."""

from __future__ import annotations

from differential import front

from halocline_engine.backends.cpu.phases import Phase, phases
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

SOLVE = """
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, None):
            t = a - t[0, 0, -1]
    with computation(BACKWARD), interval(...):
        x = t
"""
SHIFT = """
    with computation(FORWARD), interval(...):
        t = a
    with computation(BACKWARD), interval(...):
        x = t[{offset}]
"""


def cut(body: str, axis: int) -> tuple[Phase, ...]:
    text = f"def p(a: Field[np.float64], x: Field[np.float64]):{body}"
    return phases(plan(*front(text), Options(recompute=False)), axis)


def test_what_stays_in_its_column_runs_slab_by_slab() -> None:
    """A solve is one kernel; a temporary that is read along K only is its slab's own."""
    for axis in (0, 1):
        (phase,) = cut(SOLVE, axis)
        assert len(phase.steps) == 1
        assert [buffer.name for buffer in phase.local] == ["t"]


def test_a_read_across_slabs_needs_all_slabs_before() -> None:
    assert [len(p.steps) for p in cut(SHIFT.format(offset="0, 1, 0"), 1)] == [1, 1]
    assert [p.local for p in cut(SHIFT.format(offset="0, 1, 0"), 1)] == [(), ()]


def test_a_read_along_the_slab_does_not() -> None:
    (phase,) = cut(SHIFT.format(offset="1, 0, 0"), 1)
    assert len(phase.steps) == 2
    assert [buffer.name for buffer in phase.local] == ["t"]
    assert len(cut(SHIFT.format(offset="1, 0, 0"), 0)) == 2
