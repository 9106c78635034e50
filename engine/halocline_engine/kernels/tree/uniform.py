"""Cells of one tree, a thread each: their number, and what stays on the chip.

What the sweeps hand on, two elements a node, is on the chip as far as it fits there; the rest, that
of the nodes that are eliminated first and needed last, is in memory that blocks use again for every
tree, so that it stays in the cache that all processors share. See `uniform.cu`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.tree.shape import UNIT, Shape, shape_of

__all__ = ["DEPTH", "Uniform", "uniform_of"]

#: Nodes of a round.
DEPTH = 8
# Rounds that are announced to the cache ahead, elements that an announcement is for, and nodes that
# come back from memory at a time.
_LEAD = 2
_GRAIN = 8
_FETCH = 16
# Threads of a block, by the bytes of an element: as many as have all of their trees on the chip, up
# to the second number, but at least the first.
_FEWEST: Mapping[int, int] = {8: 96, 4: 192}
_MOST: Mapping[int, int] = {8: 192, 4: 384}
_WARP = 32
_REALS: Mapping[int, str] = {4: "float", 8: "double"}


@dataclass(frozen=True, slots=True, eq=False)
class Uniform:
    """A tree's shape, and the threads of a block; a processor has one block."""

    shape: Shape
    threads: int
    itemsize: int

    @property
    def shared(self) -> int:
        """The bytes of shared memory of a block."""
        return self.shape.places * self.threads * 2 * self.itemsize + self.shape.table.nbytes

    @property
    def room(self) -> int:
        """The elements in memory that a block needs for what is not on the chip."""
        return self.shape.away * self.shape.depth * self.threads * 2

    def constants(self, width: int) -> dict[str, int | str]:
        """Return the constants of `uniform.cu` for trees of which `width` are side by side."""
        shape = self.shape
        return {
            "REAL": _REALS[self.itemsize],
            "NODES": shape.nodes,
            "DEPTH": shape.depth,
            "AWAY": shape.away,
            "EXTRA": shape.extra,
            "LISTED": shape.listed,
            "LATE": int(shape.late),
            "THREADS": self.threads,
            "FETCH": _FETCH,
            "LEAD": _LEAD,
            "GRAIN": _GRAIN * self.itemsize,
            "WIDTH": width,
        }


@functools.lru_cache(maxsize=32)
def uniform_of(parents: bytes, itemsize: int, most_shared: int) -> Uniform | None:
    """Return how cells of a tree are solved where a block may have `most_shared` bytes.

    `parents` are the bytes of local int64 parents, which come before their children; the first node
    is the root. None where not even the fewest nodes and the table fit on the chip.
    """
    own = np.frombuffer(parents, np.int64)
    if _most_waiting(own) * _FEWEST[itemsize] * 2 * itemsize > most_shared:
        return None
    for threads in range(_MOST[itemsize], _FEWEST[itemsize], -_WARP):
        found = _fitting(own, threads, itemsize, most_shared, 0)
        if found is not None:
            return found
    return _fitting(own, _FEWEST[itemsize], itemsize, most_shared, len(own))


def _most_waiting(own: NDArray[np.int64]) -> int:
    """Return how many nodes at most wait at once for parents that are not the nodes before them."""
    nodes = np.arange(1, len(own))
    far = nodes[own[1:] < nodes - 1]
    begun, ended = (np.bincount(at, minlength=len(own)) for at in (far, own[far]))
    return int(np.cumsum((begun - ended)[::-1]).max())


def _fitting(
    own: NDArray[np.int64], threads: int, itemsize: int, most_shared: int, most_away: int
) -> Uniform | None:
    """Return how trees are solved with as few nodes away as fit, None where that are too many."""
    rounds = -(-len(own) // DEPTH)
    round_bytes = DEPTH * threads * 2 * itemsize
    # At least the table's words for each node, and a place of zeros.
    missing = rounds * (round_bytes + 8 * DEPTH) + round_bytes // DEPTH - most_shared
    away = 0
    while True:
        away += 2 * max(0, -(-missing // (2 * round_bytes)))
        if away * DEPTH > most_away or away >= rounds:
            return None
        shape = shape_of(own, DEPTH, away, threads * 2 * itemsize // UNIT)
        found = Uniform(shape, threads, itemsize)
        missing = found.shared - most_shared
        if missing <= 0:
            return found
