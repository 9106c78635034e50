"""From parents as users give them to trees whose nodes can be eliminated from last to first.

A node's parent is a local index, -1 (or the node itself) at the root. Solvers need parents before
children and the root first. Where a cell is not like that, its nodes are numbered in depth-first
order, children in the order in which they were given, which leaves unbranched pieces in one run.
A cell that is in order already is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np

from halocline_engine.errors import FieldError
from halocline_engine.kernels.tree.storage import Flat, Index
from halocline_engine.kernels.whole import whole_numbers

__all__ = ["Forest", "arrange"]

_njit: Any = cast("Any", numba).njit(nogil=True)

_SOUND, _OUTSIDE, _ROOTS, _CYCLE = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Cells in flat layout, parents first; the root of each is its node 0 and its own parent.

    `parents` are local. `order` says which element of the caller's arrays each node is, or is None
    where all are where they were.
    """

    layout: Flat
    parents: Index
    order: Index | None

    def arranged(self, values: Any) -> Any:
        """Return values of the caller's nodes in the order of these."""
        return values if self.order is None else values[self.order]

    def restored(self, values: Any) -> Any:
        """Return values of these nodes in the caller's order."""
        if self.order is None:
            return values
        back = np.empty_like(values)
        back[self.order] = values
        return back

    def alike(self) -> bool:
        """Return whether there are nodes, and all cells have the same tree, numbered alike."""
        sizes = self.layout.sizes
        if not self.layout.total or (sizes != sizes[0]).any():
            return False
        trees = self.parents.reshape(len(sizes), -1)
        return bool((trees == trees[0]).all())


def arrange(layout: Flat, parents: Any, first_cell: int = 0) -> Forest:
    """Return the cells with parents first.

    Raises `FieldError` where a parent lies outside of its cell, or a cell is not one tree: it has
    no root or several, or a cycle. Messages count cells from `first_cell`.
    """
    given = np.asarray(parents)
    if given.dtype.kind not in "iu" or given.shape != (layout.total,):
        raise FieldError(
            f"Parents must be {layout.total} whole numbers, one for each node, got an array of"
            f" {given.dtype.name} of the shape {given.shape}."
        )
    local = whole_numbers(given)
    order = np.empty(layout.total, np.int64)
    arranged = np.empty(layout.total, np.int64)
    fault, cell, node = _arrange(layout.offsets, local, order, arranged)
    if fault != _SOUND:
        raise _error(int(fault), first_cell + int(cell), int(node), layout, given, int(cell))
    moved = not np.array_equal(order, np.arange(layout.total))
    return Forest(layout, arranged, order if moved else None)


def _error(fault: int, name: int, node: int, layout: Flat, given: Any, cell: int) -> FieldError:
    size = int(layout.sizes[cell])
    if fault == _OUTSIDE:
        parent = int(given[layout.offsets[cell] + node])
        return FieldError(
            f"Cell {name} has {size} nodes, but the parent of its node {node} is {parent}.",
            hint="Parents count from 0 in each cell; the root's is -1.",
        )
    if fault == _ROOTS:
        return FieldError(
            f"Cell {name} has {node} roots, expected one.",
            hint="Make a cell of each tree: a root's parent is -1."
            if node
            else "Its parents form a cycle; give the root the parent -1.",
        )
    return FieldError(
        f"Cell {name} has a cycle: its node {node} is not reached from the root.",
        hint="Follow the parents from that node.",
    )


@_njit
def _arrange(offsets: Any, local: Any, order: Any, arranged: Any) -> Any:
    """Fill `order` and `arranged`; return a fault, its cell, and a node or a number of roots."""
    longest = 0
    for cell in range(len(offsets) - 1):
        longest = max(longest, offsets[cell + 1] - offsets[cell])
    room = np.empty((4, longest), np.int64)
    for cell in range(len(offsets) - 1):
        base, size = offsets[cell], offsets[cell + 1] - offsets[cell]
        roots, root, sorted_ = 0, -1, True
        for i in range(size):
            p = local[base + i]
            if p < -1 or p >= size:
                return _OUTSIDE, cell, i
            if p == -1 or p == i:
                roots, root = roots + 1, i
                sorted_ = sorted_ and i == 0
            elif p > i:
                sorted_ = False
        if size and roots != 1:
            return _ROOTS, cell, roots
        if sorted_:
            for i in range(size):
                order[base + i] = base + i
                arranged[base + i] = max(local[base + i], 0)
        elif _depth_first(base, size, root, local, order, arranged, room) < size:
            for i in range(size):
                if room[3, i] == -1:
                    return _CYCLE, cell, i
    return _SOUND, 0, 0


@_njit
def _depth_first(
    base: Any, size: Any, root: Any, local: Any, order: Any, arranged: Any, room: Any
) -> Any:
    """Give the nodes of a cell numbers from its root on; return how many are reached.

    The rows of `room` are the last child of each node, the child before each node, the nodes that
    wait, and the new number of each node, -1 where it is not reached.
    """
    for i in range(size):
        room[0, i] = -1
        room[3, i] = -1
    for i in range(size):
        p = local[base + i]
        if i != root:
            room[1, i] = room[0, p]
            room[0, p] = i
    room[2, 0] = root
    depth, done = 1, 0
    while depth > 0:
        depth -= 1
        i = room[2, depth]
        room[3, i] = done
        order[base + done] = base + i
        arranged[base + done] = 0 if i == root else room[3, local[base + i]]
        done += 1
        # The last child is put down first, so that the first one is taken from the top.
        child = room[0, i]
        while child != -1:
            room[2, depth] = child
            depth += 1
            child = room[1, child]
    return done
