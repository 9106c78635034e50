"""Launch geometry: how many threads in which blocks compute a kernel. No device is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.backends.cuda.tiling import Domain, Tile
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Interval
from halocline_engine.ir.types import Order

__all__ = [
    "Dim3",
    "Launch",
    "launches",
    "level_range",
]

Dim3: TypeAlias = tuple[int, int, int]
#: The most blocks along y and along z that a launch may have.
_MAX_BLOCKS = 65535


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: blocks, threads in a block, the first row and the levels from first to top."""

    grid: Dim3
    block: Dim3
    row: int
    level: int
    top: int


def level_range(interval: Interval, levels: int) -> Range:
    """Return the first level of an interval and the one past its last."""
    return interval.start.level(levels), interval.end.level(levels)


def launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    """Yield the launches that cover the domain widened by the kernel's extent.

    `levels` are computed, the last one not included; a column kernel takes no notice of them.
    There is more than one launch only where a grid would have too many blocks.
    """
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    start = i_low // tile.width * tile.width
    ni, nj = domain[0] + i_high - start, domain[1] + j_high - j_low
    parallel = entry.kernel.order is Order.PARALLEL
    first, top = levels if parallel else (0, 1)
    if domain[0] + i_high <= i_low or nj <= 0 or top <= first:
        return
    rows = tile.block[1] * tile.rows
    columns = -(-ni // (tile.block[0] * tile.width))
    for row in range(0, nj, rows * _MAX_BLOCKS):
        tiles = min(-(-(nj - row) // rows), _MAX_BLOCKS)
        for level in range(first, top, tile.depth * _MAX_BLOCKS):
            deep = min(-(-(top - level) // tile.depth), _MAX_BLOCKS)
            yield Launch(
                grid=(columns, tiles, deep),
                block=(*tile.block, 1),
                row=row + j_low,
                level=level,
                top=top,
            )
