"""Stencil programs as stages on arrays that stay."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import setitem

import numpy as np

from halocline_engine.analysis.boundaries import Kind, Side
from halocline_engine.backends.base import Array, Executable, Memory
from halocline_engine.datasets.grids.match import FieldUse, Role
from halocline_engine.distribute.blocks.ghosts import ghosts_of
from halocline_engine.distribute.blocks.steps import BlockFields, BlockSteps
from halocline_engine.distribute.blocks.work import Work, executable_of
from halocline_engine.distribute.grid.boundary import Line, Lines, Reach, domain, need
from halocline_engine.distribute.grid.geometry import Geometry, Layout, Reaches, geometry
from halocline_engine.distribute.grid.partition import Block, Box, Span, slices_within
from halocline_engine.distribute.stencils.memory import cost_of
from halocline_engine.distribute.stepping.held import (
    Cells,
    Held,
    Room,
    Variable,
    hull,
    next_of,
)
from halocline_engine.distribute.stepping.schedule import StageFields
from halocline_engine.distribute.stepping.stages import Acts, BoundStage, Part
from halocline_engine.ir.types import Axis

__all__ = ["StencilStage"]

_POINT = Span(0, 1)
_AROUND = (Kind.PERIODIC, Kind.WRAP)
#: Ends whose ghosts are data, or do not exist.
_UNMADE = (Kind.NONE, Kind.PERIODIC)
_NOWHERE: Reaches = ((0, 0), (0, 0), (0, 0))
_READ = (Role.INPUT, Role.FED)


@dataclass(frozen=True, slots=True)
class StencilStage:
    """A stencil program: `work` is that of a streamed block, in a step after the first one.

    `arrays` are the whole arrays that the target needs for one statement. An output that replaces
    a variable which the program reads has an array of its own, and takes its place afterwards.
    """

    work: Work
    arrays: int

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read and written."""
        grid = self.work.layout.grid
        lying = [*grid.extra, *(dim for dim in reversed(grid.dims) if dim is not None)]
        return tuple(
            Variable(name, use.dims, use.dtype, tuple(dim for dim in lying if dim in use.dims))
            for use, name in _stored(self.work.layout)
        )

    @property
    def memory(self) -> Memory:
        """The memory of the program's target."""
        return executable_of(self.work.code).memory

    @property
    def whole(self) -> frozenset[str]:
        """The levels, and points along I that tables name."""
        i, _, k = self.work.layout.grid.dims
        whole = {k, i} if self.work.layout.named else {k}
        return frozenset(dim for dim in whole if dim is not None)

    @property
    def turned(self) -> Mapping[str, str]:
        """The variables that outputs replace."""
        return {
            use.variable: name for use, name in _stored(self.work.layout) if name != use.variable
        }

    @property
    def around(self) -> Mapping[str, bool]:
        """Whether a dimension with neighbours is periodic."""
        layout = self.work.layout
        axes = zip(layout.grid.dims, zip(*layout.lines, strict=True), layout.reach, strict=True)
        return {
            dim: any(line.low.kind in _AROUND for line in lines)
            for dim, lines, reach in axes
            if dim and any(reach)
        }

    @property
    def reach(self) -> Mapping[str, int]:
        """How many cells are read beside a point."""
        layout = self.work.layout
        lines = zip(layout.grid.dims, layout.reach, strict=True)
        return {dim: high - low for dim, (low, high) in lines if dim}

    def fields(self, cut: frozenset[str]) -> StageFields:
        """Return the variables by their use."""
        layout, bases = _cut(self.work.layout, cut), _bases(self.work.layout)
        read, written, replaced = set[str](), set[str](), set[str]()
        near, repeated = set[str](), set[str]()
        ghosts: dict[str, list[Hashable]] = {}
        for (use, name), reach in zip(_stored(layout), layout.reaches, strict=True):
            base = bases.get(use.name, name)
            if use.result:
                written.add(name)
            if base != name or _is_replaced(layout, use, reach):
                replaced.add(name)
            if base != name or not _is_replaced(layout, use, reach):
                read.add(base)
            if _is_repeated(layout, use):
                repeated.add(name)
            along = zip(layout.grid.dims, reach, strict=True)
            if any(dim in cut and dim in use.dims and any(far) for dim, far in along):
                near.add(base)
            if base == name and name not in repeated and _has_ghosts(layout, use, reach):
                ghosts.setdefault(name, []).append(
                    (layout.lines_of(use.name), layout.grid.dims, reach)
                )
        return StageFields(
            read=frozenset(read),
            written=frozenset(written),
            replaced=frozenset(replaced),
            near=frozenset(near),
            ghosts={name: tuple(rules) for name, rules in ghosts.items()},
            repeated=frozenset(repeated),
        )

    def cells(self, part: Part, cut: frozenset[str]) -> Mapping[str, Cells]:
        """Return the cells of each variable that a part needs room for."""
        layout = _cut(self.work.layout, cut)
        frames = _geometry(layout, part).frames
        found: dict[str, list[Cells]] = {}
        for use, name in _stored(self.work.layout):
            found.setdefault(name, []).append(_by_dim(layout, use, frames[use.name], part))
        return {name: hull(several) for name, several in found.items()}

    def bytes(self, part: Part, cut: frozenset[str]) -> int:
        """Return the bytes of temporaries, and of copies that have more dimensions."""
        layout = _cut(self.work.layout, cut)
        cost = cost_of(layout, _block(layout, part), 1, self.work.temporaries, self.arrays)
        frames = _geometry(layout, part).frames
        copies = sum(
            math.prod(span.size for span in frames[use.name])
            * np.dtype(use.dtype).itemsize
            * math.prod(part.spans[dim].size for dim in layout.grid.extra if dim in use.dims)
            for use in layout.uses
            if _is_repeated(layout, use)
        )
        return cost.target - cost.frames + copies

    def bound(
        self, part: Part, held: Mapping[str, Held], room: Room, cut: frozenset[str]
    ) -> BoundStage:
        """Return the calls on arrays, one for each point of the dimensions that are looped over."""
        layout, executable = _cut(self.work.layout, cut), executable_of(self.work.code)
        cells = _geometry(layout, part)
        found = BoundStage([], {}, {})
        extra = layout.grid.extra
        ranges = [range(part.spans[dim].start, part.spans[dim].stop) for dim in extra]
        for point in itertools.product(*ranges):
            at = dict(zip(extra, point, strict=True))
            _bind(found, self.work, part, held, room, (layout, cells, executable), at)
        return found


