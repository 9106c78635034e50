"""Formulas of widths and fetches in column order, which the engine's model is judged by.

The `exact` form solves the working set for the width, but for the rounding up of the number of rows
in work; the `asymptotic` one also leaves out what becomes small for wide columns.
"""

from __future__ import annotations

import math

from halocline_engine.schedule.traversal.column import ColumnOrder, columns_of
from halocline_engine.schedule.traversal.column_model import Work, product_fitting_width

__all__ = [
    "asymptotic_width",
    "counted_fetches",
    "exact_width",
    "fetch_bound",
    "lines_of",
    "order_width",
    "product_width",
    "tile_order",
    "tile_surplus",
]


def asymptotic_width(work: Work, cache: int) -> float:
    """Return the width of columns for a cache, for columns much wider than what a cell reads.

    It is below 1 where there is none.
    """
    reads = work.reads
    return (cache / work.unit - reads.height * reads.width - work.active) / reads.height


def exact_width(work: Work, cache: int) -> float | None:
    """Return the width whose working set is the cache, or None where no width's is so small.

    The working set is (width + reads.width) (reads.height + active / width) cells.
    """
    height, reads = work.reads.height, work.reads.width
    return _larger_root(
        height, cache / work.unit - work.active - reads * height, reads * work.active
    )


def product_width(unit: int, inner: int, active: int, cache: int) -> float | None:
    """Return the width of columns of a matrix product, or None where no width fits.

    There is one only where the cache holds 2 sqrt(`active`) rows of `inner` elements.

    >>> product_width(unit=4, inner=16384, active=132 * 2048, cache=50 * 2**20) is None
    True
    """
    return _larger_root(1, cache / (unit * inner), active)


def fetch_bound(work: Work, rows: int, length: int, width: int, line: int) -> int:
    """Return how many lines of `line` cells are fetched at most, if the cache holds the work.

    The cells that are read beyond the first and last row and cell are stored as well. Rows of
    memory may begin anywhere in a line, so a column touches one line more than it fills.
    """
    reads = work.reads
    lines = -(-(width + reads.width - 2) // line) + 1
    return -(-length // width) * lines * (rows + reads.height - 1)


def counted_fetches(work: Work, rows: int, length: int, width: int) -> int:
    """Return how many cells are fetched if a cache of cells holds the work; for chunks.

    Nothing lies beyond the first and the last row and cell; rows that are read are fetched once a
    column.

    >>> from halocline_engine.schedule.traversal.column_model import Reads
    >>> chunk = Work(unit=2**20, reads=Reads(rows=(1, 1), cells=(1, 1)))
    >>> counted_fetches(chunk, rows=10, length=8, width=4)
    100
    """
    before, after = work.reads.cells
    return rows * sum(
        min(column.stop + after, length) - max(column.start - before, 0)
        for column in columns_of(length, width)
    )


def lines_of(work: Work, rows: int, length: int, width: int, line: int) -> int:
    """Return how many lines are fetched if the cache holds the work.

    Rows lie one behind the other in memory, with the cells that are read beyond their ends.

    >>> from halocline_engine.schedule.traversal.column_model import Reads
    >>> lines_of(Work(unit=4, reads=Reads((4, 4), (4, 4))), 192, 192, 100, line=16)
    2900
    """
    around = work.reads.width - 1
    pitch = length + around
    return sum(
        (row * pitch + column.stop + around - 1) // line - (row * pitch + column.start) // line + 1
        for row in range(rows + work.reads.height - 1)
        for column in columns_of(length, width)
    )


def tile_order(rows: int, length: int, width: int, height: int) -> list[int]:
    """Return the numbers of all cells in the order of tiles, to compare columns with.

    A tile has `height` rows of `width` cells; tiles follow each other along the rows.

    >>> tile_order(rows=3, length=3, width=2, height=2)
    [0, 1, 3, 4, 2, 5, 6, 7, 8]
    """
    return [
        top * length + cell
        for top in range(0, rows, height)
        for cell in ColumnOrder(min(height, rows - top), length, width).order().tolist()
    ]


def tile_surplus(work: Work, rows: int, length: int, width: int, height: int, line: int) -> int:
    """Return about how many lines more tiles of a height fetch than columns of the same width.

    Every tile but the first of a column fetches again the rows that it shares with the one above.
    """
    lines = -(-(width + work.reads.width - 1) // line)
    return -(-length // width) * lines * (work.reads.height - 1) * (-(-rows // height) - 1)


def order_width(unit: int, inner: int, columns: int, active: int, cache: int) -> int:
    """Return the width of columns in which threads compute a product, one element each.

    It is that of the model for `active` elements of `unit` bytes at a time and a cache of bytes;
    where there is none, for a cache that holds just what the model asks for.

    >>> order_width(4, 4096, 100_000, 132 * 2048, 50 * 2**20)
    3113
    """
    width = product_fitting_width(unit, inner, active, cache) or math.isqrt(active)
    return max(1, min(columns, width))


def _larger_root(a: float, b: float, c: float) -> float | None:
    """Solve a x + c / x = b for the larger positive x; None where there is none."""
    inside = b * b - 4 * a * c
    if b <= 0 or inside < 0:
        return None
    return (b + math.sqrt(inside)) / (2 * a)
