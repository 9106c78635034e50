"""Structure of each node as one number, for a thread that solves a cell; see `ring.cu`.

Nodes are eliminated from the last to the first. What a node gives to its parent stays in registers
where that is the node before. Else it waits in a slot on the chip. A parent's slots follow each
other, in the order in which its children are eliminated, and are free again behind it. Where cells
are numbered depth-first, the slots are a stack: a neuron of 8798 nodes needs 27 of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.tree.storage import Interleaved
from halocline_engine.kernels.tree.topology import Forest

__all__ = ["MOST_SLOTS", "Marks", "marks_of"]

#: The most slots of a cell that are kept on the chip.
MOST_SLOTS = 128
# The most that a mark has room for.
_MOST_TAKEN = 255

_njit: Any = cast("Any", numba).njit(nogil=True)


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """A mark for each node, flat or interleaved, and the slots of each cell: a power of two."""

    words: NDArray[np.uint32]
    slots: int


def marks_of(forest: Forest, target: Interleaved | None = None) -> Marks | None:
    """Return the marks of all nodes; None where a cell needs more slots than the chip has.

    >>> from halocline_engine.kernels.tree.storage import flat
    >>> marks = marks_of(Forest(flat([4]), np.array([0, 0, 1, 0]), None))
    >>> [(word & 4095, word >> 12) for word in marks.words.tolist()], marks.slots
    ([(0, 1), (0, 0), (0, 0), (1, 0)], 8)
    """
    layout = forest.layout
    words = np.zeros(layout.total, np.int64)
    slots, taken = _mark(layout.offsets, forest.parents, words)
    if slots > MOST_SLOTS or taken > _MOST_TAKEN:
        return None
    if target is not None:
        words = target.pack(layout, words)
    return Marks(words.astype(np.uint32), max(8, 1 << (int(slots) - 1).bit_length()))


@_njit
def _mark(offsets: Any, parents: Any, words: Any) -> Any:
    """Fill `words`; return the most slots that a cell needs, and the most that a node takes from.

    The rows of `room` are, for each node, how many children give to slots, the first of these (-1:
    none yet), how many are used; for each slot, whose it is.
    """
    longest = 0
    for cell in range(len(offsets) - 1):
        longest = max(longest, offsets[cell + 1] - offsets[cell])
    room = np.empty((4, longest), np.int64)
    most = taken = 0
    for cell in range(len(offsets) - 1):
        base, size = offsets[cell], offsets[cell + 1] - offsets[cell]
        room[0, :size], room[1, :size], room[2, :size] = 0, -1, 0
        for i in range(1, size):
            if parents[base + i] != i - 1:
                room[0, parents[base + i]] += 1
        top = 0
        for i in range(size - 1, -1, -1):
            mark, count = 0, room[0, i]
            if count:
                mark = count << 12 | room[1, i] << 20
                taken = max(taken, count)
                # Nothing waits any more in the slots of a node that had its turn.
                room[0, i] = 0
                while top and room[0, room[3, top - 1]] == 0:
                    top -= 1
            p = parents[base + i]
            if i and p != i - 1:
                if room[1, p] < 0:
                    room[1, p] = top
                    room[3, top : top + room[0, p]] = p
                    top += room[0, p]
                    most = max(most, top)
                mark |= room[1, p] + room[2, p] + 1
                room[2, p] += 1
            words[base + i] = mark
    return most, taken
