"""The body of PARALLEL kernels: a thread computes a tile of points, level after level.

Where all of a tile lies inside, a thread loads what the points of a level read before it computes
any of them, 16 bytes at a time where memory allows, so that it waits for many loads together and
loads nothing twice. What is left over behind the last whole tiles is computed point by point.
A thread of one point may load first as well; what conditions decide on it loads where they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.points.plane_text import plane_body
from halocline_engine.backends.cuda.kernels.points.planes import planes_of
from halocline_engine.backends.cuda.kernels.points.prefetch import prefetches
from halocline_engine.backends.cuda.kernels.points.section import (
    TileBody,
    loaded_offsets,
    tile_body,
)
from halocline_engine.backends.cuda.model.entries import Entry, Stride
from halocline_engine.backends.cuda.model.launch import first_whole
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import (
    bound,
    indent,
    inside,
    offsets,
    section_body,
    signed,
    touched,
)
from halocline_engine.backends.cuda.text.statements import HERE, Scope, element
from halocline_engine.ir.nodes import While
from halocline_engine.ir.walk import reads, statements
from halocline_engine.schedule.nodes import Section

__all__ = [
    "levels_in_turn",
    "may_repeat",
    "point_lines",
    "points_at_once",
    "points_text",
    "whole_tile",
]

#: Levels of a point at an edge that are written out.
_LEVELS_AT_AN_EDGE = 4


def points_text(
    entry: Entry, scope: Scope, tile: Tile, *, plain: bool, loads_first: bool
) -> list[str]:
    """Return the body of a kernel whose threads compute one tile each.

    `plain` says that a thread of several points loads before it computes, and `loads_first` that
    one of one point does, too.
    """
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    lines = [
        *_order(tile),
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        f"const int k0 = level + {_times(_number(tile, 'z'), tile.depth)};",
    ]
    if tile.depth > 1:
        lines.append(f"const int k1 = min(k0 + {tile.depth}, top);")
    if tile.planes:
        return [*lines, *_planes(entry, scope, tile)]
    across = [
        f"const int j_ = row + {_times(_thread(tile, 'y'), tile.rows)};",
        "if (j_ >= j1) return;",
    ]
    along = f"const int t = {_thread(tile, 'x')}"
    if tile.line:
        begin = [*_line(entry, scope, tile), f"{along} - before;", "if (t < 0) return;"]
        lines += [*across, *begin]
    else:
        lines += [f"{along};", *across]
    if tile.width * tile.rows * tile.depth == 1 and not loads_first:
        first = f"t{signed(i_low)}"
        place = [
            f"const int i = {first}, j = j_;",
            "[[maybe_unused]] const int k = k0;",
            "if (i >= i1) return;",
        ]
        asked = prefetches(entry, scope, tile)
        return [*lines, *place, *point_lines(entry, scope, asked)]
    return [*lines, *_tiles(entry, scope, tile, plain=plain)]


def _tiles(entry: Entry, scope: Scope, tile: Tile, *, plain: bool) -> list[str]:
    """Return the code of a thread behind its number t along I and its first row j_.

    The first threads compute tiles that no edge cuts along I. The columns that are left over at
    both edges are shared out among the next threads, a point on each level for every thread.
    """
    i_low, _ = entry.kernel.extent[0]
    first = first_whole(i_low, tile)
    moved = f"min(j_, max(j1 - {tile.rows}, row))"
    rows = tile.rows > 1 and may_repeat(entry)
    lines = [
        f"const int j0 = {moved if rows else 'j_'};",
        f"const int wholes = max(i1{signed(-first)}, 0) / {tile.width};",
        "if (t < wholes) {",
        f"  const int i0 = {_times('t', tile.width)}{signed(first)};",
    ]
    whole = (whole_tile if plain else points_at_once)(entry, scope, tile)
    if tile.rows > 1:
        lines += [
            f"  if (j0 + {tile.rows} <= j1) {{",
            *indent(indent(whole)),
            "  } else {",
            *indent(indent(_cut(entry, scope, tile))),
            "  }",
        ]
    else:
        lines += indent(whole)
    if tile.width == 1:
        return [*lines, "}"]
    beyond = _times("wholes", tile.width)
    # With one row there are no more threads than points: division takes longer than a point.
    point, row = ("p % left", "j0 + p / left") if tile.rows > 1 else ("p", "j0")
    skipped = f"({point} < {first - i_low} ? 0 : {beyond})" if first > i_low else beyond
    return [
        *lines,
        "} else {",
        f"  const int left = i1{signed(-i_low)} - {beyond}, p = t - wholes;",
        f"  if (p >= {_times('left', tile.rows)}) return;",
        f"  const int i = {point}{signed(i_low)} + {skipped};",
        f"  const int j = {row};",
        "  if (j >= j1) return;",
        *indent(_levels(entry, scope, tile)),
        "}",
    ]


def _line(entry: Entry, scope: Scope, tile: Tile) -> Iterator[str]:
    """Yield how many elements before the row's first point a line of memory begins."""
    lying = [name for name in entry.arrays if scope.kinds[name][1][0] is Stride.ONE]
    name = next((name for name in lying if name in entry.written), lying[0])
    array, (number, kind) = scope.arrays[name], scope.kinds[name]
    terms = [str(entry.kernel.extent[0][0])]
    terms += [
        f"(index_t){axis} * s{number}{axis[0]}"
        for axis, stride in zip(("j_", "k0"), kind[1:], strict=True)
        if stride is not Stride.NONE
    ]
    place = f"(unsigned long long)({array} + ({' + '.join(terms)}))"
    yield f"const int before = (int)({place} / sizeof(*{array}) % {tile.line});"


