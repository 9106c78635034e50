"""In which order blocks are visited, and what chunks are fetched for that: pure, no store.

Blocks are rows along I that follow each other along J, for each point of the other dimensions; of a
dataset of three dimensions such a row is a plane of cells. What a block reads lies in chunks of the
source, which neighbours share because of their halos. Down a column of blocks, a cache of a few
rows of that column has what the next row needs; the model of `schedule.traversal.column_model` says
how wide the column may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from halocline_engine.analysis.named import near
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import Chunk, Stored, chunks_in
from halocline_engine.distribute.grid.geometry import Geometry, Layout, geometry
from halocline_engine.distribute.grid.overlap import points_of, same_point, share
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.distribute.grid.regions import regions_of
from halocline_engine.errors import ArgumentError
from halocline_engine.schedule.traversal.column import visits
from halocline_engine.schedule.traversal.column_model import (
    Reads,
    Work,
    fitting_width,
    turning,
    working_set,
)
from halocline_engine.schedule.traversal.lru import LRU

__all__ = [
    "BlockGrid",
    "Order",
    "arrange",
    "check_sizes",
    "choose_order",
    "fetched_chunks",
    "has_idle",
    "stored_variables",
    "touched_chunks",
    "whole_rows",
]


@dataclass(frozen=True, slots=True)
class Order:
    """Sequence of blocks.

    Rows of blocks follow each other along the axis `along` (0 for I, 1 for J); a column is `width`
    blocks wide.
    """

    name: str = "row"
    along: int = 1
    width: int = 1


@dataclass(frozen=True, slots=True)
class BlockGrid:
    """Blocks as the model sees them.

    `counts` are how many there are along I and J, `others` along the other dimensions; `unit` are
    the bytes of the chunks of one block without its halo; `reads` how many blocks before and after
    it one reads along I and J; `active` how many are at hand at a time.
    """

    counts: tuple[int, int]
    others: tuple[int, ...]
    unit: int
    reads: tuple[tuple[int, int], tuple[int, int]]
    active: int = 1

    @classmethod
    def of(cls, layout: Layout, blocks: Sequence[Block], steps: int, active: int) -> BlockGrid:
        """Return the grid of the blocks of a job, in the order of `partition`."""
        first, grid = blocks[0], layout.grid
        sizes = [span.size for span in (*first.box, *first.extra)]
        wholes = (*grid.cut_sizes, *grid.extra_sizes)
        i, j, _, *others = (-(-n // step) for n, step in zip(wholes, sizes, strict=True))
        bare = replace(layout, reaches=tuple(((0, 0),) * 3 for _ in layout.uses))
        own = touched_chunks(bare, (first,), 1)[0]
        reads = [_reads(layout, axis, sizes[axis], steps) for axis in (0, 1)]
        unit = max(1, sum(chunk.nbytes for chunk in own))
        return cls((i, j), tuple(others), unit, (reads[0], reads[1]), active)

    def work(self, along: int) -> Work:
        """Return the work for columns whose rows follow each other along an axis."""
        return Work(self.unit, Reads(self.reads[along], self.reads[1 - along]), self.active)


def check_sizes(layout: Layout, block: Mapping[str, int]) -> None:
    """Raise `ArgumentError` where a block that the caller wants cannot be."""
    grid = layout.grid
    for dim, size in block.items():
        known = [name for name in (*grid.dims, *grid.extra) if name is not None]
        if dim not in known:
            raise ArgumentError(
                f"Argument 'chunks' must name dimensions of the fields, got '{dim}'.",
                hint=near(dim, known),
            )
        if dim == grid.dims[2] and size < grid.sizes[2]:
            raise ArgumentError(
                f"Dimension '{dim}' is the axis K, which is never split, but 'chunks' gives it"
                f" {size} of {grid.sizes[2]} levels.",
                hint="Leave it out.",
            )
        if layout.named and dim == grid.dims[0] and size < grid.sizes[0]:
            raise ArgumentError(
                f"Tables name points anywhere along '{dim}', so a block has all of them, but"
                f" 'chunks' gives it {size} of {grid.sizes[0]}.",
                hint="Leave it out, and cut other dimensions.",
            )


def choose_order(name: str, grid: BlockGrid, cache: int) -> Order:
    """Return how to visit blocks with a cache of some bytes; "auto" takes the fewest columns.

    >>> grid = BlockGrid((40, 12), (), 2**20, ((1, 1), (1, 1)))
    >>> choose_order("column", grid, 66 * 2**20)
    Order(name='column', along=1, width=20)
    """
    rows = Order("row", 1, grid.counts[0])
    if name == "row" or (name == "auto" and not cache):
        return rows
    if name == "auto":
        found = [_column("column", along, grid, cache) for along in (1, 0)]
        columns = [-(-grid.counts[1 - order.along] // order.width) for order in found]
        best = found[0] if columns[0] <= columns[1] else found[1]
        return rows if best.along == 1 and best.width == grid.counts[0] else best
    return _column(name, 1, grid, cache)


def whole_rows(grid: BlockGrid) -> int:
    """Return the bytes of a cache with which row order fetches nothing twice."""
    return working_set(grid.work(1), grid.counts[0])


def arrange(blocks: Sequence[Block], grid: BlockGrid, order: Order) -> tuple[Block, ...]:
    """Return blocks that lie in the order of `partition` in another one, numbered anew."""
    if order.name == "row":
        return tuple(blocks)
    (ni, nj), others = grid.counts, grid.others
    sides = (nj, ni) if order.along == 1 else (ni, nj)
    widths = (*(1 for _ in others), 1, order.width)
    turns = order.name == "zigzag"
    places = visits((*others, *sides), len(others), widths, vertical=turns)
    numbers = [_number(place, others, grid.counts, order.along) for place in places]
    return tuple(replace(blocks[number], index=at) for at, number in enumerate(numbers))


def stored_variables(
    uses: Iterable[FieldUse], grid: Grid, names: Mapping[str, str]
) -> dict[str, Stored]:
    """Return how the fields that are loaded in chunks are stored, by field.

    `names` says what each is called there.
    """
    return {
        use.name: Stored(
            names[use.name],
            tuple(grid.size_of(dim) for dim in use.dims),
            tuple(min(c, grid.size_of(dim)) for c, dim in zip(use.chunks, use.dims, strict=True)),
            np.dtype(use.dtype).itemsize,
        )
        for use in uses
        if use.loaded and use.chunks and use.name in names
    }


def touched_chunks(
    layout: Layout, blocks: Sequence[Block], steps: int, *, carried: bool = False
) -> list[list[Chunk]]:
    """Return the chunks that each block reads, in that order; of one that is read twice, both.

    With `carried`, a block reads what the one before it did not, point by point of the dimensions
    that are looped over. Where a block reads along an axis depends on its cells along that axis
    alone, so that each is worked out once for all blocks that have them.
    """
    grid = layout.grid
    stored = stored_variables(layout.uses, grid, {use.name: use.name for use in layout.uses})
    uses = [use for use in layout.uses if use.name in stored]
    known: dict[tuple[int, Span], Geometry] = {}

    def along(axis: int, span: Span) -> Geometry:
        found = known.get((axis, span))
        if found is None:
            box = list(blocks[0].box)
            box[axis] = span
            found = geometry(layout, Block(0, (box[0], box[1], box[2]), ()), steps)
            known[axis, span] = found
        return found

    touched: list[list[Chunk]] = []
    before: dict[str, tuple[Block, Box]] = {}
    for block in (
        point for whole in blocks for point in (points_of(whole) if carried else [whole])
    ):
        i, j, k = (along(axis, span) for axis, span in enumerate(block.box))
        idle = not all(cells.domains[-1][axis].size for axis, cells in enumerate((i, j, k)))
        found: list[Chunk] = []
        for use in uses:
            box = (i.inner[use.name][0], j.inner[use.name][1], k.inner[use.name][2])
            fresh = box
            if carried:
                last = before.get(use.name)
                same = last is not None and same_point(use, grid, last[0], block)
                fresh = share(last[1] if last is not None and same else None, box).fresh
                before[use.name] = (block, box)
            if use.kept or not idle:
                for region in regions_of(use, grid, block, fresh):
                    found.extend(chunks_in(stored[use.name], region))
        touched.append(found)
    return touched


def has_idle(layout: Layout, blocks: Sequence[Block], steps: int) -> bool:
    """Whether any block computes nothing, as every stencil in it leaves the data."""
    for axis in range(3):
        for span in {block.box[axis] for block in blocks}:
            box = list(blocks[0].box)
            box[axis] = span
            cells = geometry(layout, Block(0, (box[0], box[1], box[2]), ()), steps)
            if cells.domains[-1][axis].size == 0:
                return True
    return False


def fetched_chunks(touched: Iterable[Chunk], cache: int) -> int:
    """Return how many chunks are fetched through a cache that forgets the least recently used.

    It has `cache` bytes; a chunk that is larger is not kept.
    """
    held = LRU[tuple[str, tuple[int, ...]]](cache)
    return sum(not held.use((one.stored.name, one.index), one.nbytes).hit for one in touched)


def _reads(layout: Layout, axis: int, block: int, steps: int) -> tuple[int, int]:
    """Return how many blocks before and after it a block shares chunks with."""
    low, high = layout.reach[axis]
    dim = layout.grid.dims[axis]
    chunks = [
        use.chunks[use.dims.index(dim)]
        for use in layout.uses
        if dim is not None and use.loaded and use.chunks and dim in use.dims
    ]
    beyond = max((chunk - 1 for chunk in chunks if block % chunk), default=0)
    return -(-(beyond - steps * low) // block), -(-(beyond + steps * high) // block)


def _column(name: str, along: int, grid: BlockGrid, cache: int) -> Order:
    length, work = grid.counts[1 - along], grid.work(along)
    width = fitting_width(work, cache) or 1
    if name == "zigzag" and width < length:
        width = fitting_width(turning(work), cache) or 1
    return Order(name, along, min(width, length))


def _number(
    place: Sequence[int], others: Sequence[int], counts: tuple[int, int], along: int
) -> int:
    """Return the number of a block in the order of `partition` from its place in a column order."""
    i, j = (place[-1], place[-2]) if along == 1 else (place[-2], place[-1])
    number = 0
    for at, size in zip(place, others, strict=False):
        number = number * size + at
    return (number * counts[1] + j) * counts[0] + i
