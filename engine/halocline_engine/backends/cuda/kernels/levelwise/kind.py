"""The kind of PARALLEL kernel on arrays along K that takes every program: a level of some columns.

Neighbouring threads have neighbouring levels, and then those of the next columns, so that they load
neighbouring elements. The columns of a thread share loads. Conditions and levels of the run are as
in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.levelwise.text import levelwise_text
from halocline_engine.backends.cuda.kernels.levelwise.tile import (
    levelwise_fitted,
    levelwise_tile,
    tiles_along,
)
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import Range

__all__ = ["LEVELWISE"]


def _launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    first, top = levels
    near, far = tiles_along(entry, domain, tile)
    if min(near, far, top - first) <= 0:
        return
    blocks = -(-near * (top - first) // tile.threads)
    high = min(far, MAX_BLOCKS)
    yield Launch((blocks, high, -(-far // high)), (tile.threads, 1, 1), 0, first, top)


LEVELWISE = KernelKind(
    tile=levelwise_tile,
    fit=levelwise_fitted,
    text=levelwise_text,
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=_launches,
)
