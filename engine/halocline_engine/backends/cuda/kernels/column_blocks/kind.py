"""The kind of PARALLEL kernel whose blocks have all levels of columns, in part on chip."""

from __future__ import annotations

from halocline_engine.backends.cuda.kernels.column_blocks.text import column_blocks_text
from halocline_engine.backends.cuda.kernels.column_blocks.tile import (
    column_blocks_fitted,
    column_blocks_launches,
    column_blocks_tile,
    other_tile,
    shared_bytes,
    within_domain,
)
from halocline_engine.backends.cuda.kernels.kind import KernelKind

__all__ = ["COLUMN_BLOCKS"]

COLUMN_BLOCKS = KernelKind(
    tile=column_blocks_tile,
    fit=column_blocks_fitted,
    text=column_blocks_text,
    shared_bytes=lambda entry, schedule, variant, tile, _domain: shared_bytes(
        entry, schedule, variant, tile
    ),
    launches=lambda _entry, domain, tile, _levels: column_blocks_launches(domain, tile),
    within_domain=within_domain,
    other_tile=other_tile,
)
