"""Column order of blocks: how many rows of them go up all levels before the next ones start.

Blocks of some levels read a few levels of the blocks below them again. The cache of the device has
those still, unless a level is so large that the blocks in between pushed them out; then the domain
is cut along J into strips of equal height, and each is computed up to the last level. This is the
column schedule of `schedule/column.py` with levels for rows.
"""

from __future__ import annotations

from halocline_engine.backends.cuda.tiling import Domain, Tile

__all__ = ["evenly", "strip_of"]

#: Bytes that blocks of the same levels may touch before strips are worth their own halos, and what
#: those of a strip may touch: 50 of the 60 MB of an H200's cache are near to each processor.
_MOST = 60 << 20
_AIM = 44 << 20
#: The least share of traffic that strips must save.
_LEAST = 0.1


def strip_of(tile: Tile, again: int, sizes: tuple[int, int], domain: Domain) -> int:
    """Return how many blocks along J make a strip, or 0 for row order.

    `again` levels are read again by the blocks above; `sizes` are the bytes of a point in arrays
    that are read at several levels, and in all arrays.

    >>> tile = Tile((32, 4), width=2, rows=2, depth=4)
    >>> strip_of(tile, 2, (8, 16), (1024, 1024, 256)), strip_of(tile, 2, (8, 16), (768, 760, 700))
    (64, 0)
    """
    shared, all_ = sizes
    read_again = again * shared
    touched = domain[0] * domain[1] * (tile.depth * all_ + read_again)
    if tile.depth >= domain[2] or read_again < _LEAST * tile.depth * all_ or touched <= _MOST:
        return 0
    strips = -(-touched // _AIM)
    rows = tile.block[1] * tile.rows
    return max(1, -(-domain[1] // (strips * rows)))


def evenly(levels: int, most: int) -> int:
    """Return how many levels each of the fewest parts of at most `most` levels has.

    >>> evenly(700, 128), evenly(64, 128)
    (117, 64)
    """
    return -(-levels // max(1, -(-levels // most)))
