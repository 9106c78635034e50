"""What the schedule of the CUDA target says of the order of blocks."""

from __future__ import annotations

import pytest

import halocline_engine as he
from halocline_engine.backends.base import Drawable

HEAD = """
def program(u: Field[np.float32], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        v = """
DRAWN = "columns 4 wide, 6 rows of 12"


def _walks(expression: str) -> tuple[str, ...]:
    artifact = he.stencil(HEAD + expression + "\n", target="cuda").compiled.artifact
    assert isinstance(artifact, Drawable)
    return artifact.walks()


def test_levels_that_are_read_again_are_climbed_in_strips() -> None:
    first, title, *drawn = _walks("u + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]")
    assert first == (
        "kernel0 on 4096 x 4096 x 128 points: blocks of a level in strips of 74 along J, each up"
        " to the last level before the next"
    )
    assert title == DRAWN
    assert drawn[-1] == "a cache of 18 cells: 96 fetched for 72 cells, 1.33 times each"


def test_rows_that_are_read_again_are_cut_into_columns() -> None:
    first, title, *drawn = _walks("u + u[0, 1, 0] + u[0, -1, 0]")
    assert first.startswith("kernel0 on 1048576 x 4096 x 1 points: blocks in columns of ")
    assert first.endswith(" along I, each down all rows before the next")
    assert title == DRAWN
    # Nothing is read beside a block, so what a column holds is enough: each is fetched once.
    assert drawn[-1].endswith(": 72 fetched for 72 cells, 1.00 times each")


def test_what_gains_nothing_is_not_drawn() -> None:
    (line,) = _walks(" + ".join(f"u[0, {j}, {k}]" for j in range(-4, 5) for k in range(-2, 3)))
    assert line.endswith(" levels follow each other along rows, then upwards")


@pytest.mark.parametrize("expression", ["2.0 * u", "u[1, 0, 0] + u[-1, 0, 0]"])
def test_points_that_are_read_once_have_no_order(expression: str) -> None:
    assert _walks(expression) == ()


def test_columns_have_no_order() -> None:
    program = """
def program(u: Field[np.float32], v: Field[np.float32]):
    with computation(FORWARD), interval(1, None):
        v = v[0, 0, -1] + u
"""
    shown = he.stencil(program, target="cuda").show("schedule")
    assert "points:" not in shown
    assert shown.endswith("by the cost model\n")
