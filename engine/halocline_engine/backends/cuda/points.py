"""Kernels of PARALLEL computations: a thread computes a tile of points, level after level.

Where all of a tile lies inside, a thread loads what the points of a level read before it computes
any of them, 16 bytes at a time where memory allows, so that it waits for many loads together and
loads nothing twice. A tile that the edge of the domain cuts is computed point by point.
"""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.body import Scope
from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.backends.cuda.frame import (
    bound,
    indent,
    inside,
    offsets,
    section_body,
    signed,
    touched,
)
from halocline_engine.backends.cuda.tile_body import tile_body
from halocline_engine.backends.cuda.tiling import Tile
from halocline_engine.schedule.nodes import Section

__all__ = ["points"]


def points(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the body of a kernel whose threads compute one tile each."""
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    start = i_low // tile.width * tile.width
    lines = [
        f"const int i0 = {_times('(int)(blockIdx.x * blockDim.x + threadIdx.x)', tile.width)}"
        f"{signed(start)};",
        "const int j0 = row"
        f" + {_times('(int)(blockIdx.y * blockDim.y + threadIdx.y)', tile.rows)};",
        f"const int k0 = level + {_times('(int)blockIdx.z', tile.depth)};",
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        "if (i0 >= i1 || j0 >= j1) return;",
    ]
    if tile.depth > 1:
        lines.append(f"const int k1 = min(k0 + {tile.depth}, top);")
    if tile.width * tile.rows == 1 and tile.depth == 1:
        return [*lines, "const int i = i0, j = j0, k = k0;", *_point(entry, scope)]
    first = f"i0 >= {i_low} && " if start < i_low else ""
    return [
        *lines,
        f"if ({first}i0 + {tile.width} <= i1 && j0 + {tile.rows} <= j1) {{",
        *indent(_whole(entry, scope, tile)),
        "} else {",
        *indent(_cut(entry, scope, tile, f"max(i0, {i_low})" if start < i_low else "i0")),
        "}",
    ]


def _times(number: str, factor: int) -> str:
    return number if factor == 1 else f"{number} * {factor}"


def _point(entry: Entry, scope: Scope) -> list[str]:
    """Return the code of one point (i, j, k)."""
    lines = [*offsets(entry.arrays, scope), *inside(scope)]
    if _is_single(entry):
        return [*lines, *section_body(entry.kernel.sections[0], scope)]
    for section in entry.kernel.sections:
        body = section_body(section, scope)
        lines += [f"if ({_has_level(section)}) {{", *indent(body), "}"]
    return lines


def _whole(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of a tile that no edge cuts: each section on its levels."""
    head = ["const int i = i0, j = j0;", *inside(scope)]
    if tile.depth == 1:
        head.append("const int k = k0;")
    single = _is_single(entry)
    for section in entry.kernel.sections:
        names = touched(section)
        own = offsets([name for name in entry.arrays if name in names], scope)
        body = tile_body(section, entry, replace(scope, point=("e", "r")), tile, own)
        if tile.depth > 1:
            start, end = ("k0", "k1") if single else _clipped(section)
            head += [
                "{",
                f"  int k = {start};",
                f"  const int end = {end};",
                "  if (k < end) {",
                *indent(indent(body)),
                "  }",
                "}",
            ]
        elif single:
            head += body
        else:
            head += [f"if ({_has_level(section)}) {{", *indent(body), "}"]
    return head


def _cut(entry: Entry, scope: Scope, tile: Tile, first: str) -> list[str]:
    """Return the code of a tile that an edge cuts: its points one by one."""
    levels = ["for (int k = k0; k < k1; ++k)"] if tile.depth > 1 else ["const int k = k0;"]
    loops = [
        *levels,
        f"for (int j = j0; j < min(j0 + {tile.rows}, j1); ++j)",
        f"for (int i = {first}; i < min(i0 + {tile.width}, i1); ++i) {{",
    ]
    return [*loops, *indent(_point(entry, scope)), "}"]


def _is_single(entry: Entry) -> bool:
    """Whether the launch has just the levels of the only section."""
    return entry.level_at_hand or len(entry.kernel.sections) == 1


def _has_level(section: Section) -> str:
    return f"k >= {bound(section.interval.start)} && k < {bound(section.interval.end)}"


def _clipped(section: Section) -> tuple[str, str]:
    """Return the first level of a section in a tile, and the one past its last."""
    return f"max(k0, {bound(section.interval.start)})", f"min(k1, {bound(section.interval.end)})"
