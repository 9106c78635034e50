"""Variables of the fields of a program, and the grid that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import xarray as xr

from halocline_engine.analysis.axis_use import neighbour_axes, position_axes
from halocline_engine.analysis.named import check_feedback, check_fields, near, used_fields
from halocline_engine.datasets.grids.axes import find_axes
from halocline_engine.datasets.grids.conventions import Dimensions, dimensions_of
from halocline_engine.datasets.grids.field_types import check_dtype
from halocline_engine.datasets.grids.positions import (
    Placing,
    Staggered,
    aligned,
    check_staggered,
)
from halocline_engine.datasets.grids.staggering import check_places
from halocline_engine.datasets.names import check_written
from halocline_engine.datasets.variables import check_distinct, stored_chunks
from halocline_engine.errors import ArgumentError, AxisError, FieldError
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Assign, Field, Program
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import assignments, program_bodies, reads

__all__ = ["FieldUse", "Grid", "Match", "Role", "match_fields"]

_AXES = (Axis.I, Axis.J, Axis.K)


class Role(StrEnum):
    """Direction in which a field's values move.

    INPUT: from the dataset, unchanged. FED: from the dataset, then from the output that feeds it.
    FEEDS: begins each step as the input that it feeds. IN_PLACE: from the dataset, changed, part
    of the result. CREATED: begins each step as NaN (0 where the type has none), part of the result.
    """

    INPUT = "input"
    FED = "fed"
    FEEDS = "feeds"
    IN_PLACE = "in-place"
    CREATED = "created"


@dataclass(frozen=True, slots=True)
class FieldUse:
    """A field of the program and its variable.

    `dims` are the variable's dimensions in its own order; `dtype` is NumPy's name; `chunks` are the
    sizes of the source's chunks along `dims`, or empty where it has none. `partner` is the other
    end of the feedback of a FED or FEEDS field. `complete` says that the program writes every cell
    of its domain, whatever the data, and `read` that it reads the field. Chunks of a variable that
    varies with time have several `records` each, of which one is read at a time.
    """

    name: str
    variable: str
    axes: tuple[Axis, ...]
    dtype: str
    dims: tuple[str, ...]
    role: Role
    chunks: tuple[int, ...] = ()
    partner: str = ""
    complete: bool = False
    read: bool = True
    records: int = 1

    @property
    def loaded(self) -> bool:
        """Whether its first values are read."""
        return self.role in (Role.INPUT, Role.FED, Role.IN_PLACE)

    @property
    def kept(self) -> bool:
        """Whether a later step reads what a step made of it."""
        return self.role in (Role.FED, Role.IN_PLACE)

    @property
    def result(self) -> bool:
        """Whether it is part of the result."""
        return self.role in (Role.FEEDS, Role.IN_PLACE, Role.CREATED)


@dataclass(frozen=True, slots=True)
class Grid:
    """The dimensions of I, J and K (None: absent, size 1), and the outer ones.

    Where an axis has several dimensions, of centres and of faces, `positions` has each of them with
    its axis and its points, `dims` the first, and `sizes` the most points.
    """

    dims: tuple[str | None, str | None, str | None]
    sizes: tuple[int, int, int]
    extra: tuple[str, ...]
    extra_sizes: tuple[int, ...]
    positions: tuple[tuple[str, int, int], ...] = ()

    @property
    def cut_sizes(self) -> tuple[int, int, int]:
        """The points along I, J and K that all dimensions of the axis have."""
        i, j, k = (
            min([size, *(points for _, axis, points in self.positions if axis == at)])
            for at, size in enumerate(self.sizes)
        )
        return i, j, k

    def axis_of(self, dim: str) -> int | None:
        """Return 0, 1 or 2 for a dimension of I, J or K, None for another."""
        along = {name: axis for name, axis, _ in self.positions}
        return along.get(dim, self.dims.index(dim) if dim in self.dims else None)

    def dims_of(self, dims: Sequence[str]) -> tuple[str | None, str | None, str | None]:
        """Return the dimensions of I, J and K of a variable, by default those of centres."""
        own = {axis: dim for dim, axis, _ in self.positions if dim in dims}
        i, j, k = (own.get(at, dim) for at, dim in enumerate(self.dims))
        return i, j, k

    def size_of(self, dim: str) -> int:
        """Return how many points a dimension has."""
        points = {name: size for name, _, size in self.positions}
        if dim in points:
            return points[dim]
        axis = self.axis_of(dim)
        return self.extra_sizes[self.extra.index(dim)] if axis is None else self.sizes[axis]


@dataclass(frozen=True, slots=True)
class Match:
    """A grid and the fields on it, in the order of the program's text.

    `moves` has the fields whose first point is not that of the grid: along I and J, its index.
    """

    grid: Grid
    uses: tuple[FieldUse, ...]
    moves: Mapping[str, tuple[int, int]]


def match_fields(
    program: Program,
    facts: Facts,
    dataset: xr.Dataset,
    fields: Mapping[str, str],
    feedback: Mapping[str, str],
    axes: Mapping[str, str | None] | None,
    placing: Placing = Placing(),  # noqa: B008 - frozen
) -> Match:
    """Return the grid and the variable of each field that the program uses.

    `fields` maps fields to variables (default: the same name), `feedback` outputs to inputs;
    `placing` has what is said of centres and faces. Raises
    `ArgumentError`, `FieldError` or `AxisError` where something does not fit; reads no data.
    """
    used = used_fields(program)
    check_fields(program, fields)
    check_feedback(program, feedback)
    check_written(program, fields)
    variables = {field.name: fields.get(field.name, field.name) for field in used}
    roles = {f.name: _role(f, program, dataset, variables[f.name], feedback) for f in used}
    sources = [variables[name] for name, role in roles.items() if _from_dataset(role)]
    for field in used:
        if _from_dataset(roles[field.name]):
            check_dtype(field, dataset[variables[field.name]])
    if not sources:
        raise FieldError(
            "Expected at least one field that is a variable of the dataset, got none.",
            hint=near(used[0].name if used else "", _names(dataset, program)),
        )
    positional = position_axes(program, used)
    needed = _needed_axes(program, used, facts)
    staggered = placing.staggered(dataset, sources)
    part = aligned(dataset, sources, staggered)
    known = dimensions_of(part)
    alias = {dim: one.anchor for one in staggered for dim in one.positions}
    axes = None if axes is None else {one: dim and alias.get(dim, dim) for one, dim in axes.items()}
    dims = find_axes(part, sources, _used_axes(used), needed, axes, positional, known)
    neighbours: dict[str, set[Axis]] = {variable: set() for variable in sources}
    for field in used:
        neighbours.get(variables[field.name], set()).update(neighbour_axes(field, facts))
    if Axis.I not in positional and "I" not in (axes or {}):
        dims = _with_idle_axis(known, dims, used)
    check_places(known, neighbours, dims)
    check_staggered(staggered, dims, [*positional, *([Axis.I] if program.gathers else [])])
    grid = _grid(part, sources, dims, staggered)
    _check_levels(facts, grid)
    uses: dict[str, FieldUse] = {}
    for field in used:
        if _from_dataset(roles[field.name]):
            uses[field.name] = _existing(field, program, roles, variables, dataset, grid, feedback)
    for field in used:
        if not _from_dataset(roles[field.name]):
            uses[field.name] = _created(
                field, program, roles, variables, grid, feedback, list(uses.values()), placing
            )
    _check_partners(uses)
    _check_said(placing, program, uses, grid)
    first = {dim: at.first for one in staggered for dim, at in one.positions.items()}
    placed = ((name, grid.dims_of(use.dims)) for name, use in uses.items())
    moves = {name: (first.get(i or "", 0), first.get(j or "", 0)) for name, (i, j, _) in placed}
    moves = {name: move for name, move in moves.items() if any(move)}
    return Match(grid, tuple(uses[field.name] for field in used), moves)


def _role(
    field: Field,
    program: Program,
    dataset: xr.Dataset,
    variable: str,
    feedback: Mapping[str, str],
) -> Role:
    exists = variable in dataset.variables
    if exists:
        check_distinct(dataset, variable)
    if field.written:
        _check_written(field, dataset, variable)
    if field.name in feedback:
        return Role.FEEDS
    if field.written and exists:
        return Role.IN_PLACE
    if field.written and not _read_first(program, field.name):
        return Role.CREATED
    if not exists:
        raise FieldError(
            f"Field '{field.name}' is read, but the dataset has no variable '{variable}'.",
            hint=near(variable, _names(dataset, program)),
        )
    return Role.FED if field.name in feedback.values() else Role.INPUT


def _check_written(field: Field, dataset: xr.Dataset, variable: str) -> None:
    """Raise `FieldError` where a result cannot be called so."""
    hint = "Give it another name with fields={...}."
    if variable in dataset.coords:
        raise FieldError(
            f"Field '{field.name}' is written, but '{variable}' is a coordinate.", hint=hint
        )
    if variable in dataset.sizes:
        raise FieldError(
            f"Field '{field.name}' is written, but '{variable}' is a dimension.", hint=hint
        )


def _from_dataset(role: Role) -> bool:
    return role in (Role.INPUT, Role.FED, Role.IN_PLACE)


def _names(dataset: xr.Dataset, program: Program) -> list[str]:
    """Return the names of the variables of a caller, of which components are parts."""
    parts = {field.name for field in program.fields}.difference(program.arguments)
    return [str(name) for name in dataset.variables if name not in parts]


def _read_first(program: Program, name: str) -> bool:
    """Whether the text reads a field before it assigns it."""
    for body in program_bodies(program):
        for statement in body:
            if any(read.name == name for read in reads((statement,))):
                return True
            if any(assign.target == name for assign in assignments((statement,))):
                return False
    return False


def _complete(program: Program, name: str) -> bool:
    """Whether a field is assigned on all levels, under no condition, before anything reads it."""
    for computation in program.computations:
        for block in computation.blocks:
            start, end = block.interval.start, block.interval.end
            whole = (start.from_end, start.offset, end.from_end, end.offset) == (False, 0, True, 0)
            for item in block.body:
                if any(read.name == name for read in reads((item,))):
                    return False
                at_point = isinstance(item, Assign) and (item.target, item.level) == (name, None)
                if whole and at_point:
                    return True
    return False


def _used_axes(used: Sequence[Field]) -> list[Axis]:
    return [axis for axis in _AXES if any(axis in field.axes for field in used)]


def _needed_axes(program: Program, used: Sequence[Field], facts: Facts) -> list[Axis]:
    """Return the axes along which neighbours are read, and K where several levels are needed."""
    needed = {axis for field in used for axis in neighbour_axes(field, facts)}
    if facts.min_levels > 1 or program.limits:
        needed.add(Axis.K)
    return [axis for axis in _AXES if axis in needed]


def _with_idle_axis(
    known: Dimensions, dims: tuple[str | None, str | None, str | None], used: Sequence[Field]
) -> tuple[str | None, str | None, str | None]:
    """Return the dimensions with a long one as I where it makes no difference which one it is.

    Its points are computed together, those of dimensions that are looped over one by one.
    """
    if dims[0] is not None or any(Axis.I not in field.axes for field in used):
        return dims
    shapes = [item.dims for item in known.dataset.data_vars.values()]
    largest = max(shapes, key=len, default=())
    free = [str(dim) for dim in largest if dim not in {*dims, *known.kinds}]
    return (free or [None])[-1], dims[1], dims[2]


def _grid(
    dataset: xr.Dataset,
    sources: Sequence[str],
    dims: tuple[str | None, str | None, str | None],
    staggered: Sequence[Staggered],
) -> Grid:
    extra: list[str] = []
    for variable in sources:
        for dim in dataset[variable].dims:
            if dim not in dims and dim not in extra:
                extra.append(str(dim))
    for dim in (*dims, *extra):
        if dim is not None and dataset.sizes[dim] == 0:
            raise FieldError(
                f"Dimension '{dim}' must have at least one point, got none.",
                hint="Select points of the dataset along it.",
            )
    points = {one.anchor: one.points for one in staggered}
    positions = [
        (dim, at, size)
        for at, anchor in enumerate(dims)
        for dim, size in points.get(anchor or "", {}).items()
    ]
    i, j, k = (
        1 if dim is None else max([dataset.sizes[dim], *points.get(dim, {}).values()])
        for dim in dims
    )
    sizes = tuple(dataset.sizes[dim] for dim in extra)
    return Grid(dims, (i, j, k), tuple(extra), sizes, tuple(positions))


def _check_levels(facts: Facts, grid: Grid) -> None:
    if grid.sizes[2] < facts.min_levels:
        raise AxisError(
            f"The program needs at least {facts.min_levels} levels along K, but"
            f" '{grid.dims[2]}' has {grid.sizes[2]}.",
            hint="Use data with more levels, or a program that needs fewer.",
        )


def _existing(
    field: Field,
    program: Program,
    roles: Mapping[str, Role],
    variables: Mapping[str, str],
    dataset: xr.Dataset,
    grid: Grid,
    feedback: Mapping[str, str],
) -> FieldUse:
    variable = variables[field.name]
    data = dataset[variable]
    dims = tuple(str(dim) for dim in data.dims)
    _check_dims(field, variable, dims, grid)
    feeders = {source: output for output, source in feedback.items()}
    return FieldUse(
        name=field.name,
        variable=variable,
        axes=field.axes,
        dtype=field.dtype.value,
        dims=dims,
        role=roles[field.name],
        chunks=stored_chunks(data),
        partner=feeders.get(field.name, ""),
        read=field.read,
        complete=field.written and _complete(program, field.name),
    )


def _check_dims(field: Field, variable: str, dims: Sequence[str], grid: Grid) -> None:
    for dim in dims:
        at = grid.axis_of(dim)
        if at is not None and _AXES[at] not in field.axes:
            raise FieldError(
                f"Field '{field.name}' has no axis {_AXES[at].value}, but variable '{variable}'"
                f" has its dimension '{dim}'.",
                hint="Select one point of it, or declare the field with that axis.",
            )
    if not field.written:
        return
    wanted = [dim for dim in _wanted(field, grid) if dim not in _anchored(dims, grid)]
    if wanted:
        raise FieldError(
            f"Field '{field.name}' is written, but variable '{variable}' lacks the dimension"
            f" '{wanted[0]}'.",
            hint="Give the result another name with fields={...}, or broadcast the variable.",
        )


def _anchored(dims: Sequence[str], grid: Grid) -> list[str]:
    """Return a variable's dimensions, those of I, J and K by the first of their axes."""
    axes = [grid.axis_of(dim) for dim in dims]
    return [dim if at is None else grid.dims[at] or dim for dim, at in zip(dims, axes, strict=True)]


