"""Choice of the kind of each kernel and of its tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from halocline_engine.backends.cuda.kernels.column_blocks.kind import COLUMN_BLOCKS
from halocline_engine.backends.cuda.kernels.column_chunks.kind import COLUMN_CHUNKS
from halocline_engine.backends.cuda.kernels.columns.kind import COLUMNS
from halocline_engine.backends.cuda.kernels.kind import BlockMemory, KernelKind
from halocline_engine.backends.cuda.kernels.levels.kind import LEVELS
from halocline_engine.backends.cuda.kernels.levelwise.kind import LEVELWISE
from halocline_engine.backends.cuda.kernels.points.kind import POINTS
from halocline_engine.backends.cuda.kernels.rolling.kind import ROLLING
from halocline_engine.backends.cuda.kernels.staged.kind import STAGED
from halocline_engine.backends.cuda.kernels.upright.kind import UPRIGHT
from halocline_engine.backends.cuda.model.entries import Entry, Variant, entries_of
from halocline_engine.backends.cuda.model.launch import Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import Range
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = [
    "TileFor",
    "block_memory",
    "kernel_kind",
    "launches",
    "shared_bytes",
    "tile_for",
    "tiles_of",
]

#: Chooses the tile of a kernel for a kind of call.
TileFor: TypeAlias = Callable[[Entry, Schedule, Variant, Domain], Tile]
#: The first of these that proposes a tile gets the kernel; the last one takes every kernel.
_KINDS = (STAGED, COLUMN_CHUNKS, COLUMNS, LEVELS, ROLLING, LEVELWISE, POINTS)
#: Those that can have a kernel with loops of its own, or with levels that only a run knows.
_GENERAL = (COLUMN_BLOCKS, COLUMN_CHUNKS, COLUMNS, LEVELWISE, UPRIGHT, POINTS)


def kernel_kind(entry: Entry, tile: Tile) -> KernelKind:
    """Return the kind of kernel that a tile makes of an entry."""
    if entry.staged is not None:
        return STAGED
    if entry.swept or tile.held:
        return COLUMN_BLOCKS
    if entry.kernel.order is not Order.PARALLEL:
        return COLUMN_CHUNKS if tile.chunk else COLUMNS
    if tile.along:
        return LEVELS
    if tile.levelwise:
        return LEVELWISE
    if tile.upright:
        return UPRIGHT
    return ROLLING if tile.share else POINTS


def tile_for(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
    """Return the tile that the cost models choose."""
    kinds = _GENERAL if entry.kernel.is_general else _KINDS
    proposed = (kind.tile(entry, schedule, variant, domain) for kind in kinds)
    return next(tile for tile in proposed if tile is not None)


def tiles_of(
    schedule: Schedule, variant: Variant, domain: Domain, choose: TileFor = tile_for
) -> Mapping[str, Tile]:
    """Return the tile of every kernel by its name in the code, cut down to what it can have."""
    return {
        entry.name: _fitted(
            choose(entry, schedule, variant, domain), entry, schedule, variant, domain
        )
        for entry in entries_of(schedule)
    }


def shared_bytes(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile, domain: Domain
) -> int:
    """Return how many bytes of dynamic shared memory a block of a kernel has."""
    return kernel_kind(entry, tile).shared_bytes(entry, schedule, variant, tile, domain)


def block_memory(
    schedule: Schedule, tiles: Mapping[str, Tile], domain: Domain
) -> Iterator[BlockMemory]:
    """Yield the memory that blocks of all kernels keep temporaries in."""
    for entry in entries_of(schedule):
        tile = tiles[entry.name]
        yield from kernel_kind(entry, tile).block_memory(entry, schedule, tile, domain)


def launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    """Yield the launches that cover the domain widened by the kernel's extent.

    `levels` are computed, the last one not included; a column kernel takes no notice of them.
    """
    return kernel_kind(entry, tile).launches(entry, domain, tile, levels)


def _fitted(tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
    """Return a tile cut down to what the kernel can have; of the plain kind if not of its own."""
    found = kernel_kind(entry, tile).fit(tile, entry, schedule, variant, domain)
    if found is not None:
        return found
    plain = replace(tile_for(entry, schedule, variant, domain), along=0, share=0, chunk=0)
    return kernel_kind(entry, plain).fit(plain, entry, schedule, variant, domain) or plain
