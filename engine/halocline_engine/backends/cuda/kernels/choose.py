"""Which tile each kernel of a schedule gets, and the shared memory that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from halocline_engine.backends.cuda.kernels.columns import tile as column_tile
from halocline_engine.backends.cuda.kernels.levels import tile as levels_tile
from halocline_engine.backends.cuda.kernels.points import plane_tile
from halocline_engine.backends.cuda.kernels.points.tile import fitted, points_tile
from halocline_engine.backends.cuda.kernels.rolling import tile as rings_tile
from halocline_engine.backends.cuda.kernels.staged import tile as staged_tile
from halocline_engine.backends.cuda.model.entries import Entry, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["TileFor", "shared_bytes", "tile_for", "tiles_of"]

#: Chooses the tile of a kernel for a kind of call.
TileFor: TypeAlias = Callable[[Entry, Schedule, Variant, Domain], Tile]


def tile_for(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
    """Return the tile that the cost models choose."""
    if entry.staged is not None:
        return staged_tile.staged_tile(entry.staged, domain)
    if entry.kernel.order is not Order.PARALLEL:
        return column_tile.column_tile(entry, schedule, variant, domain)
    return (
        levels_tile.along_tile(entry, schedule, variant, domain)
        or rings_tile.rings_tile(entry, schedule, variant, domain)
        or points_tile(entry, schedule, variant, domain)
    )


def tiles_of(
    schedule: Schedule, variant: Variant, domain: Domain, choose: TileFor = tile_for
) -> Mapping[str, Tile]:
    """Return the tile of every kernel by its name in the code, cut down to what it can have."""
    return {
        entry.name: _allowed(
            choose(entry, schedule, variant, domain), entry, schedule, variant, domain
        )
        for entry in entries_of(schedule)
    }


def shared_bytes(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile, domain: Domain
) -> int:
    """Return how many bytes of dynamic shared memory a block of a kernel has."""
    if entry.staged is not None:
        return staged_tile.shared_bytes(entry.staged, tile)
    if tile.along:
        return levels_tile.shared_bytes(entry, schedule, variant, tile)
    if entry.kernel.order is Order.PARALLEL:
        return plane_tile.shared_bytes(entry, schedule, variant, tile) if tile.planes else 0
    return column_tile.shared_bytes(entry, schedule, tile, domain)


def _allowed(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile:
    if entry.staged is not None or entry.kernel.order is not Order.PARALLEL:
        tile = replace(tile, planes=0, sums=False, strip=0, zigzag=False, column=0, backward=False)
    if entry.staged is not None:
        return staged_tile.staged_fitted(tile, entry.staged, domain)
    if tile.along or tile.share:
        fit = levels_tile.along_fitted if tile.along else rings_tile.rings_fitted
        found = fit(tile, entry, schedule, variant, domain)
        if found is not None:
            return found
        tile = replace(tile_for(entry, schedule, variant, domain), along=0, share=0)
    if entry.kernel.order is Order.PARALLEL:
        return fitted(tile, entry, schedule, variant)
    return column_tile.fitted(tile, entry, schedule, variant, domain)
