"""Variables and coordinates of the results of reductions, with CF attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.diagnostics import Kind
from halocline_engine.datasets.variables import values_of
from halocline_engine.distribute.reductions.bound import Reduction
from halocline_engine.distribute.reductions.work import place_names

__all__ = ["ReducedVariable", "numbers_along", "reduced_coordinates", "reduced_variables"]

#: Methods of CF.
_METHODS = {Kind.SUM: "sum", Kind.MEAN: "mean", Kind.MIN: "minimum", Kind.MAX: "maximum"}


@dataclass(frozen=True, slots=True)
class ReducedVariable:
    """A variable of a result."""

    name: str
    dims: tuple[str, ...]
    dtype: str
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


def reduced_variables(
    one: Reduction, dataset: xr.Dataset, numbered: Sequence[str]
) -> list[ReducedVariable]:
    """Return the variables of a reduction: its values, and places of extremes.

    Places are told by the numbers along the dimensions `numbered`, and by indices along others.
    """
    dims, places = (*one.kept, *one.group_dims), place_names(one)
    attributes = _attributes(one, dataset)
    if places:
        attributes["ancillary_variables"] = " ".join(places.values())
    made = [ReducedVariable(one.name, dims, one.dtype.name, attributes)]
    for dim, name in places.items():
        own = dataset[dim].attrs if dim in numbered else {}
        about = {key: own[key] for key in ("units",) if key in own}
        about["long_name"] = f"{dim} of the {_METHODS[one.asked.kind]} of {one.asked.value}"
        dtype = "float64" if dim in numbered else "int64"
        made.append(ReducedVariable(name, dims, dtype, about))
    return made


def _attributes(one: Reduction, dataset: xr.Dataset) -> dict[str, Any]:
    """Return CF attributes of a result: the method of each dimension, and units where they stay."""
    asked = one.asked
    attributes: dict[str, Any] = {}
    if asked.kind in _METHODS and one.reduced:
        over = " ".join(f"{dim}:" for dim in one.reduced)
        weighted = "" if asked.weights is None else f" (comment: weighted by {asked.weights})"
        attributes["cell_methods"] = f"{over} {_METHODS[asked.kind]}{weighted}"
    own = dataset[one.value.text].attrs if one.value.code is None else {}
    if asked.kind is Kind.NORM or (
        asked.kind in _METHODS and (asked.kind is Kind.MEAN or asked.weights is None)
    ):
        attributes |= {key: own[key] for key in ("units", "standard_name") if key in own}
    attributes["long_name"] = f"{asked.kind} of {asked.value}"
    return attributes


def numbers_along(reductions: Sequence[Reduction], dataset: xr.Dataset) -> dict[str, NDArray[Any]]:
    """Return the coordinates along dimensions for the places of extremes."""
    dims = dict.fromkeys(dim for one in reductions for dim in place_names(one))
    return {
        dim: values_of(dataset[dim])
        for dim in dims
        if dim in dataset.coords and dataset[dim].dtype.kind in "iuf"
    }


def reduced_coordinates(reductions: Sequence[Reduction], dataset: xr.Dataset) -> dict[str, Any]:
    """Return the coordinates of results: kept ones, labels and bins."""
    kept = {dim for one in reductions for dim in one.kept}
    coords: dict[str, Any] = {
        str(name): dataset[name]
        for name in dataset.coords
        if {*map(str, dataset[name].dims)} <= kept and dataset[name].ndim
    }
    for one in reductions:
        if one.labels is not None:
            by = str(one.asked.by)
            coords[by] = (by, one.labels, dict(dataset[by].attrs))
        if one.asked.bins:
            edges, dim = np.array(one.asked.bins), f"{one.name}_bin"
            coords[dim] = (dim, (edges[:-1] + edges[1:]) / 2)
            coords[f"{dim}_low"], coords[f"{dim}_high"] = (dim, edges[:-1]), (dim, edges[1:])
    return coords
