"""The kind of PARALLEL kernel on arrays along K that takes every program: a point a thread.

Neighbouring threads have neighbouring levels, and then those of the next column, so that they load
neighbouring elements. A thread goes on to the columns behind its own, which share loads with it.
Conditions and levels of the run are as in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.points.text import point_lines
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Variant,
    arrays_of,
    columns_read,
    lies_along_k,
)
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.extent import Range
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["LEVELWISE"]

#: The threads of a block, with a column each and with several, twice as many for columns with more
#: levels than `_LONG`, and the most.
_ALONE, _SHARING, _LONG = 128, 256, 128
_MOST_THREADS = 1024
#: The columns of a thread where each point reads so many columns of an array or more, since
#: neighbours then find in the L1 cache what others loaded, or where there are few arrays, since
#: places are computed once for all columns. With more arrays than that, fewer loads than threads of
#: a column each have would be under way.
_COLUMNS, _FEW = 2.0, 5
#: Bytes of each array that such a thread loads.
_BYTES = 32
#: Threads along a row of columns that a number of 32 bits counts.
_MOST = 2**32 - _MOST_THREADS
#: Blocks that keep a large device busy.
_BUSY = 132 * 8


def _tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    few = len({*entry.arrays} - {*schedule.program.made}) <= _FEW
    sharing = few or columns_read(entry) >= _COLUMNS
    threads = (_SHARING if sharing else _ALONE) * (2 if domain[2] > _LONG else 1)
    rows = max(1, _BYTES // _size(entry, schedule)) if sharing else 1
    tile = Tile((threads, 1), rows=rows, levelwise=variant.near + 1)
    while tile.rows > 1 and _blocks(entry, domain, tile) < _BUSY:
        tile = replace(tile, rows=tile.rows // 2)
    return _fit(tile, entry, schedule, variant, domain)


def _size(entry: Entry, schedule: Schedule) -> int:
    """Return the bytes of an element of the largest type."""
    return max(d.itemsize for name, d in arrays_of(schedule) if name in entry.arrays)


def _fit(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    if entry.kernel.order is not Order.PARALLEL or entry.level_at_hand or entry.staged is not None:
        return None
    if tile.block[1] != 1 or not 0 < tile.threads <= _MOST_THREADS or tile.rows < 1:
        return None
    near = _points(entry, domain)[tile.levelwise - 1]
    if near * domain[2] > _MOST or not lies_along_k(entry, schedule, variant):
        return None
    return Tile(tile.block, rows=tile.rows, levelwise=tile.levelwise)


def _blocks(entry: Entry, domain: Domain, tile: Tile) -> int:
    """Return how many blocks a tile makes of all levels."""
    near, far = _sides(entry, domain, tile)
    return -(-near * domain[2] // tile.threads) * -(-far // tile.rows)


def _sides(entry: Entry, domain: Domain, tile: Tile) -> tuple[int, int]:
    """Return the points along the axis of neighbouring columns, and along the other one."""
    along_i, along_j = _points(entry, domain)
    return (along_i, along_j) if tile.levelwise == 1 else (along_j, along_i)


def _points(entry: Entry, domain: Domain) -> tuple[int, int]:
    """Return how many points along I and J a kernel computes."""
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    return domain[0] + i_high - i_low, domain[1] + j_high - j_low


def _text(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    low = {"i": signed(i_low), "j": signed(j_low)}
    near, far = "ij" if tile.levelwise == 1 else "ji"
    body = indent(point_lines(entry, scope))
    loop = (
        f"for (int {far} = (int)blockIdx.y{low[far]}; {far} < {far}1; {far} += (int)gridDim.y) {{"
    )
    if tile.rows > 1:
        # A loop that is left out where a thread has one column: it cost up to a tenth.
        inner = f"for (int {far} = row0; {far} < min(row0 + {tile.rows}, {far}1); ++{far}) {{"
        body = indent([inner, *body, "}"])
        loop = (
            f"for (int row0 = (int)blockIdx.y * {tile.rows}{low[far]}; row0 < {far}1;"
            f" row0 += (int)gridDim.y * {tile.rows}) {{"
        )
    return [
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        "const unsigned t = blockIdx.x * blockDim.x + threadIdx.x, height = top - level;",
        f"const int {near} = (int)(t / height){low[near]}, k = level + (int)(t % height);",
        f"if ({near} >= {near}1) return;",
        loop,
        *body,
        "}",
    ]


def _launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    first, top = levels
    near, far = _sides(entry, domain, tile)
    if min(near, far, top - first) <= 0:
        return
    blocks = -(-near * (top - first) // tile.threads)
    row = entry.kernel.extent[1][0]
    high = min(-(-far // tile.rows), MAX_BLOCKS)
    yield Launch((blocks, high, 1), (tile.threads, 1, 1), row, first, top)


LEVELWISE = KernelKind(
    tile=_tile,
    fit=_fit,
    text=lambda entry, _schedule, _variant, scope, tile: _text(entry, scope, tile),
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=_launches,
)
