"""Diagnostics of a run: reductions of its fields as they are after some steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.diagnostics import Diagnostic
from halocline_engine.datasets.grids.match import FieldUse, Grid, Match, Role
from halocline_engine.datasets.names import check_results
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import chunks_within, region_of
from halocline_engine.distribute.jobs.snapshots import Labels, place_of_step
from halocline_engine.distribute.reductions.bound import HELD, Reduction, bind, labels_of
from halocline_engine.distribute.reductions.results import (
    ReducedVariable,
    numbers_along,
    reduced_coordinates,
    reduced_variables,
)
from halocline_engine.errors import ArgumentError, FieldError

__all__ = ["Diagnosis", "bind_diagnosis", "with_labels"]


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Diagnostics of a run of `steps` steps, after every `every` of them and the last one.

    `fields` are fields of the program by the variable whose values they have after a step; other
    variables are read from the dataset. `own` are the dimensions of all of these. `variables` are
    those of the result without the dimension of steps, `numbers` the numbers along dimensions by
    which places are told, `coordinates` those of the result, `labels` those of steps.
    """

    reductions: tuple[Reduction, ...]
    every: int
    steps: int
    grid: Grid
    fields: Mapping[str, str]
    own: Mapping[str, tuple[str, ...]]
    variables: tuple[ReducedVariable, ...]
    numbers: Mapping[str, NDArray[Any]]
    coordinates: Mapping[str, Any]
    labels: Labels

    @property
    def places(self) -> int:
        """Number of measurements."""
        return place_of_step(self.steps, self.every) + 1

    @property
    def cell_bytes(self) -> int:
        """Bytes that measuring takes for each cell of a block."""
        return 8 * (HELD + len(self.own))

    @property
    def constant(self) -> tuple[str, ...]:
        """Variables that no step changes."""
        return tuple(name for name in self.own if name not in self.fields)

    @property
    def uses(self) -> list[FieldUse]:
        """The variables of the result, as results know them."""
        return [
            FieldUse(one.name, one.name, (), one.dtype, (self.labels.dim, *one.dims), Role.CREATED)
            for one in self.variables
        ]

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of all dimensions of the results."""
        sizes = {self.labels.dim: self.places}
        for one in self.reductions:
            sizes |= {**one.sizes, **one.group_dims}
        return sizes

    @property
    def attributes(self) -> dict[str, Mapping[str, Any]]:
        """The attributes of the variables."""
        return {one.name: one.attributes for one in self.variables}

    @property
    def chunks(self) -> dict[str, dict[str, int]]:
        """Sizes of chunks of each variable; one process writes all of them."""
        sizes = self.sizes
        return {
            use.name: dict(
                zip(
                    use.dims,
                    chunks_within(use.dims, sizes, sizes, np.dtype(use.dtype).itemsize),
                    strict=True,
                )
            )
            for use in self.uses
        }

    def with_dims(self, grid: Grid) -> Grid:
        """Return a grid that has the dimensions of the results, too."""
        more = {d: n for d, n in self.sizes.items() if d not in (*grid.dims, *grid.extra)}
        extra, sizes = (*grid.extra, *more), (*grid.extra_sizes, *more.values())
        return replace(grid, extra=extra, extra_sizes=sizes)

    def with_coordinates(self, frame: xr.Dataset) -> xr.Dataset:
        """Return the result without its variables, with the coordinates of the diagnostics."""
        more = {name: one for name, one in self.coordinates.items() if name not in frame.coords}
        return self.labels.labelled(cast("Any", frame).assign_coords(more), self.steps, self.every)

    def region_of(self, name: str, block: Block) -> tuple[slice, ...]:
        """Return the cells of a block along the dimensions of a variable."""
        return region_of(self.own[name], self.spans_of(block, self.own[name]))

    def spans_of(self, block: Block, dims: Sequence[str]) -> dict[str, Span]:
        """Return the cells of a block by dimension, for variables with these dimensions.

        An axis with several dimensions, of centres and faces, has the one among `dims`.
        """
        spans = dict(zip(self.grid.extra, block.extra, strict=True))
        for dim, span in zip(self.grid.dims_of(dims), block.box, strict=True):
            if dim is not None:
                spans[dim] = span.meet(Span(0, self.grid.size_of(dim)))
        return spans


def bind_diagnosis(
    asked: Sequence[Diagnostic], dataset: xr.Dataset, match: Match, steps: int, labels: Labels
) -> Diagnosis:
    """Return diagnostics for a run on a dataset, without their labels.

    Raises `ProgramError`, `ArgumentError` or `FieldError`, before any values are read.
    """
    fields, after = _after_a_step(dataset, match)
    bound = tuple(bind(one, after, f"diagnostics['{one.name}']") for one in asked)
    grid = match.grid
    for one in bound:
        for dim in one.dims:
            if grid.axis_of(dim) is None and dim not in grid.extra:
                raise FieldError(
                    f"The diagnostic '{one.name}' has the dimension '{dim}', along which the"
                    " program has no points.",
                    hint=f"Use variables without it, such as dataset['name'].isel({dim}=0).",
                )
        _check_positions(one, grid)
    numbers = numbers_along(bound, dataset)
    made = [m for one in bound for m in reduced_variables(one, after, [*numbers])]
    results = [use.variable for use in match.uses if use.result]
    taken = {*map(str, dataset.dims), *map(str, dataset.coords), *results}
    check_results([one.name for one in made], {*taken, labels.dim})
    taken |= {str(name) for name in dataset.data_vars}
    if labels.clock is None and labels.dim in taken:
        raise ArgumentError(
            f"Results of 'diagnostics' have a dimension '{labels.dim}', but the dataset, or the"
            " result, has something of that name.",
            hint=f"Rename it, as dataset.rename({labels.dim}='number').",
        )
    names = dict.fromkeys(name for one in bound for name in one.variables)
    return Diagnosis(
        reductions=bound,
        every=asked[0].every,
        steps=steps,
        grid=grid,
        fields={name: field for name, field in fields.items() if name in names},
        own={name: tuple(str(dim) for dim in after[name].dims) for name in names},
        variables=tuple(made),
        numbers=numbers,
        coordinates=reduced_coordinates(bound, dataset),
        labels=labels,
    )


def with_labels(diagnosis: Diagnosis, dataset: xr.Dataset) -> Diagnosis:
    """Return diagnostics with the labels of their variables; reads them."""
    made = tuple(
        one if one.asked.by is None else replace(one, labels=labels_of(one.asked.by, dataset))
        for one in diagnosis.reductions
    )
    return replace(diagnosis, reductions=made, coordinates=reduced_coordinates(made, dataset))


def _check_positions(one: Reduction, grid: Grid) -> None:
    """Raise where centres and faces of an axis would be multiplied point by point."""
    for axis in range(len(grid.dims)):
        several = [dim for dim in one.dims if grid.axis_of(dim) == axis]
        if len(several) > 1:
            raise FieldError(
                f"The diagnostic '{one.name}' combines variables on '{several[0]}' and"
                f" '{several[1]}', which are positions of one axis.",
                hint="Compute the product in the program, as a field at one position.",
            )


def _after_a_step(dataset: xr.Dataset, match: Match) -> tuple[dict[str, str], xr.Dataset]:
    """Return the fields by variable as steps leave them, and the dataset with these variables.

    An input that an output feeds has the values of the output by then.
    """
    fields: dict[str, str] = {}
    made: dict[str, Any] = {}
    attributes = {use.name: dict(dataset[use.variable].attrs) for use in match.uses if use.loaded}
    for use in sorted(match.uses, key=lambda one: one.result):
        if use.result or use.role is Role.FED:
            fields[use.variable] = use.name if use.result else use.partner
            shape = tuple(match.grid.size_of(dim) for dim in use.dims)
            values = np.broadcast_to(np.zeros((), use.dtype), shape)
            about = attributes.get(use.partner) or attributes.get(use.name) or {}
            made[use.variable] = (use.dims, values, about)
    return fields, dataset.assign(made)
