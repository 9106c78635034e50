"""The kind of kernel whose blocks run several stages, one after the other."""

from __future__ import annotations

from typing import cast

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.staged.text import staged_text
from halocline_engine.backends.cuda.kernels.staged.tile import (
    block_memory_of,
    shared_bytes,
    staged_fitted,
    staged_tile,
)
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.launch import launches, tiles_along_i
from halocline_engine.backends.cuda.model.staged import Staged
from halocline_engine.backends.cuda.model.tile import in_grid_order

__all__ = ["STAGED"]


def _stages(entry: Entry) -> Staged:
    """Return the stages of a kernel of this kind, which always has them."""
    return cast("Staged", entry.staged)


STAGED = KernelKind(
    tile=lambda entry, _schedule, _variant, domain: (
        None if entry.staged is None else staged_tile(entry.staged, domain)
    ),
    fit=lambda tile, entry, _schedule, _variant, domain: staged_fitted(
        in_grid_order(tile), _stages(entry), domain
    ),
    text=lambda entry, _schedule, _variant, scope, tile: staged_text(
        entry, _stages(entry), scope, tile
    ),
    shared_bytes=lambda entry, _schedule, _variant, tile, _domain: shared_bytes(
        _stages(entry), tile
    ),
    launches=lambda entry, domain, tile, levels: launches(
        entry, domain, tile, levels, tiles_along_i(entry, domain, tile)
    ),
    block_memory=lambda entry, _schedule, tile, domain: block_memory_of(
        _stages(entry), tile, domain
    ),
    one_domain=True,
)
