"""The kind of PARALLEL kernel on arrays along K, whose threads have one level each."""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.levels.text import levels_text
from halocline_engine.backends.cuda.kernels.levels.tile import (
    levels_fitted,
    levels_tile,
    shared_bytes,
)
from halocline_engine.backends.cuda.model.entries import Entry, Variant, columns_read
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import Range
from halocline_engine.schedule.nodes import Schedule

__all__ = ["LEVELS"]


#: Columns of each array that a point may read; blocks of several columns both ways share more.
_COLUMNS = 2.3


def _tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    if columns_read(entry) > _COLUMNS:
        return None
    return levels_tile(entry, schedule, variant, domain)


def _launches(_entry: Entry, domain: Domain, tile: Tile, span: Range) -> Iterator[Launch]:
    """Yield launches of blocks of neighbouring columns, each column in its parts."""
    near, far = domain[tile.along - 1], domain[2 - tile.along]
    parts = -(-(span[1] - span[0]) // tile.depth)
    blocks = -(-near // (tile.block[1] * tile.rows)) * parts
    for row in range(0, far, MAX_BLOCKS):
        grid = (blocks, min(far - row, MAX_BLOCKS), 1)
        yield Launch(grid, (*tile.block, 1), row, *span)


LEVELS = KernelKind(
    tile=_tile,
    fit=levels_fitted,
    text=levels_text,
    shared_bytes=lambda entry, schedule, variant, tile, _domain: shared_bytes(
        entry, schedule, variant, tile
    ),
    launches=_launches,
    one_domain=True,
)
