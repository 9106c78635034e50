"""Cost model for kernels whose warps move columns in chunks of levels.

Chunks should be as long as what memory is read in. But all windows of a warp are in shared memory,
and a processor needs many warps, as each level of a column waits for the one before.
"""

from __future__ import annotations

from halocline_engine.backends.cuda.kernels.column_chunks.windows import (
    COLUMNS,
    shared_bytes,
    windows_of,
)
from halocline_engine.backends.cuda.kernels.columns.latency import level_cycles
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Variant,
    is_guarded,
    lies_along_k,
)
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["CHUNKS", "chunks_bytes", "chunks_fitted", "chunks_tile"]

#: Bytes of shared memory of all blocks of a processor, and what each of them takes besides.
_CHIP, _RESERVED = 228 * 1024, 1024
#: The most that a block can have, and the most blocks of a processor.
_MOST, _BLOCKS = 227 * 1024, 32
#: Levels of a chunk.
CHUNKS = (8, 16, 32)
#: Bytes that a processor of a large device moves in a cycle. Pieces of this many bytes each take
#: twice as long as long ones, as measured (decision 0076).
_RATE, _PIECE = 18.0, 51
#: Columns that a number of 32 bits counts.
_LARGEST = 2**31 - COLUMNS


def chunks_tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    """Return the tile whose levels take the least time, or None for another kind of kernel."""
    found: list[tuple[float, Tile]] = []
    for chunk in CHUNKS:
        tile = Tile((COLUMNS, 1), chunk=chunk)
        fitted = chunks_fitted(tile, entry, schedule, variant, domain)
        if fitted is not None:
            found.append((_time(entry, schedule, variant, fitted), fitted))
    return min(found, key=lambda one: one[0])[1] if found else None


def chunks_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile, or None where the kernel, its arrays or its domain do not suit it."""
    kernel = entry.kernel
    if tile.chunk not in CHUNKS or kernel.order is Order.PARALLEL or not variant.disjoint:
        return None
    fields = {field.name for field in schedule.program.fields}
    if entry.level_at_hand or is_guarded(entry, fields):
        return None
    (i_low, i_high), (j_low, j_high) = kernel.extent
    columns = (domain[0] + i_high - i_low) * (domain[1] + j_high - j_low)
    if columns > _LARGEST or not lies_along_k(entry, schedule, variant):
        return None
    made = Tile((COLUMNS, 1), levels=domain[2], chunk=tile.chunk)
    if windows_of(entry, schedule, variant, made) is None:
        return None
    return made if chunks_bytes(entry, schedule, variant, made) <= _MOST else None


def chunks_bytes(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return the bytes of shared memory of a block."""
    passes = windows_of(entry, schedule, variant, tile)
    return shared_bytes(passes or (), len(variant.kinds))


def _time(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> float:
    """Return how long the levels of a column take, in bytes that memory moves meanwhile.

    A level takes as long as its bytes, more of them where chunks are shorter than the pieces of
    memory, and as its operations, where few columns are there to hide what each waits for: a warp
    that waits for a chunk computes nothing.
    """
    blocks = min(_BLOCKS, _CHIP // (chunks_bytes(entry, schedule, variant, tile) + _RESERVED))
    total = 0.0
    for one in windows_of(entry, schedule, variant, tile) or ():
        moved = sum(
            (bool(window.loaded) + bool(window.stored)) * (window.size + _PIECE / tile.chunk)
            for window in one.windows
        )
        total += moved + level_cycles(one.one) * _RATE / (blocks * COLUMNS)
    return total
