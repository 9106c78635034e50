"""Overlap of successive blocks on a device: pure geometry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.distribute.grid.partition import Block, Box, Span

__all__ = ["Share", "points_of", "same_point", "share"]


@dataclass(frozen=True, slots=True)
class Share:
    """A box that is needed, cut in two: `kept` was needed before, None where that is of no use."""

    kept: Box | None
    fresh: Box

    @property
    def complete(self) -> bool:
        """Whether nothing new is needed."""
        return any(span.size == 0 for span in self.fresh)


def share(before: Box | None, box: Box) -> Share:
    """Return what of a box was needed just before, and the rest, which must be a box as well.

    So both may differ along one axis only, and the rest must lie on one side.

    >>> row, level = Span(0, 9), Span(0, 1)
    >>> share((row, Span(0, 6), level), (row, Span(4, 10), level)).fresh[1]
    Span(start=6, stop=10)
    """
    if before is None:
        return Share(None, box)
    apart = [axis for axis in range(3) if before[axis] != box[axis]]
    if not apart:
        return Share(box, _along(box, 0, Span(box[0].stop, box[0].stop)))
    if len(apart) > 1:
        return Share(None, box)
    axis = apart[0]
    whole, both = box[axis], before[axis].meet(box[axis])
    if both.size and both.start == whole.start:
        return Share(_along(box, axis, both), _along(box, axis, Span(both.stop, whole.stop)))
    if both.size and both.stop == whole.stop:
        return Share(_along(box, axis, both), _along(box, axis, Span(whole.start, both.start)))
    return Share(None, box)


def same_point(use: FieldUse, grid: Grid, before: Block, block: Block) -> bool:
    """Whether two blocks need a variable at the same points of the dimensions that are looped over.

    >>> grid = Grid((None, None, None), (1, 1, 1), ("time",), (3,))
    >>> box = (Span(0, 1),) * 3
    >>> one, other = (Block(at, box, (Span(at, at + 1),)) for at in (0, 1))
    >>> same_point(FieldUse("a", "a", (), "bool", ("time",), "input"), grid, one, other)
    False
    """
    return all(
        a == b
        for dim, a, b in zip(grid.extra, before.extra, block.extra, strict=True)
        if dim in use.dims
    )


def points_of(block: Block) -> Sequence[Block]:
    """Return a block for each of its points of the dimensions that are looped over."""
    points: list[tuple[Span, ...]] = [()]
    for span in block.extra:
        along = [Span(at, at + 1) for at in range(span.start, span.stop)]
        points = [(*point, one) for point in points for one in along]
    return [Block(block.index, block.box, point) for point in points]


def _along(box: Box, axis: int, span: Span) -> Box:
    i, j, k = (span if at == axis else other for at, other in enumerate(box))
    return i, j, k
