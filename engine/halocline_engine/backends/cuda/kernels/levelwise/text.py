"""The text of kernels that have a level of some columns in each thread."""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.kernels.levelwise.tile import has_windows
from halocline_engine.backends.cuda.kernels.points.section import has_loops
from halocline_engine.backends.cuda.kernels.points.text import (
    may_repeat,
    point_lines,
    points_at_once,
    whole_tile,
)
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.schedule.nodes import Schedule

__all__ = ["levelwise_text"]


def levelwise_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel whose threads have a level of some columns each."""
    # Tiles begin anywhere along I, so vectors of what lies along I, as masks do, are not aligned.
    scope = replace(scope, aligned=frozenset())
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    low = {"i": i_low, "j": j_low}
    near, far = "ij" if tile.levelwise == 1 else "ji"
    size = {"i": tile.width, "j": tile.rows}
    place = {
        near: f"(int)(t / height) * {size[near]}{signed(low[near])}",
        far: f"(int)(blockIdx.z * gridDim.y + blockIdx.y) * {size[far]}{signed(low[far])}",
    }
    lines = [
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        "const unsigned t = blockIdx.x * blockDim.x + threadIdx.x, height = top - level;",
        "const int k0 = level + (int)(t % height);",
        *(f"const int {axis}_ = {place[axis]};" for axis in "ij"),
        "if (i_ >= i1 || j_ >= j1) return;",
    ]
    if not has_windows(entry, schedule, variant, tile):
        lines.append("const int i0 = i_, j0 = j_;")
        if tile.width * tile.rows == 1 or has_loops(entry):
            return [*lines, *_point_by_point(entry, scope, tile)]
        return [
            *lines,
            f"if (i0 + {tile.width} <= i1 && j0 + {tile.rows} <= j1) {{",
            *indent(points_at_once(entry, scope, tile)),
            "} else {",
            *indent(_point_by_point(entry, scope, tile)),
            "}",
        ]
    repeated = may_repeat(entry)
    first = {
        axis: f"min({axis}_, max({axis}1 - {size[axis]}, {low[axis]}))"
        if repeated and size[axis] > 1
        else f"{axis}_"
        for axis in "ij"
    }
    return [
        *lines,
        *(f"const int {axis}0 = {first[axis]};" for axis in "ij"),
        f"if (i0 + {tile.width} <= i1 && j0 + {tile.rows} <= j1) {{",
        *indent(whole_tile(entry, scope, tile)),
        "} else {",
        *indent(_point_by_point(entry, scope, tile)),
        "}",
    ]


def _point_by_point(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of the points of a tile one after the other.

    A loop is left out where a thread has one column: it cost up to a tenth.
    """
    sizes = {"i": tile.width, "j": tile.rows}
    loops = [
        f"for (int {a} = {a}0; {a} < min({a}0 + {sizes[a]}, {a}1); ++{a})"
        for a in "ji"
        if sizes[a] > 1
    ]
    places = [f"const int {a} = {a}0;" for a in "ij" if sizes[a] == 1]
    return [
        *places,
        *loops,
        "{",
        "  [[maybe_unused]] const int k = k0;",
        *indent(point_lines(entry, scope)),
        "}",
    ]
