"""Axes along which programs read neighbours, and on whose positions results depend."""

from __future__ import annotations

import pytest

from halocline_engine.analysis.axis_use import neighbour_axes, position_axes
from halocline_engine.analysis.named import used_fields
from halocline_engine.program import compile_program

FIELDS = "t: Field[float], s: Field[IJ, float], out: Field[float]"
PARALLEL = "    with computation(PARALLEL), interval(...):\n        out = "
FORWARD = "    with computation(FORWARD), interval(...):\n        "

REGION = "t\n        with horizontal(region[{}]):\n            out = 0.0"
SHIFTED = PARALLEL.replace("out", "a") + "2.0 * t\n        out = a[0, 1, 0]"

PROGRAMS = {
    "point": (PARALLEL + "2.0 * t", "", ""),
    "neighbours": (PARALLEL + "t[1, 0, 0] - t[0, -1, 0]", "IJ", ""),
    "neighbours of a temporary": (SHIFTED, "J", ""),
    "level above": (PARALLEL + "t[0, 0, 1]", "K", "K"),
    "first level": (PARALLEL.replace("...", "0, 1") + "t", "", "K"),
    "all but the last level": (PARALLEL.replace("...", "0, -1") + "t", "", "K"),
    "index of a level": (PARALLEL + "t if K == 1 else 0.0", "", "K"),
    "level by its index": (PARALLEL + "t.at(K=0)", "", "K"),
    "sum in two dimensions": (FORWARD + "s = s + t\n        out = t", "", "K"),
    "two dimensions, read only": (FORWARD + "out = s + t", "", ""),
    "row": (PARALLEL + REGION.format(":, J[0]"), "", "J"),
    "column": (PARALLEL + REGION.format("I[-1], :"), "", "I"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_axes(name: str) -> None:
    body, neighbours, positions = PROGRAMS[name]
    compiled = compile_program(f"def f({FIELDS}):\n{body}\n", target="reference")
    used = used_fields(compiled.program)
    read = {axis for field in used for axis in neighbour_axes(field, compiled.facts)}
    assert "".join(sorted(read)) == neighbours
    assert "".join(position_axes(compiled.program, used)) == positions
