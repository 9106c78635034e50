"""Gathers of small elements that lie far apart, in two passes through shared memory.

Where sources lie far apart, reading each brings a whole sector of memory for a few bytes of it.
Two passes read and write everything twice, but in long pieces. The first brings the source to
shared memory window by window, and writes what is named of it in the order of the tiles of the
target; what goes from a window to a tile is a run of a few elements. The second brings the runs
of a tile to shared memory, each element to its place, and writes the tile. Tiles that are
neighbours are computed at about the same time, and their runs are neighbours in memory: what is
read for one of them is in the cache for the next.

Were it the first pass that brought the runs of a tile together, it would write pieces that do not
fill a sector of memory, and a device writes these a third as fast as it reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.indices import narrowest
from halocline_engine.kernels.indirect.problem import Index

__all__ = ["TILE", "WINDOW", "Grouped", "grouped"]

#: Bytes of a window: one at a time fills the shared memory of a processor.
WINDOW = 212 * 2**10
#: Bytes of a tile: of two at a time, and as much of a processor's memory holds what is on its way.
TILE = 64 * 2**10
#: Elements of a window, and of a tile, at most: places in them have 16 bits.
_MOST = 2**16
#: Windows begin between the passes at multiples of so many elements, and so of 16 bytes.
_STEP = 16


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """The two passes, by windows and tiles of so many elements.

    First, for each window w and each n below counts[w]: between[starts[w] + n] =
    source[w * window + take[starts[w] + n]]. Then, for each tile t and each n from lists[t] up to
    lists[t + 1]: target[t * tile + place[n]] = between[origin[n]], where origins ascend.
    """

    window: int
    tile: int
    take: NDArray[np.uint16]
    starts: NDArray[np.int64]
    counts: NDArray[np.int32]
    origin: Index
    place: NDArray[np.uint16]
    lists: NDArray[np.int64]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Arrays that a device needs, in the order of the fields."""
        return (self.take, self.starts, self.counts, self.origin, self.place, self.lists)

    def most(self, elements: int, count: int) -> int:
        """Return the elements of the largest window or tile, of so many that are there to take."""
        return max(min(self.window, elements), min(self.tile, count))

    @property
    def room(self) -> int:
        """Number of elements between the passes."""
        return self.take.size


def grouped(
    index: Index, size: int, element_bytes: int, window: int = WINDOW, tile: int = TILE
) -> Grouped:
    """Return the two passes of a gather from `size` elements; indices below zero are left out.

    `window` and `tile` are in bytes.
    """
    window, tile = (_elements(one, element_bytes) for one in (window, tile))
    targets = np.flatnonzero(index >= 0)
    named = index[targets]
    windows = named // window
    counts = np.bincount(windows, minlength=-(-size // window))
    padded = -(-counts // _STEP) * _STEP
    starts = np.cumsum(padded) - padded
    lists = np.searchsorted(targets, np.arange(0, index.size + tile, tile))
    take = np.zeros(int(padded.sum()), np.uint16)
    origin, place = np.empty(targets.size, np.int64), np.empty(targets.size, np.uint16)
    filled = starts.copy()
    for t in range(lists.size - 1):
        own = slice(lists[t], lists[t + 1])
        order = _in_order(windows[own])
        of = windows[own][order]
        each = np.bincount(of, minlength=counts.size)
        at = filled[of] + np.arange(of.size) - (np.cumsum(each) - each)[of]
        take[at] = named[own][order] - of * window
        place[own] = targets[own][order] - t * tile
        origin[own] = at
        filled += each
    where = narrowest(origin, take.size + 1)
    return Grouped(window, tile, take, starts, counts.astype(np.int32), where, place, lists)


def _elements(room: int, element_bytes: int) -> int:
    return min(_MOST, max(1, room // element_bytes // _STEP) * _STEP)


def _in_order(numbers: NDArray[Any]) -> NDArray[np.intp]:
    """Return the order that brings equal numbers together and keeps order within them."""
    narrow = numbers.astype(np.uint16) if numbers.max(initial=0) < 2**16 else numbers
    return np.argsort(narrow, kind="stable")
