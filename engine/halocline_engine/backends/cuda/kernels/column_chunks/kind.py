"""The kind of FORWARD and BACKWARD kernel on arrays along K, whose warps transpose chunks."""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.column_chunks.text import chunks_text
from halocline_engine.backends.cuda.kernels.column_chunks.tile import (
    chunks_blocks,
    chunks_bytes,
    chunks_fitted,
    chunks_memory,
    chunks_tile,
)
from halocline_engine.backends.cuda.kernels.column_chunks.windows import COLUMNS
from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.launch import Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import Range

__all__ = ["COLUMN_CHUNKS"]


def _launches(entry: Entry, domain: Domain, tile: Tile, _levels: Range) -> Iterator[Launch]:
    """Yield the launch of all columns, whatever levels are asked for."""
    blocks = chunks_blocks(entry, domain, tile)
    if blocks:
        yield Launch((blocks, 1, 1), (COLUMNS, 1, 1), entry.kernel.extent[1][0], 0, domain[2])


COLUMN_CHUNKS = KernelKind(
    tile=chunks_tile,
    fit=chunks_fitted,
    text=chunks_text,
    shared_bytes=lambda entry, schedule, variant, tile, _domain: chunks_bytes(
        entry, schedule, variant, tile
    ),
    launches=_launches,
    block_memory=chunks_memory,
)
