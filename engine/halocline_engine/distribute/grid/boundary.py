"""Cells beyond the ends of an axis, and those that a block needs because of them.

::

      ghosts    |  data                                  |   ghosts
      -2   -1   |   0    1    2   ...        N-2   N-1   |   N    N+1
                |                                        |
      x0   x0   |  edge: the last cell again             |
      x2   x1   |  reflect: mirrored at the last cell, which is not repeated
      x1   x0   |  symmetric: mirrored at the end of the data
     -x1  -x0   |  antisymmetric: the same with the other sign
     x0-2d x0-d |  extrapolate: on the straight line through the last two cells (d = x1 - x0)
      v    v    |  constant: a value
     xN-2  xN-1 |  periodic: the other end follows
                |  none: no ghosts; cells that would need them are not computed

Ghosts are made again before every step, along I, then J, then K, so that a corner belongs to the
later axis. Everything here is arithmetic on spans: no array library, no dataset.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TypeAlias

from halocline_engine.analysis.boundaries import OPEN, Kind, Side, cells_of
from halocline_engine.distribute.grid.partition import Span

__all__ = ["Along", "Line", "Lines", "Reach", "domain", "local", "need", "shrink"]

#: (low, high) with low <= 0 <= high: how far around a cell a program reads.
Reach: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """An axis: how many cells of data, and what lies beyond both ends."""

    size: int
    low: Side = OPEN
    high: Side = OPEN

    @property
    def data(self) -> Span:
        """The cells that exist."""
        return Span(0, self.size)

    @property
    def endless(self) -> bool:
        """Whether cells beyond the ends are read as data, their index taken modulo the size."""
        return self.low.kind is Kind.PERIODIC


#: I, J and K of a field.
Lines: TypeAlias = tuple[Line, Line, Line]
#: An axis as each of several fields has it, and how far the program reads that field along it.
Along: TypeAlias = tuple[tuple[Line, Reach], ...]


def local(line: Line, block: int) -> Line:
    """Return the axis as blocks of the size `block` see it: PERIODIC is WRAP where one holds all.

    >>> local(Line(4, Side(Kind.PERIODIC), Side(Kind.PERIODIC)), 4).low.kind.value
    'wrap'
    """
    if line.endless and block >= line.size:
        return replace(line, low=Side(Kind.WRAP), high=Side(Kind.WRAP))
    return line


def domain(along: Along, span: Span) -> Span:
    """Return the cells of `span` that a program computes; it may be empty.

    They are all but those whose stencil leaves the data of a field where no rule makes ghosts.

    >>> fields = (Line(10), (-1, 0)), (Line(10, high=Side(Kind.EDGE)), (0, 1))
    >>> domain(fields, Span(0, 10))
    Span(start=1, stop=10)
    """
    for line, (low, high) in along:
        start = -low if line.low.kind is Kind.NONE else span.start
        stop = line.size - high if line.high.kind is Kind.NONE else span.stop
        span = span.meet(Span(start, stop))
    return span


def need(line: Line, cells: Span, reach: Reach) -> Span:
    """Return the data that computing `cells` reads, what its ghosts are made of included.

    >>> need(Line(10, Side(Kind.EDGE), Side(Kind.EDGE)), Span(0, 3), (-2, 2))
    Span(start=0, stop=5)
    """
    if not cells.size:
        return cells
    wanted = cells.widen(*reach)
    if line.endless:
        return wanted
    inside = wanted.meet(line.data)
    inside = inside.hull(_below(line, -wanted.start))
    return inside.hull(_above(line, wanted.stop - line.size))


@functools.lru_cache(maxsize=4096)
def shrink(along: Along, block: Span, steps: int) -> tuple[Span, ...]:
    """Return the cells that must hold right values before step 1, after step 1, ... after the last.

    The last entry is the block itself and the first one what must be read; each holds the next,
    as cells that a step does not compute keep their value.

    >>> shrink(((Line(20), (-1, 1)),), Span(8, 12), 3)[0]
    Span(start=5, stop=15)
    """
    spans = [block]
    while len(spans) <= steps:
        after = spans[-1]
        cells, before = domain(along, after), after
        for line, reach in along:
            before = before.hull(need(line, cells, reach))
        if before == after:
            # So it is for all steps before.
            spans += [after] * (steps + 1 - len(spans))
        else:
            spans.append(before)
    return tuple(reversed(spans))


def _below(line: Line, depth: int) -> Span:
    """Return the cells that `depth` ghosts before the first cell are made of."""
    if depth <= 0:
        return Span(0, 0)
    if line.low.kind is Kind.WRAP:
        return Span(line.size - depth, line.size)
    first, stop = _inwards(line.low.kind, depth)
    return Span(first, stop)


def _above(line: Line, depth: int) -> Span:
    """Return the cells that `depth` ghosts after the last cell are made of."""
    if depth <= 0:
        return Span(0, 0)
    if line.high.kind is Kind.WRAP:
        return Span(0, depth)
    first, stop = _inwards(line.high.kind, depth)
    return Span(line.size - stop, line.size - first) if stop else Span(0, 0)


def _inwards(kind: Kind, depth: int) -> tuple[int, int]:
    """Return the range of cells, counted from an end, that so many ghosts are made of."""
    cells = [cell for distance in (1, depth) for cell in cells_of(kind, distance)]
    return min(cells, default=0), max(cells, default=-1) + 1
