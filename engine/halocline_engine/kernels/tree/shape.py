"""What threads that each solve a cell of the same tree have to know of it; see `uniform.cu`.

Nodes are eliminated from the last to the first. What a node gives to its parent stays in a register
where that is the node before. Else it waits in a slot until the parent's turn: in the parent's own
one, which is free until then, or in an extra one where several children are far from their parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GROUP", "Shape", "shape_of"]

#: Nodes of a group on the way down.
GROUP = 8


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A tree's size, its extra slots, the nodes of a round on the way up, and the table."""

    nodes: int
    extra: int
    depth: int
    table: NDArray[np.uint16]


def shape_of(parents: NDArray[Any], depth: int) -> Shape:
    """Return the shape of a tree whose nodes come behind their parents; the first is the root.

    >>> shape_of(np.array([0, 0, 1, 0, 0]), 4).extra
    1
    """
    own: list[int] = parents.tolist()
    nodes = len(own)
    gives, takes, begins, slots = (np.zeros(nodes, np.int64) for _ in range(4))
    far: list[list[int]] = [[] for _ in range(nodes)]
    # What is given first is subtracted first, as everywhere: from the last child on.
    for node in range(nodes - 1, 0, -1):
        if own[node] != node - 1:
            far[own[node]].append(node)
    extra = listed = 0
    for node, children in enumerate(far):
        takes[node], begins[node] = len(children), listed
        for place, child in enumerate(children):
            slot = node if place == 0 else nodes + extra
            extra += place > 0
            gives[child] = slot + 1
            slots[listed] = slot
            listed += 1
    special = (gives > 0) | (takes > 0)
    masks = (_masks(special[::-1], depth), _masks(special[1:], GROUP))
    parts = (*masks, gives, takes, parents, begins, slots)
    return Shape(nodes, extra, depth, np.concatenate(parts).astype(np.uint16))


def _masks(bits: NDArray[np.bool_], size: int) -> NDArray[np.int64]:
    """Return a number for each group of so many bits, whose lowest is the first one."""
    padded = np.zeros(-(-len(bits) // size) * size, np.int64)
    padded[: len(bits)] = bits
    return (padded.reshape(-1, size) << np.arange(size)).sum(axis=1)
