"""Halos that blocks send each other: every cell that a step reads comes from the block that has it.

The oracle knows nothing of pieces: it numbers the cells of the data, gives each block its own ones,
and lets the exchange fill the rest.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.analysis.boundaries import OPEN, Kind, Side
from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.exchange import (
    deepest_wrap,
    exchange,
    sent_cells,
    wrapped_lines,
)
from halocline_engine.distribute.grid.geometry import Geometry, Layout, Reaches, geometry
from halocline_engine.distribute.grid.partition import Span, partition
from halocline_engine.ir.types import Axis

PERIODIC = Side(Kind.PERIODIC)
SIDES = st.sampled_from([OPEN, Side(Kind.EDGE), Side(Kind.REFLECT), Side(Kind.CONSTANT, 1.0)])


def layout_of(
    sizes: tuple[int, int, int], lines: tuple[Line, Line, Line], reach: Reaches, extra: int = 1
) -> Layout:
    grid = Grid(("x", "y", "z"), sizes, ("t",), (extra,))
    dims = ("t", "y", "x", "z")
    axes = (Axis.I, Axis.J, Axis.K)
    uses = (
        FieldUse("u", "u", axes, "float64", dims, Role.FED, partner="v"),
        FieldUse("v", "v", axes, "float64", dims, Role.FEEDS, partner="u"),
        FieldUse("c", "c", axes, "float64", dims, Role.INPUT),
    )
    still: Reaches = ((0, 0), (0, 0), (0, 0))
    return Layout(grid, uses, (lines,) * 3, (reach, still, reach))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, tuple[int, int, int], int]:
    sizes = (draw(st.integers(4, 11)), draw(st.integers(4, 9)), draw(st.integers(1, 2)))
    along_i, along_j = ((-draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(2))
    lines: list[Line] = []
    for size in sizes:
        periodic = draw(st.booleans())
        low, high = (PERIODIC, PERIODIC) if periodic else (draw(SIDES), draw(SIDES))
        lines.append(Line(size, low, high))
    layout = layout_of(
        sizes, (lines[0], lines[1], lines[2]), (along_i, along_j, (0, 0)), draw(st.integers(1, 2))
    )
    block = (draw(st.integers(1, sizes[0])), draw(st.integers(1, sizes[1])), sizes[2])
    return layout, block, draw(st.integers(1, 5))


def numbered(layout: Layout, point: int) -> NDArray[np.int64]:
    sizes = layout.grid.sizes
    return np.arange(np.prod(sizes)).reshape(sizes) + 1000 * (point + 1)


@settings(deadline=None)
@given(layouts())
def test_every_cell_that_a_step_reads_comes_from_the_block_that_has_it(
    drawn: tuple[Layout, tuple[int, int, int], int],
) -> None:
    layout, size, steps = drawn
    blocks = partition(layout.grid.sizes, layout.grid.extra_sizes, size, (1,))
    most = deepest_wrap(layout, blocks)
    steps = steps if most is None else max(1, min(steps, most))
    cells = {block.index: geometry(layout, block, steps) for block in blocks}
    held: dict[int, NDArray[Any]] = {}
    for block in blocks:
        frame, own = cells[block.index].frames["u"], cells[block.index].own["u"]
        held[block.index] = np.full([span.size for span in frame], -1)
        inside = tuple(span.within(whole) for span, whole in zip(own, frame, strict=True))
        there = tuple(slice(span.start, span.stop) for span in own)
        held[block.index][inside] = numbered(layout, block.extra[0].start)[there]
    pieces = exchange(layout, blocks, cells)
    assert len({(p.target, p.into) for p in pieces}) == len(pieces)
    for piece in pieces:
        assert piece.field == "u"
        assert piece.source != piece.target or piece.sent != piece.into
        source, target = (
            tuple(
                span.within(whole)
                for span, whole in zip(box, cells[index].frames["u"], strict=True)
            )
            for index, box in ((piece.source, piece.sent), (piece.target, piece.into))
        )
        own = cells[piece.source].own["u"]
        assert all(s.meet(o) == s for s, o in zip(piece.sent, own, strict=True)), (
            "sent by its owner"
        )
        held[piece.target][target] = held[piece.source][source]
    lines = wrapped_lines(layout, blocks)
    for block in blocks:
        frame, found = cells[block.index].frames["u"], held[block.index]
        values = numbered(layout, block.extra[0].start)
        wrapped = [axis for axis, line in enumerate(lines) if line.low.kind is Kind.WRAP]
        reading = _read_by_first_step(layout, cells[block.index])
        for at in product(*(range(span.start, span.stop) for span in reading)):
            place = tuple(a - span.start for a, span in zip(at, frame, strict=True))
            outside = [
                axis
                for axis, (a, line) in enumerate(zip(at, layout.lines[0], strict=True))
                if not 0 <= a < line.size
            ]
            if any(not layout.endless[axis] for axis in outside):
                continue  # a ghost, which a rule makes before each step
            if any(axis in wrapped for axis in outside):
                continue  # filled from the block's own cells
            index = tuple(a % line.size for a, line in zip(at, layout.lines[0], strict=True))
            assert found[place] == values[index]


def _read_by_first_step(layout: Layout, cells: Geometry) -> tuple[Span, ...]:
    first = cells.domains[0]
    if any(span.size == 0 for span in first):
        return first
    return tuple(
        span.widen(*reach).meet(frame)
        for span, reach, frame in zip(first, layout.reaches[0], cells.frames["u"], strict=True)
    )


def test_faces_edges_and_corners_are_sent_as_the_extents_need_them() -> None:
    lines = (Line(8, PERIODIC, PERIODIC), Line(9), Line(1))
    layout = layout_of((8, 9, 1), lines, ((-1, 1), (-1, 1), (0, 0)))
    blocks = partition((8, 9, 1), (1,), (4, 3, 1), (1,))
    one, two = (
        exchange(layout, blocks, {b.index: geometry(layout, b, steps) for b in blocks})
        for steps in (1, 2)
    )
    middle = next(b.index for b in blocks if b.box[0].start == 4 and b.box[1].start == 3)
    assert sum(p.cells for p in one if p.target == middle) == 6 * 5 - 4 * 3
    assert sum(p.cells for p in two if p.target == middle) == 8 * 7 - 4 * 3
    assert {p.source for p in one if p.target == middle} == set(range(6)) - {middle}
    assert sent_cells(one) < sent_cells(two)


def test_a_halo_deeper_than_a_neighbour_comes_from_the_blocks_behind_it() -> None:
    lines = (Line(6), Line(10, PERIODIC, PERIODIC), Line(1))
    layout = layout_of((6, 10, 1), lines, ((0, 0), (-2, 0), (0, 0)))
    blocks = partition((6, 10, 1), (1,), (6, 2, 1), (1,))
    cells = {b.index: geometry(layout, b, 3) for b in blocks}
    sources = {p.source for p in exchange(layout, blocks, cells) if p.target == 0}
    assert sources == {2, 3, 4}


def test_an_upwind_stencil_sends_one_way() -> None:
    lines = (Line(6), Line(8), Line(1))
    layout = layout_of((6, 8, 1), lines, ((0, 0), (-1, 0), (0, 0)))
    blocks = partition((6, 8, 1), (1,), (6, 2, 1), (1,))
    cells = {b.index: geometry(layout, b, 1) for b in blocks}
    pairs = [(p.source, p.target) for p in exchange(layout, blocks, cells)]
    assert pairs == [(0, 1), (1, 2), (2, 3)]


def test_fields_that_a_single_step_reads_in_place_are_not_sent() -> None:
    """The wave equation reads the field before last at the point itself only."""
    grid = Grid(("x", "y", "z"), (6, 8, 1), (), ())
    axes = (Axis.I, Axis.J, Axis.K)
    uses = tuple(
        FieldUse(name, name, axes, "float64", ("y", "x"), role, partner=partner)
        for name, role, partner in (
            ("now", Role.FED, "next"),
            ("old", Role.FED, "kept"),
            ("next", Role.FEEDS, "now"),
            ("kept", Role.FEEDS, "old"),
        )
    )
    star: Reaches = ((-1, 1), (-1, 1), (0, 0))
    still: Reaches = ((0, 0), (0, 0), (0, 0))
    lines = (Line(6), Line(8), Line(1))
    layout = Layout(grid, uses, (lines,) * 4, (star, still, still, still))
    blocks = partition((6, 8, 1), (), (6, 4, 1), ())
    fields = [
        {
            p.field
            for p in exchange(layout, blocks, {b.index: geometry(layout, b, t) for b in blocks})
        }
        for t in (1, 2)
    ]
    assert fields == [{"now"}, {"now", "old"}]
