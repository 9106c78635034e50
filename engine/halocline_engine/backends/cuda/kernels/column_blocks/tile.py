"""Cost model for tiles of blocks of columns: their columns and threads, and what is on chip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.column_blocks.held import held_of, wanted
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Variant,
    arrays_of,
    lies_along_k,
)
from halocline_engine.backends.cuda.model.launch import Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = [
    "column_blocks_fitted",
    "column_blocks_launches",
    "column_blocks_tile",
    "other_tile",
    "pitch",
    "shared_bytes",
    "within_domain",
]

#: Shared memory that all blocks of a processor have together, and what each takes besides.
_CHIP, _RESERVED = 227 * 1024, 1024
#: What a block has of it so that several fit, or at most.
_ROOM = 76 * 1024
#: Columns of a block, from the number that loads best.
_COLUMNS = (32, 16, 8)
#: Threads of a block, and those of a processor that keep it busy.
_THREADS = (256, 512)
_BUSY = 1792
_MOST_THREADS = 1024
#: Blocks that do not keep a large device busy.
_FEW = 132 * 2


def column_blocks_tile(
    entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile of a kernel, or None where there is nothing to have on chip."""
    if not _may_be(entry):
        return None
    near = variant.near + 1 if lies_along_k(entry, schedule, variant) else 0
    places = wanted(entry, schedule, variant, domain[2]).places
    if not places:
        return None
    bare = Tile((_COLUMNS[0], 1), held=True, levelwise=near, levels=domain[2])
    tiles = _tiles(bare, [place.dtype.itemsize for place in places], entry.own)
    fitting = (t for t in tiles if shared_bytes(entry, schedule, variant, t) <= _ROOM)
    tile = next(fitting, bare)
    if not tile.on_chip and not entry.swept:
        return None
    columns = tile.block[0]
    blocks = sum(launch.grid[0] for launch in column_blocks_launches(domain, tile))
    if blocks < _FEW and not entry.swept:
        return None
    shared = shared_bytes(entry, schedule, variant, tile)
    resident = _CHIP // (shared + _RESERVED) if blocks >= _FEW else 1
    threads = next((n for n in _THREADS if n * resident >= _BUSY), _THREADS[-1])
    return replace(tile, block=(columns, max(1, min(threads // columns, domain[2]))))


def _tiles(tile: Tile, sizes: list[int], own: frozenset[str]) -> Iterator[Tile]:
    """Yield tiles with ever less on chip, or fewer columns where only temporaries are left."""
    for number in range(len(sizes), max(len(own), 1) - 1, -1):
        yield replace(tile, on_chip=sum(sizes[:number]))
    for columns in _COLUMNS[1:]:
        yield replace(tile, block=(columns, 1), on_chip=sum(sizes[: max(len(own), 1)]))


def column_blocks_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile cut down to what a block can have, or None where it cannot be."""
    if not _may_be(entry):
        return None
    if not tile.held:
        return column_blocks_tile(entry, schedule, variant, domain)
    if not 0 < tile.threads <= _MOST_THREADS:
        return None
    near = variant.near + 1 if lies_along_k(entry, schedule, variant) else 0
    made = Tile(tile.block, held=True, levelwise=near, on_chip=tile.on_chip, levels=domain[2])
    fits = shared_bytes(entry, schedule, variant, made) <= _CHIP - _RESERVED
    made = made if fits else replace(made, on_chip=0)
    return made if entry.swept or held_of(entry, schedule, variant, made).places else None


def other_tile(entry: Entry, schedule: Schedule, tile: Tile) -> Tile:
    """Return the tile for arrays that have levels beyond the domain: only temporaries on chip."""
    sizes = [d.itemsize for name, d in arrays_of(schedule) if name in entry.own]
    return replace(tile, on_chip=min(tile.on_chip, sum(sizes)))


def within_domain(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> frozenset[str]:
    """Return the fields of which points look up levels on chip: only those of the domain are."""
    places = held_of(entry, schedule, variant, tile).places
    return frozenset(one.name for one in places if one.copied and one.at_points)


def shared_bytes(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return the bytes of shared memory of a block; each array begins at 16 bytes."""
    places = held_of(entry, schedule, variant, tile).places
    return sum(-(-pitch(tile) * place.dtype.itemsize // 16) * 16 for place in places)


def pitch(tile: Tile) -> int:
    """Return the elements that a block has of an array.

    Where levels lie side by side, columns are an odd number of elements apart, so that threads of
    neighbouring columns use all banks of memory.
    """
    return tile.block[0] * (tile.levels | 1 if tile.levelwise else tile.levels)


def column_blocks_launches(domain: Domain, tile: Tile) -> Iterator[Launch]:
    """Yield the launch of all columns."""
    near, far = (domain[1], domain[0]) if tile.levelwise == 2 else (domain[0], domain[1])
    if min(near, far, domain[2]) > 0:
        blocks = -(-near // tile.block[0]) * far
        yield Launch((blocks, 1, 1), (*tile.block, 1), 0, 0, domain[2])


def _may_be(entry: Entry) -> bool:
    plain = entry.staged is None and not entry.level_at_hand
    return plain and entry.kernel.order is Order.PARALLEL and entry.kernel.extent == CENTRE
