"""The body of FORWARD and BACKWARD kernels whose warps move their columns in chunks of levels.

A block is a warp. It brings the next chunk of each array to shared memory while its threads compute
the levels of one, a column each, and then brings what they wrote to memory. It does so for several
sets of columns, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.column_chunks.levels import ChunkLevels
from halocline_engine.backends.cuda.kernels.column_chunks.moves import (
    ChunkMoves,
    first_level,
    last_level,
)
from halocline_engine.backends.cuda.kernels.column_chunks.windows import (
    COLUMNS,
    PassWindows,
    windows_of,
)
from halocline_engine.backends.cuda.kernels.columns.flat_fields import (
    flat_fields,
    flat_loads,
    flat_stores,
    with_flat_fields,
)
from halocline_engine.backends.cuda.kernels.columns.placement import (
    placement_of,
    with_copies,
    with_copies_named,
)
from halocline_engine.backends.cuda.kernels.columns.text import stacked_places
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.errors import InternalError
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["chunks_text"]


def chunks_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel, one pass after the other."""
    entry, schedule, variant = with_copies(entry, schedule, variant, tile)
    scope = with_copies_named(scope, entry)
    passes = windows_of(entry, schedule, variant, tile)
    if passes is None:
        raise InternalError(f"Kernel '{entry.name}' has no windows: expected a tile that fits.")
    placement = placement_of(entry.kernel, schedule, tile)
    flat = flat_fields(entry.kernel)
    stacked = dict.fromkeys(placement.close - placement.variables, COLUMNS)
    scope = replace(with_flat_fields(scope, flat), stacked=stacked)
    carried = {name for one in passes for carry in one.carried for name in carry.names}
    lines = [*_offsets(passes, scope, tile.chunk), *flat_loads(scope, flat)]
    lines += [
        f"{TYPES[scope.dtypes[name]]} before_{scope.arrays[name]} = 0;"
        for name in entry.arrays
        if name in carried
    ]
    for one in passes:
        moves = ChunkMoves(one, scope, tile.chunk)
        levels = ChunkLevels(scope, entry, one, tile.chunk, placement.variables, moves).lines()
        lines += ["{", *indent(_pass_lines(one, moves, levels, tile.chunk)), "}"]
    stores = flat_stores(scope, flat)
    # The last warp has threads without a column, which only loaded what another one has.
    lines += ["if (lane < own) {", *indent(stores), "}"] if stores else []
    places = stacked_places(placement, scope, tile, "lane")
    return _for_each_set(entry, variant, places, lines)


def _for_each_set(entry: Entry, variant: Variant, places: list[str], lines: list[str]) -> list[str]:
    """Return what a block does for each set of columns, between what it does once.

    Each thread has the point along I and J of its column; the last ones compute none.
    """
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    size = {"i": f"ni{signed(i_high - i_low)}", "j": f"nj{signed(j_high - j_low)}"}
    low = {"i": signed(i_low), "j": signed(j_low)}
    near, far = "ji" if variant.near else "ij"
    start, step = f"(int)blockIdx.x * {COLUMNS}", f"(int)gridDim.x * {COLUMNS}"
    return [
        "extern __shared__ __align__(16) unsigned char chip[];",
        "const int lane = (int)threadIdx.x;",
        *places,
        f"const int row_size = {size[near]}, total = row_size * ({size[far]});",
        f"for (int first = {start}; first < total; first += {step}) {{",
        f"  const int own = min({COLUMNS}, total - first);",
        "  const int column = first + min(lane, own - 1);",
        f"  [[maybe_unused]] const int {near} = column % row_size{low[near]};",
        f"  [[maybe_unused]] const int {far} = column / row_size{low[far]};",
        *indent(lines),
        "}",
    ]


def _offsets(passes: tuple[PassWindows, ...], scope: Scope, chunk: int) -> Iterator[str]:
    """Yield the offsets of the columns whose levels a thread moves, for each kind of array."""
    moved = {w.name for one in passes for w in one.windows if not w.own}
    for number, kind in sorted({scope.kinds[name] for name in moved}):
        terms = [
            f"(index_t){axis}" if stride is Stride.ONE else f"(index_t){axis} * s{number}{axis}"
            for axis, stride in zip("ij", kind, strict=False)
            if stride is not Stride.NONE
        ]
        yield f"index_t columns{number}[{min(chunk, COLUMNS)}];"
        yield f"find_columns(columns{number}, {' + '.join(terms) or '(index_t)0'});"


def _pass_lines(one: PassWindows, moves: ChunkMoves, levels: list[str], chunk: int) -> list[str]:
    """Return a pass: chunk after chunk is loaded, computed and stored."""
    ends = [section.interval for section in one.one.sections]
    first, last = f"begin / {chunk}", f"(end - 1) / {chunk}"
    loop = f"for (int m = {first}; m <= {last}; ++m) {{"
    if one.one.order is not Order.FORWARD:
        first, loop = last, f"for (int m = {last}; m >= {first}; --m) {{"
    stores = moves.stores()
    return [
        f"const int begin = {first_level(ends)}, end = {last_level(ends)};",
        *moves.declarations(),
        f"[[maybe_unused]] const int initial = {first};",
        *moves.prologue(),
        loop,
        *indent(moves.loads()),
        "  copy_async_wait_all();",
        "  __syncwarp();",
        "  if (lane < own) {",
        *indent(indent(levels)),
        "  }",
        "  __syncwarp();",
        *indent([*stores, "__syncwarp();"] if stores else []),
        "}",
    ]
