"""The kind of FORWARD and BACKWARD kernel, whose threads compute a column each."""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.columns.text import columns_text
from halocline_engine.backends.cuda.kernels.columns.tile import (
    column_blocks,
    columns_fitted,
    columns_memory,
    columns_tile,
    shared_bytes,
)
from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.launch import Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile, in_grid_order
from halocline_engine.ir.extent import Range
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["COLUMNS"]


def _tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    if entry.kernel.order is Order.PARALLEL:
        return None
    return columns_tile(entry, schedule, variant, domain)


def _fit(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return a column's tile; one for levels or a rolling window was made for points."""
    if tile.along or tile.share or tile.chunk:
        return None
    return columns_fitted(in_grid_order(tile), entry, schedule, variant, domain)


def _launches(entry: Entry, domain: Domain, tile: Tile, _levels: Range) -> Iterator[Launch]:
    """Yield the launch of all columns, whatever levels are asked for."""
    blocks = column_blocks(entry, domain, tile)
    if blocks and domain[2]:
        yield Launch((blocks, 1, 1), (*tile.block, 1), entry.kernel.extent[1][0], 0, 1)


COLUMNS = KernelKind(
    tile=_tile,
    fit=_fit,
    text=columns_text,
    shared_bytes=shared_bytes,
    launches=_launches,
    block_memory=columns_memory,
)
