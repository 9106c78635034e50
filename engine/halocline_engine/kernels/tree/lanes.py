"""What threads have to know that share a tree, which is that of all cells; see `lanes.cu`.

A tree has some lanes, a thread each. Nodes are eliminated row by row, one in each lane, children in
earlier rows than their parents. What a node gives to its parent stays in registers where that is in
the next row of its lane and subtracts it last. Else it waits on the chip until the parent's turn:
in the parent's own place, which is free until then, or in an extra one where several children's
wait. All is subtracted in the order of the other layouts, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_PLACES", "Lanes", "lanes_of"]

#: The most places, those of the nodes and extra ones, that a table has room for.
MOST_PLACES = 4094

# Bits of a word, beside a node's place and another one; see `lanes.cu`.
_OTHER, _TELLS, _ASKS, _MEETS, _ONE, _SEVERAL = 12, 28, 29, 29, 30, 31
_JOINS = 31


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """A tree's size, its extra places, rows and lanes, the rows of a round, and the table."""

    nodes: int
    extra: int
    rows: int
    lanes: int
    depth: int
    table: NDArray[np.uint32]

    @property
    def places(self) -> int:
        """The places on the chip; the last one is that of lanes that have no node."""
        return self.nodes + self.extra + 1


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Where nodes give to.

    For each node: one more than the place it gives to (0: none), from which nodes it takes, and the
    first extra place of these. And how many places are extra.
    """

    gives: list[int]
    takes: list[list[int]]
    begins: list[int]
    extra: int


def lanes_of(parents: NDArray[Any], depth: int, lanes: int) -> Lanes:
    """Return the lanes of a tree whose nodes come behind their parents; the first is the root.

    Rows are whole rounds: the first ones may be empty.

    >>> lanes_of(np.array([0, 0, 1, 2, 0, 4, 5]), 1, 2).rows
    4
    """
    own: list[int] = parents.tolist()
    first = _first_children(own)
    order = _rows(own, first, lanes)
    rows = -(-len(order) // depth) * depth
    there = np.full((rows, lanes), -1, np.int64)
    there[rows - len(order) :] = order
    place = {int(node): divmod(at, lanes) for at, node in enumerate(there.flat) if node >= 0}
    # Whether a node's parent is in the next row of its lane.
    near = [place[parent] == (place[i][0] + 1, place[i][1]) for i, parent in enumerate(own)]
    waiting = _waiting(own, [near[i] and first[own[i]] == i for i in range(len(own))])
    idle = len(own) + waiting.extra
    up, down = (np.full((lanes, rows), idle, np.int64) for _ in range(2))
    taken = np.zeros((lanes, rows), np.int64)
    meets, joins = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    for node, (row, lane) in place.items():
        takes = waiting.takes[node]
        up[lane, row] = node | waiting.gives[node] << _OTHER
        up[lane, row] |= (len(takes) == 1) << _ONE | (len(takes) > 1) << _SEVERAL
        taken[lane, row] = waiting.begins[node] | len(takes) << 16
        meets[row] |= any(place[child][1] != lane for child in takes)
        down[lane, row] = node
        if node and not near[node]:
            down[lane, row] |= own[node] << _OTHER | 1 << _ASKS
            joins[row] |= place[own[node]][1] != lane
    for node in {own[i] for i in range(1, len(own)) if not near[i]}:
        row, lane = place[node]
        down[lane, row] |= 1 << _TELLS
    up[:, meets] |= 1 << _MEETS | 1 << _SEVERAL
    down[:, joins] |= 1 << _JOINS
    table = np.concatenate([part.reshape(-1) for part in (up, down[:, ::-1], taken)])
    return Lanes(len(own), waiting.extra, rows, lanes, depth, table.astype(np.uint32))


def _first_children(own: Sequence[int]) -> list[int]:
    """Return the first child of each node, -1 where it has none."""
    found = [-1] * len(own)
    for node in range(len(own) - 1, 0, -1):
        found[own[node]] = node
    return found


def _rows(own: Sequence[int], first: Sequence[int], lanes: int) -> list[list[int]]:
    """Return the nodes of each row, -1 where a lane has none.

    Of the nodes whose children are in rows before, those that are farthest from the root come next
    (Hu 1961: no order has fewer rows), each in the lane of its first child where that was just now.
    """
    away, missing = [0] * len(own), [0] * len(own)
    for node in range(1, len(own)):
        away[node] = away[own[node]] + 1
        missing[own[node]] += 1
    ready = [node for node in range(len(own)) if not missing[node]]
    rows: list[list[int]] = []
    before = [-1] * lanes
    while ready:
        ready.sort(key=lambda node: (-away[node], -node))
        now, ready = ready[:lanes], ready[lanes:]
        row = [-1] * lanes
        for node in now:
            if first[node] >= 0 and first[node] in before:
                row[before.index(first[node])] = node
        for node in now:
            if node not in row:
                row[row.index(-1)] = node
        rows.append(row)
        before = row
        for node in now:
            missing[own[node]] -= 1
            if node and not missing[own[node]]:
                ready.append(own[node])
    return rows


def _waiting(own: Sequence[int], kept: Sequence[bool]) -> _Waiting:
    """Return where nodes give to; what is `kept` in registers needs no place."""
    takes: list[list[int]] = [[] for _ in own]
    # As everywhere, what the last child gives is subtracted first.
    for node in range(len(own) - 1, 0, -1):
        if not kept[node]:
            takes[own[node]].append(node)
    gives, begins, extra = [0] * len(own), [0] * len(own), 0
    for node, children in enumerate(takes):
        begins[node] = len(own) + extra
        for child, place in zip(children, (node, *range(begins[node], begins[node] + len(own))),
                                strict=False):  # fmt: skip
            gives[child] = place + 1
        extra += max(0, len(children) - 1)
    return _Waiting(gives, takes, begins, extra)
