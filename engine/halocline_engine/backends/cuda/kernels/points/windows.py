"""Windows: the elements of an array that a thread of a PARALLEL kernel loads for a level.

A thread computes `width` x `rows` points of one level, and level after level. What the points of a
level read of one array, at one offset along K, is a window: elements by (row, column), counted
from the thread's first point. Windows of neighbouring levels overlap: an element that this level
reads at offset +1 is the one that the next level reads at 0. Such elements stay in registers and
move from window to window, and each is loaded once, at its highest offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cuda.model.entries import Kind, Stride
from halocline_engine.ir.nodes import Offset

__all__ = ["Place", "Window", "chunks", "windows"]

#: A row and a column.
Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """The elements of one array at one offset along K that are in registers for a level.

    `loaded` are those that are loaded at each level; the others come out of the window above.
    """

    level: int
    places: frozenset[Place]
    loaded: frozenset[Place]

    @property
    def first(self) -> Place:
        """The lowest row and the lowest column."""
        return min(row for row, _ in self.places), min(column for _, column in self.places)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the smallest rectangle around the elements."""
        row, column = self.first
        return (
            max(row for row, _ in self.places) - row + 1,
            max(column for _, column in self.places) - column + 1,
        )

    @property
    def moved(self) -> frozenset[Place]:
        """The elements that come out of the window above."""
        return self.places - self.loaded


def windows(
    offsets: Iterable[Offset], kind: Kind, *, width: int, rows: int, ring: bool
) -> tuple[Window, ...]:
    """Return the windows of an array that is read at some offsets, from low to high levels.

    Along an axis that the array does not have all elements are one. With `ring`, elements are
    handed from window to window; without, each window loads all of its own.

    >>> ones = (Stride.ONE, Stride.ANY, Stride.ANY)
    >>> low, high = windows([(0, 0, 0), (0, 0, 1)], ones, width=1, rows=1, ring=True)
    >>> sorted(low.moved), sorted(high.loaded)
    ([(0, 0)], [(0, 0)])
    """
    needed: dict[Place, set[int]] = {}
    for i, j, k in offsets:
        for place in _places(i, j, kind, width, rows):
            needed.setdefault(place, set()).add(0 if kind[2] is Stride.NONE else k)
    levels: dict[int, dict[Place, bool]] = {}
    for place, found in needed.items():
        top = max(found)
        held = range(min(found), top + 1) if ring else found
        for level in held:
            levels.setdefault(level, {})[place] = level == top or not ring
    return tuple(
        Window(level, frozenset(places), frozenset(p for p, is_new in places.items() if is_new))
        for level, places in sorted(levels.items())
    )


def _places(i: int, j: int, kind: Kind, width: int, rows: int) -> Iterator[Place]:
    for row in range(rows):
        for column in range(width):
            yield (
                0 if kind[1] is Stride.NONE else row + j,
                0 if kind[0] is Stride.NONE else column + i,
            )


def chunks(
    places: Iterable[Place], sizes: Iterable[int], *, aligned: bool = True
) -> Iterator[tuple[Place, int]]:
    """Yield the first place and the length of the pieces that make up some places, row by row.

    All elements of a piece are asked for. `sizes` are the lengths to try, from long to short, and 1
    comes last. Where `aligned`, a piece begins at a multiple of its length.

    >>> list(chunks([(0, n) for n in range(-1, 5)], (4, 2)))
    [((0, -1), 1), ((0, 0), 4), ((0, 4), 1)]
    """
    wanted = [size for size in sizes if size > 1]
    columns: dict[int, set[int]] = {}
    for row, column in places:
        columns.setdefault(row, set()).add(column)
    for row in sorted(columns):
        left = columns[row]
        while left:
            column = min(left)
            fits = (s for s in wanted if _fits(column, s, left, aligned=aligned))
            size = next(fits, 1)
            left -= set(range(column, column + size))
            yield (row, column), size


def _fits(column: int, size: int, left: Set[int], *, aligned: bool) -> bool:
    if aligned and column % size:
        return False
    return all(n in left for n in range(column, column + size))