def _wanted(field: Field, grid: Grid) -> list[str]:
    """Return the dimensions that a written field has: all others, then K, J and I."""
    axes = [grid.dims[at] for at in (2, 1, 0) if _AXES[at] in field.axes]
    return [*grid.extra, *(dim for dim in axes if dim is not None)]


def _created(
    field: Field,
    program: Program,
    roles: Mapping[str, Role],
    variables: Mapping[str, str],
    grid: Grid,
    feedback: Mapping[str, str],
    known: Sequence[FieldUse],
    placing: Placing,
) -> FieldUse:
    wanted = _wanted(field, grid)
    partner = feedback.get(field.name, "")
    ranked = sorted(known, key=lambda use: use.name != partner)
    shapes = ((use, _anchored(use.dims, grid)) for use in ranked)
    model = next((shape for _, shape in shapes if set(wanted) <= set(shape)), wanted)
    fed = [use.dims for use in known if use.name == partner]
    inputs = [dim for use in known for dim in use.dims]
    own = {
        anchor: placing.position(
            field.name, [dim for dim, axis, _ in grid.positions if axis == at], *fed, inputs
        )
        for at, anchor in enumerate(grid.dims)
        if anchor in wanted and any(axis == at for _, axis, _ in grid.positions)
    }
    dims = [own.get(dim, dim) for dim in model if dim in wanted]
    return FieldUse(
        name=field.name,
        variable=variables[field.name],
        axes=field.axes,
        dtype=field.dtype.value,
        dims=tuple(dims),
        role=roles[field.name],
        partner=partner,
        complete=_complete(program, field.name),
        read=field.read,
    )


