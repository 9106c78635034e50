"""Points of a column and the levels of the program that they are.

Points are counted in half levels from the bottom (see `columns_window`). A program has one level
for every face; the centre above a face has its number, or the one below where the data begins at
the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from halocline_engine.ir.columns.table import At
from halocline_engine.ir.nodes import Bound, Interval

__all__ = ["Shape", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """Points of one kind that are treated alike: `sample` stands for those from `low` to `high`."""

    sample: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A column of `levels` centres; `flipped` where the first level in memory is the top one."""

    levels: int
    periodic: bool = False
    flipped: bool = False

    @property
    def size(self) -> int:
        """Number of half levels between the ends."""
        return 2 * self.levels

    @property
    def domain(self) -> int:
        """Number of levels of the program."""
        return self.levels if self.periodic else self.levels + 1

    def count(self, at: At) -> int:
        """Return how many centres or faces there are."""
        return self.levels if at is At.CENTRE else self.domain

    def points(self, at: At) -> range:
        """Return the points of all centres or faces, from bottom to top."""
        first = 1 if at is At.CENTRE else 0
        return range(first, first + 2 * self.count(at), 2)

    def wrap(self, h: int) -> int:
        """Return the same point of a periodic column inside it."""
        return h % self.size if self.periodic else h

    def level(self, h: int) -> int:
        """Return the level of the program at a point inside the column."""
        mirrored = self.wrap(self.size - h) if self.flipped else h
        return mirrored // 2

    def spans(self, at: At, reach: int) -> tuple[Span, ...]:
        """Return the centres or faces by how they are computed: one by one near the ends.

        What is more than `reach` half levels away from both ends is alike.
        """
        points = self.points(at)
        edge = reach // 2 + 1
        if len(points) <= 2 * edge + 1:
            return tuple(Span(h, h, h) for h in points)
        low = tuple(Span(h, h, h) for h in points[:edge])
        high = tuple(Span(h, h, h) for h in points[-edge:])
        return (*low, Span(points[edge], points[edge], points[-edge - 1]), *high)

    def interval(self, span: Span) -> Interval:
        """Return the levels of a span; what is nearer to the end is counted from there."""
        levels = sorted((self.level(span.low), self.level(span.high)))
        return Interval(self._bound(levels[0]), self._bound(levels[1] + 1))

    def _bound(self, level: int) -> Bound:
        if level <= self.domain // 2:
            return Bound(from_end=False, offset=level)
        return Bound(from_end=True, offset=level - self.domain)

    def ordered(self, spans: Sequence[Span], *, upwards: bool) -> tuple[Span, ...]:
        """Return spans in the order of the levels in memory, or against it."""
        return tuple(sorted(spans, key=lambda span: self.level(span.low), reverse=not upwards))
