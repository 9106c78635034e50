"""Tables of neighbours in datasets: each column of a variable becomes a variable of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.backends.made.tables import check_column
from halocline_engine.datasets.stores.source import InMemory, Opened, Region, Source
from halocline_engine.datasets.variables import values_of, variable_of
from halocline_engine.errors import AxisError, FieldError
from halocline_engine.ir.nodes import Program, Table

__all__ = ["Columns", "check_points", "with_columns"]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A source in which columns of tables are variables: (variable, place of the axis, slot)."""

    source: Source
    columns: Mapping[str, tuple[str, int, int]]

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region."""
        if name not in self.columns:
            return self.source.read(name, region)
        variable, axis, slot = self.columns[name]
        (points,) = region
        one = slice(slot, slot + 1)
        found = self.source.read(variable, (one, points) if axis == 0 else (points, one))
        return found.reshape(-1)


def with_columns(
    opened: Opened,
    program: Program,
    fields: Mapping[str, str],
    axes: Mapping[str, str | None] | None,
) -> tuple[Opened, Mapping[str, str], Mapping[str, str | None] | None]:
    """Return a dataset with a variable for each column, and what is left of `fields` and `axes`.

    The points of tables lie along I, and there is no J if the caller names none. Raises
    `FieldError` and `AxisError`.
    """
    found: dict[str, tuple[str, int, int]] = {}
    variables: dict[str, xr.DataArray] = {}
    along: dict[str, str] = {}
    for table in program.tables:
        name = fields.get(table.name, table.name)
        if not any(f.name in table.columns and f.read for f in program.fields):
            continue
        axis = _slot_axis(opened.dataset, name, table)
        array = opened.dataset[name]
        dims = tuple(str(dim) for dim in array.dims)
        along[table.name] = dims[1 - axis]
        for slot, column in enumerate(table.columns):
            found[column] = name, axis, slot
            variables[column] = array.isel({dims[axis]: slot}).drop_vars(
                dims[axis], errors="ignore"
            )
    if not found:
        return opened, fields, axes
    dataset = opened.dataset.assign(variables)
    source = InMemory(dataset) if isinstance(opened.source, InMemory) else opened.source
    if not isinstance(source, InMemory):
        source = Columns(source, found)
    rest = {name: to for name, to in fields.items() if name not in along}
    return replace(opened, dataset=dataset, source=source), rest, _axes(along, axes)


def check_points(dataset: xr.Dataset, program: Program, variables: Mapping[str, str]) -> None:
    """Raise `FieldError` where a table names a point that a field does not have; reads the tables.

    `variables` maps fields of the program to variables.
    """
    for gather in program.gathers:
        index, variable = dataset[variables[gather.index]], variables[gather.field]
        dim = str(index.dims[0])
        if dim not in dataset[variable].dims:
            table = gather.index.partition(".")[0]
            raise FieldError(
                f"Field '{gather.field}' is read at points of table '{table}', which lie along"
                f" '{dim}', but variable '{variable}' has no such dimension.",
                hint="Gather between different dimensions with halocline_engine.gather, or call"
                " the stencil on arrays.",
            )
        check_column(gather, values_of(index), int(index.size))


def _slot_axis(dataset: xr.Dataset, name: str, table: Table) -> int:
    """Return which dimension of a table's variable counts its columns; the last one if both may."""
    if name not in dataset.variables:
        raise FieldError(
            f"Table '{table.name}' is read, but the dataset has no variable '{name}'.",
            hint=near(name, [str(one) for one in dataset.variables]),
        )
    array = variable_of(dataset, name)
    sizes = {str(dim): int(size) for dim, size in array.sizes.items()}
    if array.ndim == 2 and table.slots in sizes.values():
        return 1 if array.shape[1] == table.slots else 0
    raise FieldError(
        f"Table '{table.name}' has {table.slots} columns, so its variable must have two dimensions,"
        f" one of them with {table.slots} points, but '{name}' has {sizes}.",
        hint="Write 'Table[n]' with the number of columns that it has.",
    )


def _axes(
    along: Mapping[str, str], axes: Mapping[str, str | None] | None
) -> Mapping[str, str | None]:
    given: dict[str, str | None] = {"I": next(iter(along.values())), "J": None, **(axes or {})}
    for table, dim in along.items():
        if dim != given["I"]:
            raise AxisError(
                f"The points of table '{table}' lie along '{dim}', but axis I is '{given['I']}'.",
                hint=f"Say axes={{'I': '{dim}'}}, or use a table of that dimension.",
            )
    return given
