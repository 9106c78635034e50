"""Tiles of fused steps: which points each step computes for one of them, and their best shape.

What later steps read around a tile is computed by earlier ones as well, also where another tile
does so: along an axis, a step that is followed by `left` others computes `left` times the reach
more. Beyond a side that is not open nothing is computed::

    |  tile  |
    +--------+---          the domain begins here, and its side is not open
    000000000000           step 0 of 3
    1111111111             step 1
    22222222               step 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias, cast

from halocline_engine.analysis.boundaries import UNMADE, Kind, MadeSides
from halocline_engine.backends.base import OpenSides
from halocline_engine.backends.cpu.calls import Box, Domain
from halocline_engine.ir.extent import Range
from halocline_engine.schedule.temporal.ghosts import wider

__all__ = ["Reach", "Tiling", "shape_of", "work_of"]

#: How far around a point a step reads what the last one made, along I, J and K.
Reach: TypeAlias = tuple[Range, Range, Range]

#: Points of a row of which vectors need no more to be fast, and those that begin a line of memory.
_ROW, _LINE = 512, 16


@dataclass(frozen=True, slots=True)
class Tiling:
    """A domain that is cut into tiles, on which so many steps are made.

    On open sides a domain grows by `growth` for each step; tiles need what is `reach` around them,
    which has the cells as well that ghosts are made of.
    """

    domain: Domain
    sides: OpenSides
    growth: Reach
    steps: int
    shape: Domain
    ends: MadeSides = UNMADE

    @property
    def reach(self) -> Reach:
        """How far around a point a step needs what the last one made."""
        return wider(self.ends, self.growth)

    def tiles(self) -> Iterator[Box]:
        """Yield all tiles in the order of memory along I."""
        several = [
            _pieces(size, width) for size, width in zip(self.domain, self.shape, strict=True)
        ]
        for k, j, i in product(*reversed(several)):
            yield i, j, k

    def box(self, tile: Box, step: int) -> Box:
        """Return the points that a step computes for a tile."""
        left = self.steps - 1 - step
        return self._around(tile, left, [[left * open_ for open_ in ends] for ends in self.sides])

    def room(self, tile: Box) -> Box:
        """Return all points that a tile has to do with."""
        return self._around(tile, self.steps, [[self.steps] * 2] * len(self.domain))

    def _around(self, tile: Box, left: int, most: Sequence[Sequence[int]]) -> Box:
        """Return what so many steps need, within the domain as it has grown in `most` steps."""
        return _box(
            (max(start + left * low, below * least), min(stop + left * high, size + above * far))
            for (start, stop), (low, high), (least, far), size, (below, above) in zip(
                tile, self.reach, self.growth, self.domain, most, strict=True
            )
        )

    def ghosts(self, tile: Box, extent: Reach) -> tuple[Box, Box] | None:
        """Return the cells of a tile with the ghosts that are made beyond sides, and those inside.

        None where a tile has none to do with.
        """
        whole: list[Range] = []
        data: list[Range] = []
        for (first, last), (low, high), size, kinds in zip(
            self.room(tile), extent, self.domain, self.ends, strict=True
        ):
            low_made, high_made = (kind is not Kind.NONE for kind in kinds)
            whole.append((max(first, min(low, 0)) if low_made else first, last))
            if high_made:
                whole[-1] = (whole[-1][0], min(last, size + max(high, 0)))
            inside = max(first, 0) if low_made else first, min(last, size) if high_made else last
            data.append(inside)
        return None if whole == data else (_box(whole), _box(data))

    def beyond(self, tile: Box, extent: Reach) -> Iterator[Box]:
        """Yield what steps find in a field beyond sides that are not open, where no ghosts are."""
        left = self.steps - 1
        there = _box(
            (
                max(first, left * below * low_open + min(low, 0)),
                min(last, size + left * above * high_open + max(high, 0)),
            )
            for (first, last), (low, high), (below, above), size, (low_open, high_open) in zip(
                self.room(tile), extent, self.growth, self.domain, self.sides, strict=True
            )
        )
        for axis, size in enumerate(self.domain):
            first, last = there[axis]
            for is_open, kind, part in zip(
                self.sides[axis],
                self.ends[axis],
                ((first, min(last, 0)), (max(first, size), last)),
                strict=True,
            ):
                if not is_open and kind is Kind.NONE and part[0] < part[1]:
                    yield _box((*there[:axis], part, *there[axis + 1 :]))

    def place(self, tile: Box) -> tuple[tuple[int, int, int], ...]:
        """Return what differs between tiles: sizes, and how near the ends of the domain are."""
        return tuple(
            (stop - start, min(start, -self.steps * low), min(size - stop, self.steps * high))
            for (start, stop), (low, high), size in zip(tile, self.reach, self.domain, strict=True)
        )


def shape_of(domain: Domain, reach: Reach, steps: int, points: int, inner: int) -> Domain:
    """Return the tile of at most so many points, with what is around it, that needs least work.

    `inner` is the axis that elements are adjacent along.

    >>> shape_of((4000, 4000, 1), ((-1, 1), (-1, 1), (0, 0)), 4, 40000, 0)
    (448, 82, 1)
    """
    several = [sorted(_widths(size, axis == inner)) for axis, size in enumerate(domain)]
    fitting = [
        shape
        for shape in product(*several)
        if prod(size + (steps - 1) * (high - low) for size, (low, high) in _with(shape, reach))
        <= points
    ]
    if not fitting:
        return cast("Domain", tuple(some[0] for some in several))
    best = min(fitting, key=lambda shape: (work_of(shape, reach, steps), -prod(shape)))
    return cast("Domain", best)


def work_of(shape: tuple[int, ...], reach: Reach, steps: int) -> float:
    """Return how many points steps compute for each that they would one by one."""
    made = sum(
        prod(size + left * (high - low) for size, (low, high) in _with(shape, reach))
        for left in range(steps)
    )
    return made / (steps * prod(shape))


def _with(shape: tuple[int, ...], reach: Reach) -> Iterator[tuple[int, Range]]:
    return zip(shape, reach, strict=True)


def _widths(size: int, is_inner: bool) -> set[int]:
    """Return how wide tiles may be along an axis: about equally, and not much less than a row."""
    least, unit = (0.75 * _ROW, _LINE) if is_inner else (1, 1)
    found: set[int] = set()
    count = 1.0
    while not found or size / count >= least:
        found.add(min(size, -(-size // (int(count) * unit)) * unit))
        count = max(count + 1, count * 1.15)
    return found


def _pieces(size: int, width: int) -> list[Range]:
    return [(start, min(start + width, size)) for start in range(0, size, width)]


def _box(ranges: Iterable[Range]) -> Box:
    return cast("Box", tuple(ranges))
