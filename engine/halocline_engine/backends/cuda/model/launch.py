"""Launch geometry: the blocks and threads that compute a kernel. No device is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.extent import Range

__all__ = [
    "MAX_BLOCKS",
    "Dim3",
    "Launch",
    "first_whole",
    "inverse_of",
    "launches",
    "threads_along_i",
    "tiles_along_i",
]

Dim3: TypeAlias = tuple[int, int, int]
#: The most blocks along y and along z that a launch may have.
MAX_BLOCKS = 65535


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: blocks, threads in a block, the first row and the levels from first to top."""

    grid: Dim3
    block: Dim3
    row: int
    level: int
    top: int

    def deep(self, tile: Tile) -> int:
        """Return how many blocks of a tile are above each other."""
        return min(-(-(self.top - self.level) // tile.depth), MAX_BLOCKS)


def launches(
    entry: Entry, domain: Domain, tile: Tile, levels: Range, threads: int
) -> Iterator[Launch]:
    """Yield launches of rows of `threads` along I on levels, the last one not included.

    There is more than one launch only where a grid would have too many blocks. Strips and columns
    follow each other along z: the blocks of the first, on level after level, then the next ones.
    """
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    nj = domain[1] + j_high - j_low
    first, top = levels
    if domain[0] + i_high <= i_low or nj <= 0 or top <= first:
        return
    rows = tile.block[1] * tile.rows
    columns = -(-threads // tile.block[0])
    levels_at_once = tile.depth * MAX_BLOCKS
    high = min(-(-(top - first) // tile.depth), MAX_BLOCKS)
    most = min(tile.strip, MAX_BLOCKS) * (MAX_BLOCKS // high) or MAX_BLOCKS
    for row in range(0, nj, rows * most):
        tiles = min(-(-(nj - row) // rows), most)
        for level in range(first, top, levels_at_once):
            deep = min(-(-(top - level) // tile.depth), MAX_BLOCKS)
            grid = (columns, tiles, deep)
            if tile.strip:
                along = min(tile.strip, tiles)
                grid = (columns, along, deep * -(-tiles // along))
            elif tile.column:
                wide = max(min(tile.column, columns), -(-columns // (MAX_BLOCKS // deep)))
                grid = (wide, tiles, deep * -(-columns // wide))
            yield Launch(grid, (*tile.block, 1), row + j_low, level, top)


def inverse_of(deep: int) -> int:
    """Return the number of 32 bits whose product with z + 1 has z // deep as its high word.

    It is (2**32 - 1 - r) / deep with r < deep, so that the high word is the whole part of
    (z + 1) / deep less (z + 1) (1 + r) / 2**32 / deep. This is more than nothing and less than
    1 / deep, as a launch has less than 2**16 blocks along z.

    >>> [(z + 1) * inverse_of(7) >> 32 for z in (0, 6, 7, 65_534)]
    [0, 0, 1, 9362]
    """
    return (2**32 - 1) // deep


def first_whole(i_low: int, tile: Tile) -> int:
    """Return where the first tile begins that the first column does not cut.

    >>> first_whole(-3, Tile((32, 4), width=2)), first_whole(0, Tile((32, 4), width=4))
    (-2, 0)
    >>> first_whole(0, Tile((32, 4), width=4, shift=1))
    3
    """
    return -(-(i_low + tile.shift) // tile.width) * tile.width - tile.shift


def tiles_along_i(entry: Entry, domain: Domain, tile: Tile) -> int:
    """Return how many tiles a row has, those that its edges cut included."""
    i_low, i_high = entry.kernel.extent[0]
    return -(-(domain[0] + i_high - i_low // tile.width * tile.width) // tile.width)


def threads_along_i(entry: Entry, domain: Domain, tile: Tile) -> int:
    """Return how many threads a row of tiles has: one a whole tile, one a point left over.

    Rows may begin anywhere in a line of memory.
    """
    i_low, i_high = entry.kernel.extent[0]
    end = domain[0] + i_high
    wholes = max(end - first_whole(i_low, tile), 0) // tile.width
    before = max(tile.line - 1, 0)
    return before + wholes + (end - i_low - wholes * tile.width) * tile.rows
