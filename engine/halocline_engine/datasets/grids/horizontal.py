"""Horizontal dimensions of a variable, for sizes that are ambiguous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import xarray as xr

from halocline_engine.datasets.grids.angles import LATITUDE, LONGITUDE, kind_of

__all__ = ["horizontal_dims"]

#: What dimensions are called that have no coordinate which tells.
_NAMES = {LATITUDE: ("lat", "latitude", "y"), LONGITUDE: ("lon", "longitude", "x")}
_AXES = {LATITUDE: "Y", LONGITUDE: "X"}


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
    coords = cast("Mapping[str, Any]", cast("Any", array).coords)
    told = {
        str(item.dims[0])
        for item in coords.values()
        if item.ndim == 1 and (kind_of(item) == kind or item.attrs.get("axis") == _AXES[kind])
    }
    called = {str(dim) for dim in array.dims if str(dim).lower() in _NAMES[kind]}
    for known in (told, called):
        if len(known) == 1:
            return known.pop()
    return None
