"""The order of work in columns: down a strip of every row, then down the next strip.

Work is a number of `rows` of `length` cells each, numbered row after row. It is cut into columns
of `width` cells, the last of which may be narrower; a column is done row by row, from its first
cell to its last, before the next column begins. What one row of a column has brought into a cache
is then still there for the rows that follow it.

A cell is whatever is fetched and worked on as one: a point where a row is a row of points, a row
of points where a row is a plane, a chunk where a row is a row or a plane of chunks. A width that
is the length gives row order.

Two variants turn where the plain order jumps. `vertical`: every other column is done from its
last row to its first, so that the rows at the turn are still in the cache. `horizontal`: every
other row of a column is done from its last cell to its first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import InternalError

__all__ = ["ColumnOrder", "Numbers", "columns_of", "visits"]

#: Whole numbers of any shape.
Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """Order of cells by steps; both count from 0.

    >>> ColumnOrder(rows=2, length=5, width=3).order().tolist()
    [0, 1, 2, 5, 6, 7, 3, 4, 8, 9]
    >>> ColumnOrder(rows=2, length=5, width=3, vertical=True).order().tolist()
    [0, 1, 2, 5, 6, 7, 8, 9, 3, 4]
    """

    rows: int
    length: int
    width: int
    vertical: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes that leave nothing to do."""
        if min(self.rows, self.length, self.width) < 1:
            raise InternalError(
                "A column order needs at least one row, one cell a row and a width of one, got"
                f" {self.rows} rows of {self.length} cells and a width of {self.width}."
            )

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.rows * self.length

    def place(self, step: Numbers | int) -> tuple[Numbers, Numbers]:
        """Return the row and the place in the row of the cell that is done at a step."""
        step = np.asarray(step, np.int64)
        column = step // (self.rows * self.width)
        start = column * self.width
        wide = np.minimum(self.width, self.length - start)
        visit, across = np.divmod(step - column * (self.rows * self.width), wide)
        row = np.where(column % 2, self.rows - 1 - visit, visit) if self.vertical else visit
        return row, start + across

    def order(self) -> Numbers:
        """Return the numbers of all cells in the order in which they are done."""
        row, cell = self.place(np.arange(self.size, dtype=np.int64))
        return row * self.length + cell


def columns_of(length: int, width: int) -> list[range]:
    """Return the cells of a row that each column has.

    >>> columns_of(11, 4)
    [range(0, 4), range(4, 8), range(8, 11)]
    """
    return [range(start, min(start + width, length)) for start in range(0, length, width)]


def visits(
    counts: Sequence[int], along: int, widths: Sequence[int], *, vertical: bool = False
) -> Iterator[tuple[int, ...]]:
    """Yield the indices of a grid of any rank in column order, to go through blocks or chunks.

    The rows follow each other along axis `along`; on each other axis a column is `widths` wide
    (its entry for `along` is not used). Columns follow each other with the last axis fastest, and
    so do the cells of a row.

    >>> list(visits((2, 3), along=0, widths=(1, 2)))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    """
    if not 0 <= along < len(counts) == len(widths) or min(*counts, *widths) < 1:
        raise InternalError(
            f"A grid of {tuple(counts)} has no columns along axis {along} with widths"
            f" {tuple(widths)}."
        )
    across = [axis for axis in range(len(counts)) if axis != along]
    cuts = [columns_of(counts[axis], widths[axis]) for axis in across]
    for number, column in enumerate(itertools.product(*cuts)):
        rows = range(counts[along])
        for row in reversed(rows) if vertical and number % 2 else rows:
            for cell in itertools.product(*column):
                yield (*cell[:along], row, *cell[along:])
