"""The kind of PARALLEL kernel whose threads compute a tile of points each."""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.points.plane_tile import shared_bytes
from halocline_engine.backends.cuda.kernels.points.text import points_text
from halocline_engine.backends.cuda.kernels.points.tile import (
    is_plain,
    loads_first,
    points_fitted,
    points_tile,
)
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.launch import (
    Launch,
    launches,
    threads_along_i,
    tiles_along_i,
)
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import Range

__all__ = ["POINTS"]


def _launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    count = tiles_along_i if tile.planes else threads_along_i
    return launches(entry, domain, tile, levels, count(entry, domain, tile))


POINTS = KernelKind(
    tile=points_tile,
    fit=lambda tile, entry, schedule, variant, _domain: points_fitted(
        tile, entry, schedule, variant
    ),
    text=lambda entry, schedule, variant, scope, tile: points_text(
        entry,
        scope,
        tile,
        plain=is_plain(entry, schedule, variant),
        loads_first=loads_first(entry, schedule, variant),
    ),
    shared_bytes=lambda entry, schedule, variant, tile, _domain: (
        shared_bytes(entry, schedule, variant, tile) if tile.planes else 0
    ),
    launches=_launches,
)
