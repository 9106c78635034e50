"""Reads beyond the sides of a domain, in steps that are made at once.

Before every step the ghosts of a field are made of its cells, along I, J and K in turn
(`analysis.boundaries.cells_of`). So a read of what the step before made, at a point that is a
ghost, is a read of these cells: at other offsets, which are known, as the point is so many cells
beyond the side. Nothing is stored beyond a side, and a read well inside is what it was::

    edge     v[-1] at the first column is v[0]
    reflect  v[-1] at the first column is v[1]; v[-2] is v[2] there, and v[0] at the second
    both     v[-1, -1] in the corner is v of what the rule of J gives, and then that of I
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from halocline_engine.analysis.boundaries import Kind, MadeSides, cells_of
from halocline_engine.ir.extent import Extent, Range

__all__ = ["Ghost", "Offset", "ghosts_along", "inward", "offsets_of", "wider"]

Offset: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Ghost:
    """A read that is `distance` cells beyond a side, which is `low` or the other one of an axis.

    `at` is the point that reads: its place counted from the first point of the domain for a low
    side, from the last one for a high side. `cells` are the offsets of the cells that the ghost is
    made of.
    """

    low: bool
    distance: int
    at: int
    cells: tuple[int, ...]


def ghosts_along(kinds: tuple[Kind, Kind], offset: int, wanted: Range) -> tuple[Ghost, ...]:
    """Return the ghosts that a read at an offset along an axis may be.

    `wanted` is how far beyond the domain the values of what reads are needed.

    >>> ghosts_along((Kind.REFLECT, Kind.EDGE), -1, (0, 1))
    (Ghost(low=True, distance=1, at=0, cells=(1,)),)
    """
    low, high = kinds
    found: list[Ghost] = []
    for distance in range(1, -wanted[0] - offset + 1):
        cells = tuple(offset + distance + cell for cell in cells_of(low, distance))
        found += [Ghost(True, distance, -distance - offset, cells)] if cells else []
    for distance in range(1, wanted[1] + offset + 1):
        cells = tuple(offset - distance - cell for cell in cells_of(high, distance))
        found += [Ghost(False, distance, distance - offset, cells)] if cells else []
    return tuple(found)


def offsets_of(kinds: MadeSides, offset: Offset, wanted: Extent) -> list[Offset]:
    """Return all offsets at which a read finds its value, its own the first."""
    i, j, k = (
        dict.fromkeys((own, *(cell for one in ghosts_along(ends, own, far) for cell in one.cells)))
        for ends, own, far in zip(kinds, offset, wanted, strict=True)
    )
    return list(product(i, j, k))


def inward(kind: Kind, depth: int) -> int:
    """Return how far from the last cell `depth` ghosts are made of cells."""
    return max(cells_of(kind, depth), default=0) if depth else 0


def wider(kinds: MadeSides, reach: Sequence[Range]) -> Extent:
    """Return a reach, with the cells that ghosts beyond the other side are made of.

    >>> wider(((Kind.EDGE, Kind.REFLECT), (Kind.NONE,) * 2, (Kind.NONE,) * 2), ((0, 2),) * 3)
    ((-2, 2), (0, 2), (0, 2))
    """
    i, j, k = (
        (min(low, -inward(ends[1], high)), max(high, inward(ends[0], -low)))
        for ends, (low, high) in zip(kinds, reach, strict=True)
    )
    return i, j, k