def may_repeat(entry: Entry) -> bool:
    """Whether a point may be computed by two threads: nothing that the kernel writes is read.

    Then the last tile along J begins so early that it is whole.
    """
    written = set(entry.written)
    return not any(r.name in written for s in entry.kernel.sections for r in reads(s.body))


def _order(tile: Tile) -> list[str]:
    """Return the block's place where blocks run in strips or columns, which follow along z."""
    if not tile.is_parted:
        return []
    axis = "y" if tile.strip else "x"
    return [
        f"const int z = {_block(tile, 'z')}, part = (int)__umulhi((unsigned)z + 1u, inverse);",
        "const int bz = z - part * deep;",
        f"const int b{axis} = part * (int)gridDim.{axis} + {_block(tile, axis)};",
    ]


def _block(tile: Tile, axis: str) -> str:
    """Return the number of the block along an axis of the grid."""
    if tile.backward:
        return f"((int)gridDim.{axis} - 1 - (int)blockIdx.{axis})"
    return f"(int)blockIdx.{axis}"


def _number(tile: Tile, axis: str) -> str:
    """Return the number of the block along an axis of the domain."""
    parted = ("y", "z") if tile.strip else ("x", "z") if tile.column else ()
    return f"b{axis}" if axis in parted else _block(tile, axis)


def _thread(tile: Tile, axis: str) -> str:
    """Return the number of the thread along an axis of the domain."""
    number = _number(tile, axis)
    if number == f"(int)blockIdx.{axis}":
        return f"(int)(blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis})"
    return f"({number} * (int)blockDim.{axis} + (int)threadIdx.{axis})"


