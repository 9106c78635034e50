"""Drawn programs on a dataset that is cut into blocks, streamed or kept in memory."""

from __future__ import annotations

import pytest
from differential import front
from drawing import GIVEN, program
from drawn_blocks import Cut, blocks_agree, drawn_cut
from interpreted import patch

from halocline_engine.errors import BoundaryError, ProgramError

#: Statements whose meaning depends on where the domain's first level is.
OF_LEVELS = {
    "intervals": """
    with computation(PARALLEL):
        with interval(0, 1):
            x = 2.0 * a[0, 0, -1]
        with interval(1, None):
            x = a[0, 0, -1] + a[1, 0, 0]
""",
    "accumulators": """
    with computation(FORWARD), interval(...):
        x = a[0, 0, -1]
        f = 0.5 * f + a
""",
    "levels of the run": """
    with computation(PARALLEL), interval(...):
        x = a[0, 0, -1] + K * a.at(K=3)
""",
    "levels of the run below all": """
    with computation(PARALLEL), interval(...):
        y = 0.5 * y + a
    with computation(PARALLEL), interval(...):
        x = a[0, 0, -1] + y.at(K=K - 2)
""",
    "assignments of the next level": """
    with computation(FORWARD), interval(...):
        x = a[0, 0, -1]
        y[0, 0, 1] = a
""",
}
HEAD = """
def levels(a: Field[float], x: Field[float], y: Field[float], f: Field[IJ, float]):
"""


@pytest.mark.parametrize("name", OF_LEVELS)
def test_no_step_computes_levels_beyond_a_periodic_column(name: str) -> None:
    text = HEAD + OF_LEVELS[name]
    boundary = {"east": "edge", "north": "periodic", "up": "periodic"}
    cut = Cut({"east": 5, "north": 6}, boundary, ranks=2, steps=3, per_pass=2, feedback={"x": "a"})
    blocks_agree(text, front(text)[0], cut, "reference", 1, {})


@pytest.mark.parametrize("first", range(0, 81, 27))
def test_blocks_change_no_bit(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them are computed in loops, which are settled for the scalars of a job."""
    patch(monkeypatch)
    for number in range(first, first + 27):
        text = program(number, whole=True)
        try:
            meaning = front(text, **GIVEN)[0]
        except ProgramError:
            continue
        try:
            target = "cpu" if number % 2 else "reference"
            blocks_agree(text, meaning, drawn_cut(number, meaning), target, number, GIVEN)
        except BoundaryError:
            continue  # an integer has no NaN, and no value between two others