def _bind(
    found: BoundStage,
    work: Work,
    part: Part,
    held: Mapping[str, Held],
    room: Room,
    where: tuple[Layout, Geometry, Executable],
    at: Mapping[str, int],
) -> None:
    """Add the calls of one point."""
    layout, cells, executable = where
    arrays: dict[str, Array] = {}
    reaches = {u.name: reach for u, reach in zip(layout.uses, layout.reaches, strict=True)}
    for use, name in _stored(work.layout):
        frame, lines = cells.frames[use.name], layout.lines_of(use.name)
        here = {dim: at[dim] for dim in at if dim in use.dims}
        if _is_repeated(layout, use):
            i, j, k = frame
            key = (part.index, use.name, tuple(here.items()))
            array = arrays[use.name] = room(key, (i.size, j.size, k.size), use.dtype)
            inner = _inner(lines, frame)
            some = held[name].view(layout.grid.dims, _by_dim(layout, use, inner, part), here)
            copies = _list(found.repeated, name)
            copies.append(partial(setitem, array[slices_within(inner, frame)], ..., some))
            copies += ghosts_of(executable, [(array, lines, frame)])
            continue
        wanted = _by_dim(layout, use, frame, part)
        array = arrays[use.name] = held[name].view(layout.grid.dims, wanted, here)
        if use.name not in _bases(layout) and _has_ghosts(layout, use, reaches[use.name]):
            fills = ghosts_of(executable, [(array, lines, frame)])
            _list(found.ghosts, name).extend(fills)
    for name, base in _base_uses(layout).items():
        found.calls.append(partial(setitem, arrays[name], ..., arrays[base]))
        if reaches[name] != _NOWHERE:
            several = [(arrays[name], layout.lines_of(name), cells.frames[name])]
            found.calls.extend(ghosts_of(executable, several))
    block = _block(layout, part)
    within = tuple(at[dim] - part.spans[dim].start for dim in layout.grid.extra)
    scalars = work.scalars.at(layout.grid.extra, block, within)
    steps = BlockSteps(BlockFields(layout, cells, executable, arrays), scalars)
    found.calls.extend(steps.computed())


def _stored(layout: Layout) -> list[tuple[FieldUse, str]]:
    """Return each field, and the name of its array."""
    read = {use.variable for use in layout.uses if use.role in _READ}
    return [
        (use, next_of(use.variable) if use.result and use.variable in read else use.variable)
        for use in layout.uses
    ]


