"""Cache needs of column order: content, widths of columns, and fetches.

The model knows a cache of a number of bytes, cells of `unit` bytes, the cells around it that the
work on a cell reads, and how many cells are worked on at a time: threads of a device, 1 for a
loop. It holds for every level: points in a cache of the device or of a core, rows of points where
a row is a plane, chunks in memory.

`fitting_width` is the largest width whose working set fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from halocline_engine.errors import InternalError

__all__ = [
    "Reads",
    "Work",
    "fitting_width",
    "product_fitting_width",
    "product_working_set",
    "turning",
    "working_set",
]


@dataclass(frozen=True, slots=True)
class Reads:
    """The cells around it that the work on a cell reads, as (before, after), none below 0.

    `rows` counts rows, `cells` counts cells along a row.
    """

    rows: tuple[int, int]
    cells: tuple[int, int]

    def __post_init__(self) -> None:
        """Refuse reads that do not include the cell itself."""
        if min(*self.rows, *self.cells) < 0:
            raise InternalError(
                "Reads around a cell are given as numbers from 0 before and after it, got rows"
                f" {self.rows} and cells {self.cells}."
            )

    @property
    def height(self) -> int:
        """Number of rows that are read."""
        return 1 + sum(self.rows)

    @property
    def width(self) -> int:
        """Number of cells of a row that are read."""
        return 1 + sum(self.cells)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a cell: its bytes, those that it reads, and the number of cells at a time."""

    unit: int
    reads: Reads
    active: int = 1

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        if min(self.unit, self.active) < 1:
            raise InternalError(
                "Work in columns needs cells of at least a byte and at least one in work, got"
                f" {self.unit} bytes and {self.active} cells."
            )


def turning(work: Work) -> Work:
    """Return the work as a cache must hold it if every other column is done from its last row.

    Cells are read from the first row to the last. On the way back, a cache that forgets what was
    used longest ago would forget the first of them, which the next row needs, before the last,
    which it does not; with room for a row more, that is what it forgets.

    >>> turning(Work(1, Reads((1, 1), (0, 0)))).reads.rows
    (1, 2)
    """
    before, after = work.reads.rows
    return replace(work, reads=replace(work.reads, rows=(before, after + 1)))


def working_set(work: Work, width: int) -> int:
    """Return the bytes that the cells in work read, for columns of a width.

    They are consecutive, and begin anywhere in a row.

    >>> point = Work(unit=8, reads=Reads(rows=(2, 2), cells=(2, 2)), active=2048)
    >>> working_set(point, 512)
    37152
    """
    rows = 1 - (-(work.active - 1) // width)
    return work.unit * (width + work.reads.width - 1) * (work.reads.height - 1 + rows)


def fitting_width(work: Work, cache: int) -> int | None:
    """Return the largest width whose `working_set` fits in the cache, or None if none does.

    >>> fitting_width(Work(8, Reads((2, 2), (2, 2)), active=2048), cache=256 * 1024)
    5457
    """
    cells = cache // work.unit
    return _fitting(
        lambda rows: cells // (work.reads.height + rows) - work.reads.width + 1, work.active - 1
    )


def product_working_set(unit: int, inner: int, width: int, active: int) -> int:
    """Return the bytes that `active` elements of a matrix product read.

    The right matrix has `inner` rows, of which a column of `width` is read; the left matrix has
    `inner` columns, of which as many rows are read as are in work.
    """
    return unit * inner * (width - (-active // width))


def product_fitting_width(unit: int, inner: int, active: int, cache: int) -> int | None:
    """Return the largest width whose `product_working_set` fits in the cache, or None."""
    cells = cache // (unit * inner)
    return _fitting(lambda rows: cells - rows, active)


def _fitting(widest: Callable[[int], int], others: int) -> int | None:
    """Return the largest width whose rows fit, or None.

    `widest(rows)` is the largest width with which so many rows beside the first one fit; `others`
    cells need `others / width` of them. Wider columns need no more rows than narrower ones, so the
    first number of rows that is enough for its own widest column gives the answer.
    """
    rows = 0
    while True:
        width = widest(rows)
        if width < 1:
            return None
        needed = -(-others // width)
        if needed <= rows:
            return width
        rows = needed
