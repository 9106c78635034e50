"""Horizontal dimensions of a variable, for sizes that are ambiguous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import xarray as xr

from halocline_engine.datasets.grids.angles import LATITUDE, LONGITUDE, kind_of
from halocline_engine.datasets.grids.conventions import attribute_of
from halocline_engine.datasets.grids.dimension_names import axis_named
from halocline_engine.ir.types import Axis

__all__ = ["horizontal_dims"]

_AXES = {LATITUDE: ("Y", Axis.J), LONGITUDE: ("X", Axis.I)}


def horizontal_dims(array: xr.DataArray) -> tuple[str, str] | None:
    """Return the dimensions of latitude and of longitude, in this order; None where not known.

    They are told by the units, the standard name or the CF axis of their coordinates, or else by
    their names.
    """
    found = [_dim_of(array, kind) for kind in (LATITUDE, LONGITUDE)]
    if found[0] is None or found[1] is None or found[0] == found[1]:
        return None
    return found[0], found[1]


def _dim_of(array: xr.DataArray, kind: str) -> str | None:
    letter, axis = _AXES[kind]
    coords = cast("Mapping[str, xr.DataArray]", cast("Any", array).coords)
    told = {
        str(item.dims[0])
        for item in coords.values()
        if item.ndim == 1
        and (kind_of(item) == kind or attribute_of(item, "axis").upper() == letter)
    }
    called = {str(dim) for dim in array.dims if axis_named(str(dim)) is axis}
    for known in (told, called):
        if len(known) == 1:
            return known.pop()
    return None
