"""Cells that neighbouring blocks send each other between steps: pure geometry.

One axis of two blocks that make two steps before they meet again, with a reach of one cell::

     block 0   o o o o o o . .            o   cells of the block
     block 1           . . o o o o o o    .   its halo: sent by the block that has these cells

A halo may be deeper than a neighbour: then blocks behind it send as well. On a periodic axis the
last block is a neighbour of the first. Where a single block has all of a periodic axis, nothing is
sent along it: its halo is filled from its own cells, after those of other axes have come.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from halocline_engine.analysis.boundaries import OPEN, Kind, Side
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.distribute.grid.boundary import Line, Lines, need
from halocline_engine.distribute.grid.geometry import Geometry, Layout, Reaches
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.ir.types import Axis

__all__ = [
    "AxisPart",
    "Piece",
    "deepest_wrap",
    "exchange",
    "parts_along",
    "sent_cells",
    "wrapped_lines",
]


@dataclass(frozen=True, slots=True)
class Piece:
    """Cells of a field that one block has and another one needs.

    `field` is the input of the next step; `source` and `target` are indices of blocks. `sent` are
    the cells of the source, `into` the same ones as the target counts them, which differ where a
    periodic axis is crossed.
    """

    field: str
    source: int
    target: int
    sent: Box
    into: Box

    @property
    def cells(self) -> int:
        """Number of cells."""
        i, j, k = self.into
        return i.size * j.size * k.size


@dataclass(frozen=True, slots=True)
class AxisPart:
    """A part of an axis: where it lies for the target, for its source, and where that begins."""

    into: Span
    sent: Span
    start: int


def exchange(
    layout: Layout, blocks: Sequence[Block], cells: Mapping[int, Geometry]
) -> tuple[Piece, ...]:
    """Return what all blocks need of each other before the first step of their geometry.

    `cells` are the geometries by the blocks' indices. Each block has one point of the dimensions
    that are looped over. The order of the pieces depends on nothing but the arguments.
    """
    cuts = _cuts(blocks)
    there = {(_starts(block.box), block.extra): block for block in blocks}
    return tuple(
        piece
        for target in blocks
        for use, lines, reach in zip(layout.uses, layout.lines, layout.reaches, strict=True)
        if use.kept
        for piece in _pieces(use, lines, reach, target, cells[target.index], cuts, there)
    )


def wrapped_lines(layout: Layout, blocks: Sequence[Block]) -> Lines:
    """Return the axes of all fields with rules for the halos that a block fills from its own cells.

    Only those are left: periodic axes that are not cut.
    """
    cuts = _cuts(blocks)
    i, j, k = (
        replace(line, low=Side(Kind.WRAP), high=Side(Kind.WRAP))
        if endless and len(cut) == 1
        else replace(line, low=OPEN, high=OPEN)
        for line, endless, cut in zip(layout.lines[0], layout.endless, cuts, strict=True)
    )
    return i, j, k


def deepest_wrap(layout: Layout, blocks: Sequence[Block]) -> int | None:
    """Return how many steps a block may make before its own cells no longer fill its halo.

    None where no halo is filled so.
    """
    cuts = _cuts(blocks)
    most = [
        size // max(-low, high)
        for size, endless, cut, (low, high) in zip(
            layout.grid.sizes, layout.endless, cuts, layout.reach, strict=True
        )
        if endless and len(cut) == 1 and max(-low, high)
    ]
    return min(most, default=None)


def sent_cells(pieces: Sequence[Piece]) -> int:
    """Return how many cells blocks send to others.

    >>> box = (Span(0, 2), Span(0, 3), Span(0, 1))
    >>> sent_cells([Piece("u", 0, 1, box, box), Piece("u", 1, 1, box, box)])
    6
    """
    return sum(piece.cells for piece in pieces if piece.source != piece.target)


def _cuts(blocks: Sequence[Block]) -> tuple[tuple[Span, ...], ...]:
    """Return the parts into which the blocks cut each axis, in order."""
    return tuple(
        tuple(sorted({block.box[axis] for block in blocks}, key=lambda span: span.start))
        for axis in range(3)
    )


def _alone(line: Line, cut: Sequence[Span]) -> bool:
    return line.endless and len(cut) == 1


def _starts(box: Box) -> tuple[int, ...]:
    return tuple(span.start for span in box)


def _pieces(
    use: FieldUse,
    lines: Lines,
    reach: Reaches,
    target: Block,
    cells: Geometry,
    cuts: Sequence[Sequence[Span]],
    there: Mapping[tuple[tuple[int, ...], tuple[Span, ...]], Block],
) -> Iterator[Piece]:
    """Yield what a block needs of one field."""
    along: list[list[AxisPart]] = []
    for axis, name in enumerate(Axis):
        own, line = target.box[axis], lines[axis]
        if name not in use.axes:
            # Whatever cells of the axis a block has, the values are its own.
            point = cells.own[use.name][axis]
            along.append([AxisPart(point, point, own.start)])
            continue
        reading = need(line, cells.domains[0][axis], reach[axis])
        wanted = reading.hull(cells.valid[1][axis]).meet(cells.valid[0][axis])
        if not line.endless:
            wanted = wanted.meet(line.data)
        if _alone(line, cuts[axis]):
            wanted = wanted.meet(line.data)
        along.append(list(parts_along(line, wanted, cuts[axis])))
    for parts in itertools.product(*along):
        i, j, k = parts
        source = there[(i.start, j.start, k.start), target.extra]
        sent, into = (i.sent, j.sent, k.sent), (i.into, j.into, k.into)
        if source.index != target.index or sent != into:
            yield Piece(use.name, source.index, target.index, sent, into)


def parts_along(line: Line, wanted: Span, cut: Sequence[Span]) -> Iterator[AxisPart]:
    """Yield the parts of the cells that are wanted along an axis, by the block that has them."""
    first = wanted.start // line.size if line.endless else 0
    last = (wanted.stop - 1) // line.size if line.endless else 0
    for turn in range(first, last + 1):
        shift = turn * line.size
        for span in cut:
            into = span.widen(shift, shift).meet(wanted)
            if into.size:
                yield AxisPart(into, into.widen(-shift, -shift), span.start)
