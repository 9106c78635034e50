"""Programmatic dependent launch: kernels that are launched before the previous one completes.

They wait by themselves before they touch memory, so that their start is hidden.
"""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.kernels.choose import kernel_kind
from halocline_engine.backends.cuda.kernels.points.kind import POINTS
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.tile import Tile

__all__ = ["SHORT", "dependent_tile", "may_launch_dependently"]

#: Bytes that a call moves at most whose kernels take no longer than a few launches.
SHORT = 32 << 20
#: Threads of a block: each block that is brought costs half a nanosecond.
_THREADS = 256


def may_launch_dependently(entry: Entry, tile: Tile) -> bool:
    """Whether a kernel loads in the plainest way: nothing that may move before it waits."""
    return kernel_kind(entry, tile) is POINTS and not tile.planes


def dependent_tile(tile: Tile) -> Tile:
    """Return the tile for such a kernel: blocks of more threads.

    >>> dependent_tile(Tile((32, 4), rows=2)).block
    (32, 8)
    """
    i, j = tile.block
    return replace(tile, block=(i, 2 * j)) if 2 * i * j <= _THREADS else tile
