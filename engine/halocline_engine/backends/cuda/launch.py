"""Launch geometry: how many threads in which blocks compute a kernel. No device is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Interval
from halocline_engine.ir.types import Order

__all__ = [
    "MAX_THREADS",
    "Block",
    "Dim3",
    "Domain",
    "Launch",
    "block_for",
    "launches",
    "level_range",
]

Dim3: TypeAlias = tuple[int, int, int]
Domain: TypeAlias = tuple[int, int, int]
#: Threads along I and J.
Block: TypeAlias = tuple[int, int]

MAX_THREADS = 256
#: The most blocks along y and along z that a launch may have.
_MAX_BLOCKS = 65535


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: blocks, threads in a block, and the first row and level."""

    grid: Dim3
    block: Dim3
    row: int
    level: int


def block_for(entry: Entry, domain: Domain) -> Block:
    """Return the block of threads: a warp or more along I, the rest along J.

    >>> from halocline_engine.schedule.nodes import Kernel
    >>> kernel = Kernel(Order.PARALLEL, ((0, 0), (0, 0)), (), ())
    >>> block_for(Entry("kernel0", kernel, False, (), (), ()), (1024, 1024, 8))
    (32, 4)
    """
    (low, high), _ = entry.kernel.extent
    points = domain[0] + high - low
    if domain[1] == 1:
        return (128, 1)
    if points <= 8:
        return (8, 16)
    if points <= 16:
        return (16, 8)
    return (32, 4) if entry.kernel.order is Order.PARALLEL else (64, 2)


def level_range(interval: Interval, levels: int) -> Range:
    """Return the first level of an interval and the one past its last."""
    return interval.start.level(levels), interval.end.level(levels)


def launches(
    entry: Entry, domain: Domain, block: Block, rows: int, levels: Range
) -> Iterator[Launch]:
    """Yield the launches that cover the domain widened by the kernel's extent.

    A thread computes `rows` rows along J.
    `levels` are computed, the last one not included; a column kernel takes no notice of them.
    There is more than one launch only where a grid would have too many blocks.
    """
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    ni, nj = domain[0] + i_high - i_low, domain[1] + j_high - j_low
    parallel = entry.kernel.order is Order.PARALLEL
    first, count = (levels[0], levels[1] - levels[0]) if parallel else (0, 1)
    if ni <= 0 or nj <= 0 or count <= 0:
        return
    tile = block[1] * rows
    columns = -(-ni // block[0])
    for row in range(0, nj, tile * _MAX_BLOCKS):
        tiles = min(-(-(nj - row) // tile), _MAX_BLOCKS)
        for level in range(0, count, _MAX_BLOCKS):
            depth = min(count - level, _MAX_BLOCKS)
            yield Launch(
                grid=(columns, tiles, depth),
                block=(*block, 1),
                row=row + j_low,
                level=first + level,
            )