def _planes(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of a tile in a block that keeps planes of what it reads."""
    i_low = entry.kernel.extent[0][0]
    start = i_low // tile.width * tile.width
    section = entry.kernel.sections[0]
    kinds = {name: scope.kinds[name][1] for name in entry.arrays}
    planes = planes_of(loaded_offsets(section, entry), kinds, scope.dtypes, scope.aligned, tile)
    within = replace(scope, point=("e", "r"))
    whole = TileBody.of(section, entry, within, tile, planes)
    cut = TileBody.of(section, entry, within, tile, planes, cut=True)
    tall = tile.rows * tile.block[1]
    return [
        f"const int i0 = {_times(_thread(tile, 'x'), tile.width)}{signed(start)};",
        f"const int j0 = row + {_times(_thread(tile, 'y'), tile.rows)};",
        f"const int ib = {_times(_number(tile, 'x'), tile.width * tile.block[0])}{signed(start)};",
        f"const int jb = row + {_times(_number(tile, 'y'), tall)};",
        f"const bool whole = i0 >= {i_low} && i0 + {tile.width} <= i1 && j0 + {tile.rows} <= j1;",
        *(f"const int {axis} = {axis}0;" for axis in "ij"),
        *plane_body(whole, cut, entry.kernel.extent, offsets(entry.arrays, scope)),
    ]


def _times(number: str, factor: int) -> str:
    return number if factor == 1 else f"{number} * {factor}"


def point_lines(entry: Entry, scope: Scope, first: Sequence[str] = ()) -> list[str]:
    """Return the code of one point (i, j, k), with some of it `first`, behind the offsets."""
    lines = [*offsets(entry.arrays, scope), *first, *inside(scope)]
    if _is_single(entry):
        return [*lines, *_body(entry.kernel.sections[0], entry, scope)]
    for section in entry.kernel.sections:
        body = _body(section, entry, scope)
        lines += [f"if ({_has_level(section)}) {{", *indent(body), "}"]
    return lines


def _section_points(entry: Entry, scope: Scope) -> Iterator[tuple[Section, list[str]]]:
    """Yield each section with the code of one point (i, j, k) in it."""
    for section in entry.kernel.sections:
        names = touched(section)
        own = offsets([name for name in entry.arrays if name in names], scope)
        yield section, [*own, *inside(scope), *_body(section, entry, scope)]


def levels_in_turn(entry: Entry, scope: Scope, step: int, at_once: int) -> list[str]:
    """Return the code of a thread that has some levels of a column: each `step`-th from `first` on.

    It loads `at_once` of them together. Sections have loops of their own, with a written trip
    count: from bounds by `min` and `max` the compiler makes one of its own, which ptxas of CUDA
    before 13.4 may translate wrongly.
    """
    lines: list[str] = []
    for section, point in _section_points(entry, scope):
        if _is_single(entry):
            start, end = "first", "k1"
        else:
            low, end = _clipped(section)
            start = f"first + max({low} - first + {step - 1}, 0) / {step} * {step}"
        count = f"opaque(max({end} - k + {step - 1}, 0) / {step})"
        lines += [
            f"#pragma unroll {at_once}",
            f"for (int k = {start}, count = {count}; count > 0; k += {step}, --count) {{",
            *indent(point),
            "}",
        ]
    return lines


def points_at_once(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of a tile that no edge cuts, one level high, whose points load together.

    The compiler moves loads: each point is written as it is at an edge.
    """
    sizes = {"i": tile.width, "j": tile.rows}
    loops = [
        line
        for a in "ji"
        for line in ("#pragma unroll", f"for (int {a} = {a}0; {a} < {a}0 + {sizes[a]}; ++{a})")
        if sizes[a] > 1
    ]
    places = [f"const int {a} = {a}0;" for a in "ij" if sizes[a] == 1]
    lines = [*places, "[[maybe_unused]] const int k = k0;"]
    for section, point in _section_points(entry, scope):
        code = [*loops, "{", *indent(point), "}"]
        if not _is_single(entry):
            code = [f"if ({_has_level(section)}) {{", *indent(code), "}"]
        lines += code
    return lines


def _body(section: Section, entry: Entry, scope: Scope) -> list[str]:
    """Return the statements of a section at a point, behind loads of what its loops read."""
    names = _of_levels(section, entry, scope)
    variables = {name: f"at_{scope.arrays[name]}" for name in names}
    loads = [
        f"const {TYPES[scope.dtypes[name]]} {text} = {element(scope, name, HERE)};"
        for name, text in variables.items()
    ]
    values = {(name, HERE): text for name, text in variables.items()}
    within = replace(scope, values={**scope.values, **values})
    return [*loads, *section_body(section, within)]


def _of_levels(section: Section, entry: Entry, scope: Scope) -> list[str]:
    """Return the arrays that loops read and that depend on the level alone, such as its index.

    Compilers would load them in each turn where a condition comes before that.
    """
    found = {
        read.name
        for statement in statements(section.body)
        if isinstance(statement, While)
        for read in reads((statement,))
        if read.offset == HERE and read.level is None
    }
    flat = (Stride.NONE, Stride.NONE)
    return [
        name
        for name in entry.arrays
        if name in found and name not in entry.written and scope.kinds[name][1][:2] == flat
    ]


def whole_tile(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of a tile that no edge cuts: each section on its levels."""
    head = ["const int i = i0, j = j0;", *inside(scope)]
    if tile.depth == 1:
        head.append("const int k = k0;")
    single = _is_single(entry)
    for section in entry.kernel.sections:
        names = touched(section)
        own = offsets([name for name in entry.arrays if name in names], scope)
        within = TileBody.of(section, entry, replace(scope, point=("e", "r")), tile)
        body = tile_body(within, own, alone=single and _is_open(section))
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


def _cut(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of a tile that the last row cuts: its points one by one."""
    return [
        "for (int j = j0; j < j1; ++j)",
        f"for (int i = i0; i < i0 + {tile.width}; ++i) {{",
        *indent(_levels(entry, scope, tile)),
        "}",
    ]


def _levels(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return the code of a point (i, j) on all levels of the tile.

    Several levels are written out, so that a thread waits for what they load together.
    """
    if tile.depth == 1:
        return ["const int k = k0;", *point_lines(entry, scope)]
    at_once, point = min(tile.depth, _LEVELS_AT_AN_EDGE), point_lines(entry, scope)
    return [
        "int first = k0;",
        "#pragma unroll 1",
        f"for (; first + {at_once} <= k1; first += {at_once}) {{",
        "  #pragma unroll",
        f"  for (int k = first; k < first + {at_once}; ++k) {{",
        *indent(indent(point)),
        "  }",
        "}",
        "#pragma unroll 1",
        "for (int k = first; k < k1; ++k) {",
        *indent(point),
        "}",
    ]


def _is_single(entry: Entry) -> bool:
    """Whether the launch has just the levels of the only section."""
    return entry.level_at_hand or len(entry.kernel.sections) == 1


def _is_open(section: Section) -> bool:
    """Whether an interval has more levels in a higher domain."""
    return section.interval.end.from_end and not section.interval.start.from_end


def _has_level(section: Section) -> str:
    return f"k >= {bound(section.interval.start)} && k < {bound(section.interval.end)}"


def _clipped(section: Section) -> tuple[str, str]:
    """Return the first level of a section in a tile, and the one past its last."""
    return f"max(k0, {bound(section.interval.start)})", f"min(k1, {bound(section.interval.end)})"
