"""Cells of a block: read, held and computed to make several steps at once.

One axis of a block that makes three steps with a reach of one cell, far from the ends of the data::

     read      . . . o o o o o o o . . .      valid[0]   what must be read
     step 1    . . . . o o o o o . . . .      valid[1]   is right after step 1
     step 2    . . . . . o o o . . . . .      valid[2]
     step 3    . . . . . . o . . . . . .      valid[3]   the block

At an end of the data nothing is lost: ghosts are made there before every step.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.distribute.grid.boundary import (
    Along,
    Lines,
    Reach,
    domain,
    need,
    shrink,
)
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.ir.extent import Extent
from halocline_engine.ir.types import Axis

__all__ = ["Geometry", "Layout", "Reaches", "geometry", "reaches_of"]

Reaches = tuple[Reach, Reach, Reach]

_AXES = (Axis.I, Axis.J, Axis.K)
_POINT = Span(0, 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """Common properties of all blocks of a job.

    `lines` and `reaches` belong to `uses`, one each: the axes of a field as blocks see them
    (`boundary.local`), and how far around a point the program reads it. `named` says that the
    program names points along I by tables, so that a block has all of them, and `varying` that
    scalars change from step to step, so that no two steps are alike. `exact` are reaches that need
    not hold the point itself, where fields of an axis differ in length.
    """

    grid: Grid
    uses: tuple[FieldUse, ...]
    lines: tuple[Lines, ...]
    reaches: tuple[Reaches, ...]
    named: bool = False
    varying: bool = False
    exact: tuple[Reaches, ...] = ()

    @property
    def reach(self) -> Reaches:
        """Distance around a point at which the program reads any field."""
        i, j, k = (
            (min(r[at][0] for r in self.reaches), max(r[at][1] for r in self.reaches))
            for at in range(3)
        )
        return i, j, k

    @property
    def endless(self) -> tuple[bool, bool, bool]:
        """Whether cells beyond the ends of I, J and K are read as data by all fields."""
        i, j, k = (any(lines[at].endless for lines in self.lines) for at in range(3))
        return i, j, k

    def lines_of(self, name: str) -> Lines:
        """Return the axes of a field."""
        return next(
            lines for use, lines in zip(self.uses, self.lines, strict=True) if use.name == name
        )

    def along(self, at: int) -> Along:
        """Return an axis as fields that are read have it, those alike once.

        What is only written may lie anywhere: cells beyond it are computed, and dropped.
        """
        several = zip(self.uses, self.lines, self.exact or self.reaches, strict=True)
        return tuple(
            dict.fromkeys((lines[at], reaches[at]) for use, lines, reaches in several if use.read)
        )


@dataclass(frozen=True, slots=True)
class Geometry:
    """The cells of one block.

    `valid` are the cells that hold right values before the first step and after each one, and
    `domains` those that each step computes. `frames` are the cells that the array of each field
    holds, ghosts included, `inner` those of them that are data, and `own` those of the block: one
    point along an axis that the field does not have.
    """

    valid: tuple[Box, ...]
    domains: tuple[Box, ...]
    frames: Mapping[str, Box]
    inner: Mapping[str, Box]
    own: Mapping[str, Box]

    @property
    def idle(self) -> bool:
        """Whether no step computes anything, as every stencil leaves the data."""
        return any(span.size == 0 for span in self.domains[-1])


def reaches_of(extent: Extent) -> Reaches:
    """Return how far a field is read; an extent that stays inside the domain reaches nowhere."""
    i, j, k = ((min(low, 0), max(high, 0)) for low, high in extent)
    return i, j, k


def geometry(layout: Layout, block: Block, steps: int) -> Geometry:
    """Return the cells of a block that makes `steps` steps without a look at its neighbours."""
    i, j, k = (_along(layout.along(at), span, steps) for at, span in enumerate(block.box))
    valid = tuple(zip(i[0], j[0], k[0], strict=True))
    domains = tuple(zip(i[1], j[1], k[1], strict=True))
    frames: dict[str, Box] = {}
    inner: dict[str, Box] = {}
    for use, lines, reach in zip(layout.uses, layout.lines, layout.reaches, strict=True):
        held = _inside(lines, _held(use, lines, reach, valid, domains[0]))
        partner = next((r for u, r in _pairs(layout) if u.name == use.partner), None)
        wanted = _reached(reach, domains[0])
        if partner is not None:
            wanted = _hull(wanted, _reached(partner, domains[0]))
        inner[use.name] = _absent(use, held)
        frames[use.name] = _absent(use, _hull(held, wanted))
    own = {
        use.name: _absent(use, _inside(lines, valid[-1]))
        for use, lines in zip(layout.uses, layout.lines, strict=True)
    }
    return Geometry(valid, domains, frames, inner, own)


@functools.lru_cache(maxsize=1024)
def _along(along: Along, span: Span, steps: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans of `valid` and `domains` along an axis; many blocks have the same ones."""
    valid = shrink(along, span, steps)
    domains: list[Span] = []
    for before, later in pairwise(valid):
        # Where a block reaches both ends of the data all are one object.
        same = domains and later is before
        domains.append(domains[-1] if same else domain(along, later))
    return valid, tuple(domains)


def _pairs(layout: Layout) -> zip[tuple[FieldUse, Reaches]]:
    return zip(layout.uses, layout.reaches, strict=True)


def _held(use: FieldUse, lines: Lines, reach: Reaches, valid: tuple[Box, ...], first: Box) -> Box:
    """Return the cells of the data that a field's array holds."""
    match use.role:
        case Role.FED | Role.FEEDS | Role.IN_PLACE:
            return valid[0]
        case Role.CREATED:
            return valid[1]
        case Role.INPUT:
            return _box(
                *(
                    need(line, span, along)
                    for line, span, along in zip(lines, first, reach, strict=True)
                )
            )


def _inside(lines: Lines, box: Box) -> Box:
    """Return the cells of a box that a field has."""
    return _box(
        *(
            span if line.endless else span.meet(line.data)
            for line, span in zip(lines, box, strict=True)
        )
    )


def _reached(reach: Reaches, first: Box) -> Box:
    """Return the cells that the first step reads or writes of a field, ghosts included."""
    if any(span.size == 0 for span in first):
        return first
    return _box(*(span.widen(*along) for span, along in zip(first, reach, strict=True)))


def _hull(left: Box, right: Box) -> Box:
    return _box(*(a.hull(b) for a, b in zip(left, right, strict=True)))


def _absent(use: FieldUse, box: Box) -> Box:
    """Return the box with one point along the axes that the field does not have."""
    return _box(
        *(span if axis in use.axes else _POINT for axis, span in zip(_AXES, box, strict=True))
    )


def _box(*spans: Span) -> Box:
    i, j, k = spans
    return i, j, k
