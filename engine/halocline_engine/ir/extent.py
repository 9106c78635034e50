"""Extents: signed ranges of offsets around a point, and their algebra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["CENTRE", "Extent", "Facts", "Horizontal", "Range", "enclose", "shift"]

#: (low, high): low cells before (negative) and high cells after (positive) the domain.
Range: TypeAlias = tuple[int, int]
#: ((i-, i+), (j-, j+))
Horizontal: TypeAlias = tuple[Range, Range]
#: ((i-, i+), (j-, j+), (k-, k+)). K is relative to the domain's first and last level, so (1, 0)
#: says that the first level is never touched.
Extent: TypeAlias = tuple[Range, Range, Range]

CENTRE: Horizontal = ((0, 0), (0, 0))


def enclose(left: Horizontal, right: Horizontal) -> Horizontal:
    """Return the smallest extent that holds both.

    >>> enclose(((-1, 0), (0, 0)), ((0, 2), (-3, 0)))
    ((-1, 2), (-3, 0))
    """
    (a, b), (c, d) = left
    (e, f), (g, h) = right
    return (min(a, e), max(b, f)), (min(c, g), max(d, h))


def shift(extent: Horizontal, i: int, j: int) -> Horizontal:
    """Return the extent moved by an offset.

    >>> shift(((-1, 1), (0, 0)), 2, -1)
    ((1, 3), (-1, -1))
    """
    (a, b), (c, d) = extent
    return (a + i, b + i), (c + j, d + j)


@dataclass(frozen=True, slots=True)
class Facts:
    """Results of the analysis of a program.

    `fields` gives the extent of every field (what a caller must provide around the domain),
    `temporaries` the horizontal extent on which each temporary is computed, and `statements` the
    horizontal extent of each top-level statement, nested as computations, blocks and bodies are.
    `min_levels` is the smallest number of levels on which no interval is reversed or overlaps, and
    no temporary is read outside the domain. `in_regions` gives the extent of fields whose values
    are needed less far, as they are read in regions only: beyond it any value will do.
    """

    fields: Mapping[str, Extent]
    temporaries: Mapping[str, Horizontal]
    statements: tuple[tuple[tuple[Horizontal, ...], ...], ...]
    min_levels: int
    in_regions: Mapping[str, Extent] = field(default_factory=dict[str, Extent])

    def required(self, name: str) -> Extent:
        """Return what a caller must provide of a field around the domain."""
        return self.in_regions.get(name, self.fields[name])
