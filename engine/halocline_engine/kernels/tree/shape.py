"""Shape of one tree, for threads that each solve a cell of it; see `uniform.cu`.

Nodes are eliminated from the last to the first. What a node gives to its parent stays in registers
where that is the node before. Else it waits on the chip until the parent's turn: in the place of a
node whose own turn is not before the parent's, which is free until then, or in an extra one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIT", "Shape", "shape_of"]

#: The bytes that words of the table count places in.
UNIT = 16
# Bits of a word; see `uniform.cu`.
_FIRST, _SECOND = 4, 18
_GIVES, _ASKS, _TELLS = 1, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A tree as it is eliminated in rounds of `depth` nodes, the first `away` of them kept away.

    There are `extra` places beside those of the nodes on the chip. `late` says whether children of
    a node that takes from several are in its own round; `listed` how many words are in lists.
    """

    nodes: int
    depth: int
    away: int
    extra: int
    listed: int
    late: bool
    table: NDArray[np.uint32]

    @property
    def places(self) -> int:
        """The places on the chip, of two elements each."""
        return -(-self.nodes // self.depth) * self.depth - self.away * self.depth + self.extra


class _Places:
    """The places on the chip, and until when something waits in them."""

    def __init__(self, held: int) -> None:
        self._held = held
        self._until = [0] * held

    def __len__(self) -> int:
        """Return how many places there are."""
        return len(self._until)

    def wait(self, parent: int, start: int, stop: int) -> int:
        """Return a place for what is given at a turn and taken at another, its parent's.

        The parent's own one if that is free, else the one nearest to the root. Turns at which
        something is given never decrease from call to call.
        """
        nearest = range(min(parent, self._held))
        own = (parent,) if parent < self._held else ()
        for place in (*own, *nearest, *range(self._held, len(self._until))):
            if self._until[place] <= start:
                break
        else:
            place = self.more()
        self._until[place] = stop
        return place

    def more(self) -> int:
        """Return one place more."""
        self._until.append(0)
        return len(self._until) - 1


def shape_of(parents: NDArray[Any], depth: int, away: int, pitch: int) -> Shape:
    """Return the shape of a tree whose nodes come behind their parents; the first is the root.

    `pitch` is how many units of bytes a place has for all threads of a block.

    >>> shape_of(np.array([0, 0, 1, 0, 0]), 4, 0, 32).extra
    2
    """
    own: list[int] = parents.tolist()
    turns = -(-len(own) // depth) * depth
    held = turns - away * depth
    far = _far_children(own)
    places = _Places(held)
    # What the last child gives is subtracted first, as everywhere.
    takes: list[list[int]] = [[] for _ in own]
    for child in range(len(own) - 1, 0, -1):
        if own[child] != child - 1:
            waits = places.wait(own[child], turns - 1 - child, turns - 1 - own[child])
            takes[own[child]].append(waits)
    homes = _homes(far, held, places)
    nothing = places.more()
    up, down = np.full(turns, nothing * pitch << _FIRST), np.zeros(turns, np.int64)
    lists: list[list[int]] = [[] for _ in range(turns // depth)]
    late = False
    for node in range(len(own) - 1, -1, -1):
        turn = turns - 1 - node
        if takes[node]:
            *before, last = takes[node]
            up[turn] = last * pitch << _FIRST
            lists[turn // depth] += [place * pitch << _FIRST | turn % depth for place in before]
            late |= any((turns - 1 - child) // depth == turn // depth for child in far[node][:-1])
            down[node] |= homes[node] * pitch << _SECOND | _TELLS
        for child, place in zip(far[node], takes[node], strict=True):
            up[turns - 1 - child] |= place * pitch << _SECOND | _GIVES
            down[child] |= homes[node] * pitch << _FIRST | _ASKS
    begins = np.cumsum([0, *map(len, lists)])
    heads = [len(one) << 16 | at for one, at in zip(lists, begins.tolist(), strict=False)]
    heads = [head if head >> 16 else 0 for head in heads]
    listed = [word for one in lists for word in one]
    table = np.concatenate([up, down, heads, np.array(listed, np.int64)]).astype(np.uint32)
    return Shape(len(own), depth, away, nothing + 1 - held, len(listed), late, table)


def _far_children(own: Sequence[int]) -> list[list[int]]:
    """Return the children of each node but the next one, from the last on."""
    far: list[list[int]] = [[] for _ in own]
    for node in range(len(own) - 1, 0, -1):
        if own[node] != node - 1:
            far[own[node]].append(node)
    return far


def _homes(far: Sequence[Sequence[int]], held: int, places: _Places) -> dict[int, int]:
    """Return where the values of nodes are that far children ask for on the way down.

    Those on the chip are in their own places. When the others are found, nothing else is needed of
    what is on the chip; each is kept until the last child has asked.
    """
    homes: dict[int, int] = {}
    until = [0] * len(places)
    for node, children in enumerate(far):
        if not children:
            continue
        place = node
        if node >= held:
            place = next((at for at, last in enumerate(until) if last <= node), len(until))
        if place == len(until):
            until.append(0)
            places.more()
        until[place] = children[0]
        homes[node] = place
    return homes
