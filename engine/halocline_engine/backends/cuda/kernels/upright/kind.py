"""The kind of PARALLEL kernel for points that look up levels which only a run knows.

A block has a row of columns, and its threads go up them together: rows of threads have levels that
follow each other. So points find in the L1 cache what others of their column looked up, where with
blocks of one level each would load it from memory that all processors share.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.points.section import has_loops
from halocline_engine.backends.cuda.kernels.points.text import levels_in_turn
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Launch
from halocline_engine.backends.cuda.model.looked_up import levels_looked_up
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.text.fragments import signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.extent import Range
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["UPRIGHT"]

#: The columns of a block, the most threads in each, and the most levels that it goes up.
_COLUMNS, _LEVELS, _DEPTH = 32, 16, 128
_MOST_THREADS = 1024
#: Levels of a thread whose loads are under way together, and the most that each looks up and the
#: most arrays with which that pays.
_AT_ONCE, _FEW, _FEW_ARRAYS = 2, 2, 5
#: Blocks that keep a large device busy.
_BUSY = 132 * 4


def _tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    if not any(levels_looked_up(entry, schedule)):
        return None
    # As few rounds as there can be, of as many threads each.
    rounds = -(-domain[2] // _LEVELS)
    threads = -(-domain[2] // rounds)
    is_small = -(-domain[0] // _COLUMNS) * domain[1] < _BUSY
    depth = threads if is_small else max(_DEPTH // threads, 1) * threads
    tile = Tile((_COLUMNS, threads), depth=depth, upright=True)
    return _fit(tile, entry, schedule, variant, domain)


def _fit(
    tile: Tile, entry: Entry, _schedule: Schedule, _variant: Variant, _domain: Domain
) -> Tile | None:
    if entry.kernel.order is not Order.PARALLEL or entry.level_at_hand or entry.staged is not None:
        return None
    if not 0 < tile.threads <= _MOST_THREADS or tile.depth < 1:
        return None
    return Tile(tile.block, depth=tile.depth, upright=True)


def _text(entry: Entry, schedule: Schedule, scope: Scope, tile: Tile) -> list[str]:
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    return [
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        f"const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x){signed(i_low)};",
        "const int j = row + (int)blockIdx.y;",
        "if (i >= i1 || j >= j1) return;",
        f"const int k0 = level + (int)blockIdx.z * {tile.depth};",
        f"const int k1 = min(k0 + {tile.depth}, top);",
        "const int first = k0 + (int)threadIdx.y;",
        *levels_in_turn(entry, scope, tile.block[1], _at_once(entry, schedule)),
    ]


def _at_once(entry: Entry, schedule: Schedule) -> int:
    """Return how many levels of a thread load together."""
    arrays = {*entry.arrays} - schedule.program.made
    several = len(arrays) > _FEW_ARRAYS or max(levels_looked_up(entry, schedule)) > _FEW
    return 1 if has_loops(entry) or several else _AT_ONCE


def _launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    ni, nj = domain[0] + i_high - i_low, domain[1] + j_high - j_low
    first, top = levels
    if min(ni, nj, top - first) <= 0:
        return
    across, high = -(-ni // tile.block[0]), -(-(top - first) // tile.depth)
    for row in range(0, nj, MAX_BLOCKS):
        grid = (across, min(nj - row, MAX_BLOCKS), high)
        yield Launch(grid, (*tile.block, 1), row + j_low, first, top)


UPRIGHT = KernelKind(
    tile=_tile,
    fit=_fit,
    text=lambda entry, schedule, _variant, scope, tile: _text(entry, schedule, scope, tile),
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=_launches,
)
