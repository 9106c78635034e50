"""Cells that parts send each other between stages: pure geometry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from halocline_engine.analysis.boundaries import Kind, Side
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.exchange import AxisPart, parts_along
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.stepping.held import Cells
from halocline_engine.distribute.stepping.plan import Steps
from halocline_engine.distribute.stepping.stages import Part

__all__ = ["HaloPiece", "pieces_of"]


@dataclass(frozen=True, slots=True)
class HaloPiece:
    """Cells of a variable that one part has and another one needs.

    `sent` are the cells of the source, `into` the same ones as the target counts them.
    """

    name: str
    source: int
    target: int
    sent: Cells
    into: Cells


def pieces_of(steps: Steps, name: str) -> Iterator[HaloPiece]:
    """Yield the pieces of a variable that parts exchange, in a fixed order.

    Along dimensions that are not cut, those are the cells of the data: what lies beyond follows.
    """
    dims = steps.program.variables[name].dims
    cut = [dim for dim in steps.program.sizes if dim in steps.cut]
    lines = {dim: _line(steps, dim) for dim in dims}
    starts = {tuple(part.spans[dim].start for dim in cut): part.index for part in steps.parts}
    cuts = {dim: _spans(steps.parts, dim) for dim in cut}
    for target in steps.parts:
        wanted = steps.program.cells(target, steps.cut)[name]
        along: list[list[AxisPart]] = []
        for dim in dims:
            own = target.spans[dim]
            if dim not in steps.cut:
                along.append([AxisPart(own, own, own.start)])
                continue
            line = lines[dim]
            cells = wanted[dim] if line.endless else wanted[dim].meet(line.data)
            along.append(list(parts_along(line, cells, cuts[dim])))
        for parts in itertools.product(*along):
            at = dict(zip(dims, parts, strict=True))
            # A part has its own values of a variable that lacks a dimension.
            place = (at[d].start if d in at else target.spans[d].start for d in cut)
            source = starts[tuple(place)]
            sent = {dim: one.sent for dim, one in at.items()}
            into = {dim: one.into for dim, one in at.items()}
            if source != target.index or sent != into:
                yield HaloPiece(name, source, target.index, sent, into)


def _line(steps: Steps, dim: str) -> Line:
    """Return a dimension that goes around where a stage says so."""
    goes = any(stage.around.get(dim, False) for stage in steps.program.stages)
    side = Side(Kind.PERIODIC) if goes else Side()
    return Line(steps.program.sizes[dim], side, side)


def _spans(parts: Sequence[Part], dim: str) -> tuple[Span, ...]:
    return tuple(sorted({part.spans[dim] for part in parts}, key=lambda span: span.start))
