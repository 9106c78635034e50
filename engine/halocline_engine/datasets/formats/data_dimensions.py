"""Data dimensions in datasets: each component of a variable becomes a variable of its own.

The dimensions that are none of the program's axes, and have the sizes that its text says, are the
data dimensions of a variable. What a program looks up in a `GlobalTable` is read whole, before
blocks are made, and travels with the program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near, used_fields
from halocline_engine.datasets.stores.source import InMemory, Opened, Region, Source
from halocline_engine.datasets.variables import values_of, variable_of
from halocline_engine.errors import FieldError
from halocline_engine.ir.nodes import Components, Lookup, Program

__all__ = ["ComponentSource", "with_components", "with_lookups"]


@dataclass(frozen=True, slots=True)
class _Part:
    """A component: its variable, and the index along each place of a data dimension."""

    variable: str
    indices: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ComponentSource:
    """A source in which components are variables."""

    source: Source
    parts: Mapping[str, _Part]

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region, without the data dimensions."""
        part = self.parts.get(name)
        if part is None:
            return self.source.read(name, region)
        whole = list(region)
        for place, index in part.indices:
            whole.insert(place, slice(index, index + 1))
        return self.source.read(part.variable, tuple(whole)).squeeze(
            axis=tuple(place for place, _ in part.indices)
        )


def with_components(
    opened: Opened,
    program: Program,
    fields: Mapping[str, str],
    axes: Mapping[str, str | None] | None,
) -> tuple[Opened, Mapping[str, str]]:
    """Return a dataset with a variable for each component, and what is left of `fields`.

    Raises `FieldError` where a variable has no such data dimensions.
    """
    parts: dict[str, _Part] = {}
    variables: dict[str, xr.DataArray] = {}
    used = {field.name for field in used_fields(program)}
    for whole in program.components:
        name = fields.get(whole.name, whole.name)
        names = {n: whole.field(n) for n in range(math.prod(whole.shape))}
        if name not in opened.dataset.variables or not used & {*names.values()}:
            continue
        array = variable_of(opened.dataset, name)
        dims = _data_dims(opened.dataset, whole, name, _spatial(opened, program, fields, axes))
        for number, field in names.items():
            if field in used:
                index = dict(zip(dims, np.unravel_index(number, whole.shape), strict=True))
                places = sorted((array.dims.index(dim), int(at)) for dim, at in index.items())
                parts[field] = _Part(name, tuple(places))
                chosen = array.isel({dim: int(at) for dim, at in index.items()})
                variables[field] = chosen.drop_vars(dims, errors="ignore")
    rest = {
        name: to
        for name, to in fields.items()
        if name not in {whole.name for whole in program.components}
    }
    if not parts:
        return opened, rest
    dataset = opened.dataset.assign(variables)
    if isinstance(opened.source, InMemory):
        return replace(opened, dataset=dataset, source=InMemory(dataset)), rest
    return replace(opened, dataset=dataset, source=ComponentSource(opened.source, parts)), rest


def with_lookups(
    opened: Opened, program: Program, fields: Mapping[str, str]
) -> tuple[Program, Mapping[str, str]]:
    """Return a program that has the elements of its tables, and what is left of `fields`."""
    found = tuple(_with_values(one, program, opened.dataset, fields) for one in program.lookups)
    names = {lookup.name for lookup in found}
    rest = {name: to for name, to in fields.items() if name not in names}
    return (replace(program, lookups=found), rest) if found else (program, fields)


def _with_values(
    lookup: Lookup, program: Program, dataset: xr.Dataset, fields: Mapping[str, str]
) -> Lookup:
    name = fields.get(lookup.name, lookup.name)
    dtype = next(field.dtype for field in program.fields if field.name == lookup.name)
    if name not in dataset.variables:
        raise FieldError(
            f"Table '{lookup.name}' is read, but the dataset has no variable '{name}'.",
            hint=near(name, [str(one) for one in dataset.variables]),
        )
    array = variable_of(dataset, name)
    if tuple(array.shape) != lookup.shape or str(array.dtype) != dtype.value:
        raise FieldError(
            f"Table '{lookup.name}' must be '{dtype.value}' of the shape {lookup.shape}, but"
            f" variable '{name}' is '{array.dtype}' of the shape {tuple(array.shape)}.",
            hint="Change the annotation, or the variable.",
        )
    return replace(lookup, values=np.ascontiguousarray(values_of(array)).tobytes())


def _spatial(
    opened: Opened,
    program: Program,
    fields: Mapping[str, str],
    axes: Mapping[str, str | None] | None,
) -> set[str]:
    """Return the dimensions of the fields without data dimensions, and those that are given."""
    found = {dim for dim in (axes or {}).values() if dim}
    for field in used_fields(program):
        name = fields.get(field.name, field.name)
        if "." not in field.name and name in opened.dataset.variables:
            found |= {str(dim) for dim in opened.dataset[name].dims}
    return found


def _data_dims(
    dataset: xr.Dataset, whole: Components, name: str, spatial: set[str]
) -> tuple[str, ...]:
    array = variable_of(dataset, name)
    dims = tuple(str(dim) for dim in array.dims)
    own = tuple(dim for dim in dims if dim not in spatial) if spatial else ()
    for found in (own, dims[len(dims) - len(whole.shape) :]):
        if tuple(int(array.sizes[dim]) for dim in found) == whole.shape:
            return found
    sizes = {dim: int(array.sizes[dim]) for dim in dims}
    raise FieldError(
        f"Field '{whole.name}' has data dimensions of the sizes {whole.shape}, but variable"
        f" '{name}' has {sizes}.",
        hint="Put the data dimensions last, or change the annotation.",
    )
