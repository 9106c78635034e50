"""Longitudes and latitudes with their units, as CF, ESMF, SCRIP and UGRID spell them.

Units are degrees or radians, alone or with a direction ("degrees_north", "degree_E", "radians"). A
variable without units is in degrees where its values are too large for radians, and refused where
they could be either. Values that are impossible in their unit are refused: latitudes beyond a
quarter of a turn from the equator, longitudes beyond two turns.
"""

from __future__ import annotations

import math
import re

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.attributes import text_of
from halocline_engine.datasets.variables import real_values
from halocline_engine.errors import DatasetError

__all__ = ["LARGEST", "LATITUDE", "LONGITUDE", "degrees", "is_angle", "kind_of", "radians"]

LATITUDE, LONGITUDE = "latitude", "longitude"

_UNITS = re.compile(r"(?i)(?P<unit>deg(ree)?s?|°|rad(ian)?s?)[ _]?(?P<kind>north|east|n|e)?")
#: The largest values, in degrees. Longitudes run to 180, 360 or, across a seam, somewhat farther.
LARGEST = {LATITUDE: 90.0, LONGITUDE: 720.0}
#: What rounding to float32 may add.
_ROUNDING = 1 + 1e-6


def kind_of(variable: xr.DataArray) -> str:
    """Return whether a variable holds latitudes or longitudes, by its units or its standard name.

    Returns '' where neither says it, or where they contradict each other.
    """
    match = _UNITS.fullmatch(_units(variable))
    direction = str((match and match["kind"]) or "").lower()[:1]
    said = {"n": LATITUDE, "e": LONGITUDE}.get(direction, "")
    standard = text_of(variable.attrs, "standard_name")
    kinds = {one for one in (said, standard) if one}
    return kinds.pop() if len(kinds) == 1 and kinds <= set(LARGEST) else ""


def is_angle(variable: xr.DataArray) -> bool:
    """Return whether a variable is in degrees or radians, or does not say its units."""
    units = _units(variable)
    return not units or _UNITS.fullmatch(units) is not None


def radians(variable: xr.DataArray, kind: str) -> NDArray[np.float64]:
    """Return longitudes or latitudes in radians; raises `DatasetError` for what cannot be one.

    NaN stays.
    """
    values, in_radians = _checked(variable, kind)
    return values if in_radians else np.radians(values)


def degrees(variable: xr.DataArray, kind: str) -> NDArray[np.float64]:
    """Return longitudes or latitudes in degrees; raises `DatasetError` for what cannot be one.

    NaN stays.
    """
    values, in_radians = _checked(variable, kind)
    return np.degrees(values) if in_radians else values


def _checked(variable: xr.DataArray, kind: str) -> tuple[NDArray[np.float64], bool]:
    """Return values, and whether they are radians and not degrees."""
    values, limit = real_values(variable), LARGEST[kind]
    finite = np.abs(values[~np.isnan(values)])
    largest = float(finite.max(initial=0.0))
    in_radians = _in_radians(variable, kind, largest)
    if in_radians:
        limit = math.radians(limit)
    if largest > limit * _ROUNDING:
        raise DatasetError(
            f"The {kind}s '{variable.name}' must be from {-limit:g} to {limit:g} in"
            f" {'radians' if in_radians else 'degrees'}, got {largest:g} as the largest"
            " magnitude.",
            hint="Set their attribute 'units' to the unit they have, 'degrees' or 'radians'.",
        )
    return values, in_radians


def _in_radians(variable: xr.DataArray, kind: str, largest: float) -> bool:
    units = _units(variable)
    match = _UNITS.fullmatch(units)
    if match is not None:
        return match["unit"].lower().startswith("rad")
    if units:
        raise DatasetError(
            f"The {kind}s '{variable.name}' must be in degrees or radians, got the units"
            f" '{units}'.",
            hint="Convert them, and set their attribute 'units' to 'degrees' or 'radians'.",
        )
    if largest <= math.radians(LARGEST[kind]) * _ROUNDING:
        raise DatasetError(
            f"The {kind}s '{variable.name}' have no units, and values up to {largest:g} could be"
            " degrees or radians.",
            hint="Set their attribute 'units' to the unit they have, 'degrees' or 'radians'.",
        )
    return False


def _units(variable: xr.DataArray) -> str:
    return text_of(variable.attrs, "units")
