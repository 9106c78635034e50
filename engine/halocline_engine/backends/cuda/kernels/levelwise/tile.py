"""Cost model for tiles of kernels that have a level of some columns in each thread.

What neighbouring columns both read is loaded once where a thread has both. So it has the columns
that leave least to load and store for a point, as far as their elements fit its registers.
"""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.kernels.points.section import has_branches
from halocline_engine.backends.cuda.kernels.points.tile import (
    is_plain,
    loads_first,
    loads_together,
    moved,
    registers_of,
    work,
)
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Variant,
    arrays_of,
    columns_read,
    lies_along_k,
)
from halocline_engine.backends.cuda.model.looked_up import levels_looked_up
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["SHAPES", "has_windows", "levelwise_fitted", "levelwise_tile", "tiles_along"]

#: The threads of a block where each holds little, where it holds more words than `_LARGE`, twice as
#: many for columns with more levels than `_LONG`, and the most.
_THREADS, _FEWER, _LONG = 256, 128, 128
_LARGE = 120
_MOST_THREADS = 1024
#: Columns of a thread along I and J.
SHAPES = ((4, 4), (4, 2), (2, 4), (8, 1), (1, 8), (4, 1), (2, 2), (1, 4), (2, 1), (1, 2))
#: What a point of them loads and stores, of what it does alone, from which on they are worth it.
_WORTH = 0.8
#: Elements that a thread holds, and its operations where quotients and functions make branches.
_ELEMENTS, _MOST_WORK = 128, 1500
#: The columns of a thread that loads where it computes, if each point reads so many columns of an
#: array or more, since neighbours then find in the L1 cache what others loaded, or if there are few
#: arrays, since places are computed once for all columns, or if it looks tables up, since it waits
#: for several at once. With more arrays than that, fewer loads than threads of a column each have
#: would be under way.
_COLUMNS, _FEW = 2.0, 5
#: Bytes of each array that such a thread loads.
_BYTES = 32
#: Threads along a row of columns that a number of 32 bits counts.
_MOST = 2**32 - _MOST_THREADS
#: Blocks that keep a large device busy.
_BUSY = 132 * 8


def levelwise_tile(
    entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile of a PARALLEL kernel on arrays that lie along K, or None for other arrays."""
    given = (entry, schedule, variant, domain)
    shared = _shared(*given) if is_plain(entry, schedule, variant) else None
    tile = shared or _apart(*given)
    return levelwise_fitted(tile, entry, schedule, variant, domain)


def _shared(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    """Return the tile whose columns share most of what they load, or None where that is little."""
    words = -(-_size(entry, schedule) // 4)
    tiles: list[tuple[float, Tile]] = []
    for width, rows in SHAPES:
        shape = Tile((1, 1), width, rows)
        held = registers_of(entry, schedule, variant, shape)
        threads = (_FEWER if held > _LARGE else _THREADS) * (2 if domain[2] > _LONG else 1)
        tile = replace(shape, block=(threads, 1), levelwise=variant.near + 1)
        heavy = width * rows * work(entry) > _MOST_WORK and _branches(entry)
        beyond = width > domain[0] or rows > domain[1]
        if beyond or held > _ELEMENTS * words or heavy or _blocks(entry, domain, tile) < _BUSY:
            continue
        if has_windows(entry, schedule, variant, tile):
            tiles.append((moved(entry, schedule, variant, width, rows) / (width * rows), tile))
    return min(tiles, key=lambda each: each[0])[1] if tiles else None


def _branches(entry: Entry) -> bool:
    return any(has_branches(section) for section in entry.kernel.sections)


def _apart(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
    """Return the tile of threads that load where they compute, column by column."""
    few = len({*entry.arrays} - {*schedule.program.made}) <= _FEW
    tables = loads_together(entry, schedule, variant) and not any(levels_looked_up(entry, schedule))
    sharing = few or tables or columns_read(entry) >= _COLUMNS
    threads = (_THREADS if sharing else _FEWER) * (2 if domain[2] > _LONG else 1)
    columns = max(1, _BYTES // _size(entry, schedule)) if sharing else 1
    across = 1 - variant.near
    # Columns that follow each other have as little in common, where the domain has no others.
    along = ("width", "rows")[across if domain[across] > 1 else variant.near]
    tile = Tile((threads, 1), levelwise=variant.near + 1)
    while columns > 1 and _blocks(entry, domain, replace(tile, **{along: columns})) < _BUSY:
        columns //= 2
    return replace(tile, **{along: columns})


def has_windows(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> bool:
    """Whether a thread loads what its points read before it computes them."""
    points = tile.width * tile.rows
    if points == 1:
        return loads_first(entry, schedule, variant)
    if not is_plain(entry, schedule, variant):
        return False
    alone = moved(entry, schedule, variant, 1, 1)
    return moved(entry, schedule, variant, tile.width, tile.rows) <= _WORTH * points * alone


def _size(entry: Entry, schedule: Schedule) -> int:
    """Return the bytes of an element of the largest type."""
    return max(d.itemsize for name, d in arrays_of(schedule) if name in entry.arrays)


def levelwise_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return a tile cut down to what the kernel can have, or None where it is not for it."""
    if entry.kernel.order is not Order.PARALLEL or entry.level_at_hand or entry.staged is not None:
        return None
    if tile.block[1] != 1 or not 0 < tile.threads <= _MOST_THREADS:
        return None
    if min(tile.width, tile.rows) < 1 or not lies_along_k(entry, schedule, variant):
        return None
    made = Tile(tile.block, tile.width, tile.rows, levelwise=tile.levelwise)
    near, _ = tiles_along(entry, domain, made)
    return made if near * domain[2] <= _MOST else None


def _blocks(entry: Entry, domain: Domain, tile: Tile) -> int:
    """Return how many blocks a tile makes of all levels."""
    near, far = tiles_along(entry, domain, tile)
    return -(-near * domain[2] // tile.threads) * far


def tiles_along(entry: Entry, domain: Domain, tile: Tile) -> tuple[int, int]:
    """Return the tiles along the axis of neighbouring columns, and along the other one."""
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    along_i = -(-(domain[0] + i_high - i_low) // tile.width)
    along_j = -(-(domain[1] + j_high - j_low) // tile.rows)
    return (along_i, along_j) if tile.levelwise == 1 else (along_j, along_i)
