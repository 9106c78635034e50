"""Cut a grid into blocks: pure geometry, in the coordinates of the whole grid.

Axes are always (I, J, K), and behind them the dimensions that the program does not use. K is never
split: intervals and sequential computations are relative to its first and last level.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from halocline_engine.errors import CapacityError

__all__ = [
    "MOST_BLOCKS",
    "Block",
    "Box",
    "Span",
    "block_count",
    "partition",
    "shares",
    "slices_within",
]

#: Blocks that one pass may have: each is a task, with events and a place in the plan.
MOST_BLOCKS = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """The cells from `start` up to, not including, `stop`; empty where `stop <= start`."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of cells."""
        return max(0, self.stop - self.start)

    def meet(self, other: Span) -> Span:
        """Return the cells in both.

        >>> Span(0, 5).meet(Span(3, 9))
        Span(start=3, stop=5)
        """
        return Span(max(self.start, other.start), min(self.stop, other.stop))

    def hull(self, other: Span) -> Span:
        """Return the smallest span that holds both; an empty one holds nothing.

        >>> Span(0, 2).hull(Span(6, 7))
        Span(start=0, stop=7)
        """
        if not other.size:
            return self
        if not self.size:
            return other
        return Span(min(self.start, other.start), max(self.stop, other.stop))

    def widen(self, low: int, high: int) -> Span:
        """Return the span moved by `low` at its start and `high` at its stop.

        >>> Span(4, 8).widen(-2, 1)
        Span(start=2, stop=9)
        """
        return Span(self.start + low, self.stop + high)

    def within(self, frame: Span) -> slice:
        """Return where these cells are in an array that holds `frame`."""
        return slice(self.start - frame.start, self.stop - frame.start)


#: Cells along I, J and K.
Box: TypeAlias = tuple[Span, Span, Span]


def slices_within(box: Box, frame: Box) -> tuple[slice, ...]:
    """Return the place of some cells in an array that holds `frame`."""
    return tuple(span.within(whole) for span, whole in zip(box, frame, strict=True))


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the grid that one task computes: a box, for some of the other dimensions' points.

    `index` is the place in the order of execution, from 0.
    """

    index: int
    box: Box
    extra: tuple[Span, ...]


def block_count(sizes: tuple[int, ...], block: tuple[int, ...]) -> int:
    """Return how many blocks of the size `block` cover a grid of `sizes`.

    >>> block_count((10, 4), (3, 4))
    4
    """
    return math.prod(-(-size // step) for size, step in zip(sizes, block, strict=True))


def partition(
    sizes: tuple[int, int, int],
    extra: tuple[int, ...],
    block: tuple[int, int, int],
    extra_block: tuple[int, ...],
    wholes: tuple[int, int, int] | None = None,
) -> tuple[Block, ...]:
    """Return the blocks of a grid, those at its ends smaller where the sizes do not divide.

    Where axes have `wholes` more cells than `sizes`, the last blocks have these as well.

    Neighbours along I follow each other, then those along J, then the other dimensions, so
    that what one block read is still at hand for the next one.

    Raises `CapacityError`, before any is made, where there would be more than `MOST_BLOCKS`.

    >>> [b.box[0] for b in partition((5, 1, 1), (), (3, 1, 1), ())]
    [Span(start=0, stop=3), Span(start=3, stop=5)]
    """
    count = block_count((*sizes, *extra), (*block, *extra_block))
    if count > MOST_BLOCKS:
        cells = math.prod((*sizes, *extra))
        raise CapacityError(
            f"The {cells} cells would be cut into {count} blocks, but a pass may have "
            f"{MOST_BLOCKS}.",
            hint="Give larger 'chunks' or more 'memory_limit', or select a part of the dataset.",
        )
    i, j, k = (
        list(_spans(n, step, whole))
        for n, step, whole in zip(sizes, block, wholes or sizes, strict=True)
    )
    others = [list(_spans(n, step, n)) for n, step in zip(extra, extra_block, strict=True)]
    order = itertools.product(*others, k, j, i)
    return tuple(
        Block(index, (spans[-1], spans[-2], spans[-3]), tuple(spans[:-3]))
        for index, spans in enumerate(order)
    )


def _spans(size: int, step: int, whole: int) -> Iterator[Span]:
    for start in range(0, size, step):
        yield Span(start, start + step if start + step < size else whole)


_T = TypeVar("_T")


def shares(blocks: Sequence[_T], parts: int) -> list[Sequence[_T]]:
    """Cut blocks into so many parts, in which neighbours stay together.

    >>> [len(part) for part in shares([None] * 7, 3)]
    [2, 2, 3]
    """
    cuts = [len(blocks) * part // parts for part in range(parts + 1)]
    return [blocks[first:last] for first, last in itertools.pairwise(cuts)]