def _base_uses(layout: Layout) -> dict[str, str]:
    """Return the field that holds what an output begins with, where that has another array."""
    read = {use.variable: use.name for use in layout.uses if use.role in _READ}
    found: dict[str, str] = {}
    for use, reach in zip(layout.uses, layout.reaches, strict=True):
        base = use.partner if use.role is Role.FEEDS else read.get(use.variable, "")
        if use.result and base and not _is_replaced(layout, use, reach):
            found[use.name] = base
    return found


def _bases(layout: Layout) -> dict[str, str]:
    """Return the variable that an output begins with, where that has another array."""
    variables = {use.name: use.variable for use in layout.uses}
    return {name: variables[base] for name, base in _base_uses(layout).items()}


def _is_replaced(layout: Layout, use: FieldUse, reach: Reaches) -> bool:
    """Whether all values of an output are written, and none is read before."""
    everywhere = all(
        domain(layout.along(at), line.data) == line.data
        for at, line in enumerate(layout.lines_of(use.name))
    )
    return use.result and use.complete and everywhere and reach == _NOWHERE


def _is_repeated(layout: Layout, use: FieldUse) -> bool:
    """Whether a variable lacks a dimension of its field."""
    axes = zip(Axis, layout.grid.dims, strict=True)
    return any(axis in use.axes and dim is not None and dim not in use.dims for axis, dim in axes)


def _cut(layout: Layout, cut: frozenset[str]) -> Layout:
    """Return the layout where some dimensions are cut."""
    first, second, third = (Kind.PERIODIC if dim in cut else Kind.WRAP for dim in layout.grid.dims)
    lines = tuple(
        (_around(i, first), _around(j, second), _around(k, third)) for i, j, k in layout.lines
    )
    return replace(layout, lines=lines)


def _block(layout: Layout, part: Part) -> Block:
    grid = layout.grid
    i, j, k = (_POINT if dim is None else part.spans[dim] for dim in grid.dims)
    return Block(part.index, (i, j, k), tuple(part.spans[dim] for dim in grid.extra))


def _geometry(layout: Layout, part: Part) -> Geometry:
    """Return the cells of a part; the array of a field holds those that are read or written.

    An output that begins with the values of another field holds the same ones as that.
    """
    cells = geometry(layout, _block(layout, part), 1)
    frames: dict[str, Box] = {}
    for use, lines, reach in zip(layout.uses, layout.lines, layout.reaches, strict=True):
        own, first = cells.valid[-1], cells.domains[0]
        along = zip(Axis, lines, own, first, reach, strict=True)
        i, j, k = (
            _reached(line, span, computed, far) if axis in use.axes else _POINT
            for axis, line, span, computed, far in along
        )
        frames[use.name] = (i, j, k)
    for name, base in _base_uses(layout).items():
        i, j, k = (a.hull(b) for a, b in zip(frames[name], frames[base], strict=True))
        frames[name] = frames[base] = (i, j, k)
    return replace(cells, frames=frames)


def _by_dim(layout: Layout, use: FieldUse, box: Box, part: Part) -> dict[str, Span]:
    """Return the cells of a box along the dimensions of a variable."""
    dims = zip(layout.grid.dims, box, strict=True)
    along = {dim: span for dim, span in dims if dim is not None}
    return {dim: along.get(dim, part.spans[dim]) for dim in use.dims}


def _reached(line: Line, own: Span, computed: Span, reach: Reach) -> Span:
    """Return the cells of a part, and those that computing some of them reads, ghosts included."""
    if not computed.size:
        return own
    return own.hull(need(line, computed, reach)).hull(computed.widen(*reach))


def _around(line: Line, kind: Kind) -> Line:
    """Return an axis that goes around in another way, if it does."""
    return replace(line, low=Side(kind), high=Side(kind)) if line.low.kind in _AROUND else line


def _has_ghosts(layout: Layout, use: FieldUse, reach: Reaches) -> bool:
    """Whether cells beyond the data are read that rules make."""
    return any(
        axis in use.axes
        and ((low and line.low.kind not in _UNMADE) or (high and line.high.kind not in _UNMADE))
        for axis, line, (low, high) in zip(Axis, layout.lines_of(use.name), reach, strict=True)
    )


def _inner(lines: Lines, frame: Box) -> Box:
    """Return the cells of a frame that are data, those of the other end included."""
    i, j, k = (
        span if line.endless else span.meet(line.data)
        for span, line in zip(frame, lines, strict=True)
    )
    return i, j, k


def _list(several: Mapping[str, Acts], name: str) -> Acts:
    assert isinstance(several, dict)
    return several.setdefault(name, [])
