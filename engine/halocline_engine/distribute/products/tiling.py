"""A matrix product of named dimensions cut into tiles, and the order in which they are worked on.

The tiles are those of `kernels.matmul.problem`, whatever the memory is. Memory decides how many of
them are at hand. The tiles of the product are done in columns, see `schedule.traversal.column`: a
column of tiles of the right operand, over all of the inner dimension, stays while the tiles of the
left one pass by, so that right is read once and left once a column. How wide a column may be is
that of `schedule.traversal.column_model`, with a tile as a cell. Where not even two rows of tiles
over the inner dimension fit, there is no such width; then a block of tiles of the product stays
instead, and both operands pass by for each block. A product of few tiles stays as a whole, so that
there is as much to multiply with what was read as there can be.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.transfers.buckets_plan import Tiles
from halocline_engine.errors import CapacityError
from halocline_engine.kernels.matmul.problem import CutSizes, even_step
from halocline_engine.schedule.traversal.column import visits
from halocline_engine.schedule.traversal.column_model import (
    product_fitting_width,
    product_working_set,
)

__all__ = [
    "Panel",
    "Panels",
    "Product",
    "ProductCut",
    "cells_of",
    "cut_product",
    "follows",
    "panels_within",
    "points_of",
    "sums_in_order",
]

#: Rows of the first panel of a column, and tiles of the left operand that are few enough.
_TALL, _FEW = 2, 4


@dataclass(frozen=True, slots=True)
class Product:
    """Shape of a product: dimensions of both operands, of one or of the other, and the summed one.

    `sizes` are those of all dimensions; `dims` are those of the result in its order.
    """

    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: str
    dims: tuple[str, ...]
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProductCut:
    """The tiles along each kind of dimension."""

    batch: Tiles
    rows: Tiles
    columns: Tiles
    inner: Tiles

    @property
    def left(self) -> int:
        """Elements of the largest tile of the left operand."""
        return self.batch.points * self.rows.points * self.inner.points

    @property
    def right(self) -> int:
        """Elements of the largest tile of the right operand."""
        return self.batch.points * self.inner.points * self.columns.points

    @property
    def total(self) -> int:
        """Elements of the largest tile of the product."""
        return self.batch.points * self.rows.points * self.columns.points


def cut_product(product: Product, most: CutSizes) -> ProductCut:
    """Return the tiles of a product, which its sizes and the target decide."""
    sizes = product.sizes
    rows = _box(product.rows, sizes, most.outer, most.unit)
    columns = _box(product.columns, sizes, most.outer, most.unit)
    length = sizes[product.inner]
    step = even_step(length, most.inner, most.unit)
    inner = Tiles((product.inner,), (length,), (step,))
    largest = max(rows.points * step, step * columns.points, rows.points * columns.points)
    members = most.outer * most.inner // largest if inner.total == 1 else 1
    return ProductCut(_box(product.batch, sizes, max(1, members), 1), rows, columns, inner)


def _box(dims: Sequence[str], sizes: Mapping[str, int], most: int, unit: int) -> Tiles:
    """Return tiles of at most so many points, whole along the last dimensions."""
    left, steps = most, list[int]()
    for dim in reversed(dims):
        step = even_step(sizes[dim], left, unit if left % unit == 0 else 1)
        left = left // step if step >= sizes[dim] else 1
        steps.append(step)
    return Tiles(tuple(dims), tuple(sizes[dim] for dim in dims), tuple(reversed(steps)))


@dataclass(frozen=True, slots=True)
class Panel:
    """Tiles of the product that are added up together: a member of the batch, rows, columns."""

    batch: int
    rows: range
    columns: range

    @property
    def column(self) -> tuple[int, range]:
        """Key of the column of the right operand that it belongs to."""
        return self.batch, self.columns


@dataclass(frozen=True, slots=True)
class Panels:
    """Tiles at hand: a panel has `height` rows of `width` tiles of the product.

    The first panel of a column has `tall` rows: where the column has to be read meanwhile, there
    is more to multiply with each of its tiles. `resident` says that a column of the right operand
    stays. `left`, `right` and `totals` are how many tiles of each kind there is room for, and
    `nbytes` what they take. `last` are the pieces that a panel which is all of the product leaves
    for the end, see `sums_in_order`.
    """

    cut: ProductCut
    tall: int
    height: int
    width: int
    resident: bool
    left: int
    right: int
    totals: int
    nbytes: int
    last: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of panels along the batch, down and across."""
        rows = self.cut.rows.total
        down = min(1, rows) + max(0, -(-(rows - self.tall) // self.height))
        return self.cut.batch.total, down, -(-self.cut.columns.total // self.width)

    def order(self) -> Iterator[tuple[int, int, int]]:
        """Yield the places of all panels: down a column, then down the next one."""
        batch, down, across = self.counts
        if min(batch, down, across) == 0:
            return
        for member in range(batch):
            for row, column in visits((down, across), along=0, widths=(1, 1)):
                yield member, row, column

    def within(self, block: Block) -> Iterator[Panel]:
        """Yield the panels of a block, whose spans are those of their places."""
        members, down, across = block.extra
        for member in range(members.start, members.stop):
            for column in range(across.start, across.stop):
                for row in range(down.start, down.stop):
                    yield self.panel((member, row, column))

    def panel(self, place: tuple[int, int, int]) -> Panel:
        """Return the panel at a place."""
        member, row, column = place
        rows, columns = self.cut.rows.total, self.cut.columns.total
        start = self.tall + (row - 1) * self.height if row else 0
        return Panel(
            member,
            range(start, min(rows, start + (self.height if row else self.tall))),
            range(column * self.width, min(columns, (column + 1) * self.width)),
        )

    def fetches(self, panels: Sequence[Panel]) -> tuple[int, int]:
        """Return how many tiles of left and right are read for panels in their order."""
        pieces = self.cut.inner.total
        left = sum(len(panel.rows) for panel in panels)
        fresh = [
            len(panel.columns)
            for before, panel in itertools.pairwise((None, *panels))
            if panel is not None and not (self.resident and before and follows(before, panel))
        ]
        return left * pieces, sum(fresh) * pieces


def follows(before: Panel, panel: Panel) -> bool:
    """Whether a panel lies in the column of the one before."""
    return before.column == panel.column


def sums_in_order(panel: Panel, pieces: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield row, column and piece of the products of tiles that add up to a panel.

    Pieces are added to all tiles one after the other, as each is read once then, but the `last` of
    them tile by tile, so that tiles can be written while others are not done. Tiles follow each
    other in growing squares: with as many more operands there is the most to multiply.

    >>> panel = Panel(0, range(2), range(2))
    >>> list(sums_in_order(panel, 2, 1))[:6]
    [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1), (0, 1, 1)]
    """
    tiles = sorted(
        itertools.product(panel.rows, panel.columns),
        key=lambda tile: max(tile[0] - panel.rows.start, tile[1] - panel.columns.start),
    )
    together = max(0, pieces - last)
    for k in range(together):
        yield from ((i, j, k) for i, j in tiles)
    for i, j in tiles:
        yield from ((i, j, k) for k in range(together, pieces))


def cells_of(*tiles: tuple[Tiles, int]) -> dict[str, Span]:
    """Return the cells along each dimension of tiles with their numbers."""
    return {
        dim: span
        for some, number in tiles
        for dim, span in zip(some.dims, some.spans(number), strict=True)
    }


def points_of(spans: Iterable[Span]) -> int:
    """Return how many points there are where each span meets each other one."""
    return math.prod(span.size for span in spans)


def panels_within(
    cut: ProductCut,
    itemsize: int,
    total_itemsize: int,
    memory: int,
    wanted: Mapping[str, int],
    where: str = "memory",
    few: int = 0,
) -> Panels:
    """Return the panels for some bytes, `total_itemsize` being the bytes of an element of totals.

    `wanted` are sizes along dimensions of the result that the caller gives, of which whole tiles
    are made. All of the product stays if it is the sum of at most `few` products of tiles, fits,
    and nothing is wanted. Raises `CapacityError` where not one tile of each kind fits twice.
    """
    tile = max(cut.left, cut.right) * itemsize
    total = cut.total * total_itemsize
    rows, columns, pieces = cut.rows.total, cut.columns.total, max(1, cut.inner.total)
    if 0 < cut.batch.total * rows * columns * pieces <= few and not wanted:
        whole = _whole(cut, tile, total)
        if whole.nbytes <= memory:
            return whole
    most_height, most_width = _wanted(cut.rows, wanted), _wanted(cut.columns, wanted)
    width = product_fitting_width(tile, pieces, 1, memory) or 0
    width = min(width, columns, most_width or columns)
    while width and product_working_set(tile, pieces, width, 1) + 2 * width * total > memory:
        width -= 1
    if width:
        return _resident(cut, _even(columns, width), tile, total, memory)
    height = width = 1
    if _streamed(1, 1, tile, total) > memory:
        raise CapacityError(
            f"A product in tiles of {cut.rows.points} x {cut.columns.points} needs"
            f" {_streamed(1, 1, tile, total)} bytes of {where}, but {memory} are free for it.",
            hint="Use workers with more memory; the size of tiles is fixed for repeatable results.",
            needed=_streamed(1, 1, tile, total),
            available=memory,
        )
    while True:
        wider = width < min(columns, most_width or columns)
        taller = height < min(rows, most_height or rows)
        if wider and width <= height and _streamed(height, width + 1, tile, total) <= memory:
            width += 1
        elif taller and _streamed(height + 1, width, tile, total) <= memory:
            height += 1
        else:
            break
    needed = _streamed(height, width, tile, total)
    totals = 2 * height * width
    return Panels(cut, height, height, width, False, 2 * height, 2 * width, totals, needed)


def _whole(cut: ProductCut, tile: int, total: int) -> Panels:
    """Return one panel: half of the pieces is added to all tiles at once, the rest tile by tile.

    There is room for what is needed at once, and for some tiles of left to be read ahead.
    """
    rows, columns, pieces = cut.rows.total, cut.columns.total, max(1, cut.inner.total)
    last = -(-pieces // 2)
    order = list(sums_in_order(Panel(0, range(rows), range(columns)), pieces, last))
    left = min(rows * pieces, _at_once((i, k) for i, _, k in order) + _TALL)
    right = _at_once((j, k) for _, j, k in order)
    size = (left + right) * tile + rows * columns * total
    return Panels(cut, rows, rows, columns, False, left, right, rows * columns, size, last)


def _at_once(uses: Iterable[tuple[int, int]]) -> int:
    """Return how many tiles are needed at once at most, from their first use to their last.

    >>> _at_once([(0, 0), (1, 0), (0, 0), (1, 0), (2, 0)])
    2
    """
    left, held, most = Counter(order := list(uses)), set[tuple[int, int]](), 0
    for tile in order:
        held.add(tile)
        most = max(most, len(held))
        left[tile] -= 1
        if not left[tile]:
            held.remove(tile)
    return most


def _resident(cut: ProductCut, width: int, tile: int, total: int, memory: int) -> Panels:
    """Return the panels of columns of a width, the first two rows together if that fits.

    Then there are tiles of the product for three rows, and of the left operand perhaps fewer than
    a row has.
    """
    rows, pieces = cut.rows.total, max(1, cut.inner.total)

    def needed(left: int, sets: int) -> int:
        return (pieces * width + left) * tile + sets * width * total

    lefts = [left for left in (pieces, pieces // 2, _FEW) if left >= min(_FEW, pieces)]
    for left in lefts if rows > _TALL else []:
        size = needed(max(_TALL, left), _TALL + 1)
        if size <= memory:
            sets = (_TALL + 1) * width
            return Panels(cut, _TALL, 1, width, True, max(_TALL, left), pieces * width, sets, size)
    size = needed(pieces, 2)
    return Panels(cut, 1, 1, width, True, pieces, pieces * width, 2 * width, size)


def _streamed(height: int, width: int, tile: int, total: int) -> int:
    """Return the bytes of a panel of which both operands pass by, each tile twice."""
    return 2 * (height + width) * tile + 2 * height * width * total


def _even(count: int, width: int) -> int:
    """Return the width of as many columns, all alike if possible."""
    return -(-count // -(-count // width))


def _wanted(tiles: Tiles, wanted: Mapping[str, int]) -> int | None:
    """Return how many tiles have the sizes that are wanted, or None where none are."""
    if not any(dim in wanted for dim in tiles.dims):
        return None
    each = zip(tiles.dims, tiles.steps, tiles.counts, strict=True)
    return max(1, math.prod(min(n, -(-wanted.get(d, n * step) // step)) for d, step, n in each))