def _check_said(
    placing: Placing, program: Program, uses: Mapping[str, FieldUse], grid: Grid
) -> None:
    """Raise `ArgumentError` where a field cannot lie where the caller says."""
    written = [field.name for field in used_fields(program) if field.written]
    known = {*(dim for dim in grid.dims if dim), *(dim for dim, _, _ in grid.positions)}
    for name, dims in placing.outputs.items():
        if name not in written:
            raise ArgumentError(
                f"Argument 'positions' must name fields that the program writes, got '{name}'.",
                hint=near(name, written),
            )
        for dim in dims:
            if dim not in known:
                raise ArgumentError(
                    f"Argument 'positions' gives '{name}' the dimension '{dim}', which lies along"
                    " no axis of the program's fields.",
                    hint=f"{near(dim, known)} Others are given by axis and position: grid={{...}}.",
                )
            if dim not in uses[name].dims:
                raise ArgumentError(
                    f"Argument 'positions' gives '{name}' the dimension '{dim}', but its variable"
                    f" has {uses[name].dims}.",
                    hint="Leave it out, or give the result another name with fields={...}.",
                )


def _check_partners(uses: Mapping[str, FieldUse]) -> None:
    for use in uses.values():
        if use.role is not Role.FEEDS:
            continue
        lacking = [dim for dim in use.dims if dim not in uses[use.partner].dims]
        if lacking:
            raise FieldError(
                f"Feedback from '{use.name}' to '{use.partner}' must keep the dimensions, but"
                f" variable '{uses[use.partner].variable}' lacks '{lacking[0]}'.",
                hint="Broadcast the variable first.",
            )
