"""Coordinates and history that a result takes over from its dataset."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Any, cast

import xarray as xr

from halocline_engine.version import halocline_version

__all__ = ["coordinates_of", "coordinates_within", "with_history"]


def coordinates_of(array: xr.DataArray) -> dict[str, xr.DataArray]:
    """Return the coordinates of a variable by their names.

    Those that have a dimension twice are left out: no operation says which of both it means.
    """
    own = cast("Any", array).coords.variables
    twice = [name for name, item in own.items() if len({*item.dims}) < item.ndim]
    coords = cast("Any", array).drop_vars(twice).coords
    return {str(name): item for name, item in coords.items()}


def coordinates_within(array: xr.DataArray, dims: Collection[str]) -> dict[str, xr.DataArray]:
    """Return the coordinates of a variable that have no other dimensions."""
    coords = coordinates_of(array)
    return {name: item for name, item in coords.items() if {*map(str, item.dims)} <= {*dims}}


def with_history(result: xr.Dataset, dataset: xr.Dataset, what: str) -> xr.Dataset:
    """Return the result with the attributes of its dataset and a line before its history."""
    now = dt.datetime.now(dt.UTC)
    line = f"{now:%Y-%m-%dT%H:%M:%SZ} halocline {halocline_version()}: {what}"
    older = str(dataset.attrs.get("history", ""))
    attributes = {**dataset.attrs, "history": f"{line}\n{older}".rstrip()}
    return result.assign_attrs(attributes)
