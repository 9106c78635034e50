"""The direction of a vertical coordinate, and whether it is one of heights.

`positive` may be missing, or contradict the values, the standard name or the other coordinate of a
column. Derivatives would have the wrong sign then, so contradictions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import xarray as xr
from cf_xarray import criteria  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from halocline_engine.datasets.grids.conventions import attribute_of
from halocline_engine.datasets.grids.dimension_names import is_parametric
from halocline_engine.errors import FieldError

__all__ = ["is_height", "is_upward"]

#: Standard names of coordinates that count levels, or have no unit.
_PARAMETRIC = frozenset[str](cast("Any", criteria).coordinate_criteria["Z"]["standard_name"])
_COUNTS = ("z_grid_index", "model_level_number")
_UNITLESS = ("1", "level", "layer", "sigma_level")
_PRESSURE = re.compile(r"([dhkMm]?Pa|m?bar|millibars?|atm|d?bars?|hectopascals?|pascals?)")
_UPWARD = re.compile(r"height.*|altitude.*|geopotential_height.*|.*elevation.*")
_DOWNWARD = re.compile(r"(.*[^a-z])?depth.*|.*pressure.*")


def is_height(variable: xr.DataArray) -> bool:
    """Whether a coordinate along the levels may be one of heights: it is no count, and has a unit.

    One without any attributes may be one of heights, unless its name is that of another.
    """
    standard, units = attribute_of(variable, "standard_name"), attribute_of(variable, "units")
    if variable.dtype.kind not in "iuf" or standard in _PARAMETRIC or standard.startswith(_COUNTS):
        return False
    if units in _UNITLESS and (standard or units != "1" or is_parametric(str(variable.name))):
        return False
    return bool(standard or units) or not is_parametric(str(variable.name))


def is_upward(values: NDArray[np.float64], variables: Sequence[xr.DataArray]) -> bool:
    """Whether a coordinate grows with height, by what its variables say of it.

    Raises `FieldError` for one that says nothing certain: where variables contradict each other,
    or `positive` contradicts the values, or what the coordinate is.
    """
    claims = {str(item.name): _claim_of(values, item) for item in variables}
    known = {name: upward for name, upward in claims.items() if upward is not None}
    if len({*known.values()}) > 1:
        up = next(name for name, upward in known.items() if upward)
        down = next(name for name, upward in known.items() if not upward)
        raise FieldError(
            f"Coordinate '{up}' grows upwards and '{down}' downwards, but both are of one column.",
            hint=f"Correct the attribute 'positive' of one of them: dataset['{up}'].attrs.",
        )
    return next(iter(known.values()), True)


def _claim_of(values: NDArray[np.float64], variable: xr.DataArray) -> bool | None:
    """Return whether a variable says that it grows upwards, None where it does not say."""
    positive, name = attribute_of(variable, "positive").lower(), str(variable.name)
    if positive not in ("", "up", "down"):
        raise FieldError(
            f"Attribute 'positive' of '{name}' must be 'up' or 'down', got '{positive}'.",
            hint=f"Set dataset['{name}'].attrs['positive'].",
        )
    nature = _nature(variable)
    upward = positive == "up" if positive else nature
    below = -float(values.min(initial=0.0)) > float(values.max(initial=0.0))
    if upward is False and (below or (positive and nature)):
        raise _contradiction(name, "down", "heights" if nature else "mostly below zero")
    if upward and nature is False and not below:
        raise _contradiction(name, "up", "depths or pressures")
    return upward


def _nature(variable: xr.DataArray) -> bool | None:
    """Return whether what a coordinate is grows upwards, as a height does; None if not known."""
    if _PRESSURE.fullmatch(attribute_of(variable, "units")):
        return False
    names = (attribute_of(variable, key) for key in ("standard_name", "long_name"))
    for text in (*names, str(variable.name)):
        if _DOWNWARD.fullmatch(text.lower()):
            return False
        if _UPWARD.fullmatch(text.lower()):
            return True
    return None


def _contradiction(name: str, positive: str, what: str) -> FieldError:
    other = "up" if positive == "down" else "down"
    return FieldError(
        f"Coordinate '{name}' is positive {positive}wards, but its values are {what}.",
        hint=f"Set dataset['{name}'].attrs['positive'] = '{other}', or change the sign of its"
        " values.",
    )
