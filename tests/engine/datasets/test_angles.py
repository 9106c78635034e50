"""Longitudes and latitudes in degrees and radians, as files spell them; what cannot be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.grids.angles import degrees, is_angle, kind_of, radians

DEGREES = ("degrees", "degree", "deg", "Degrees", "degrees_north", "degree_N", "degreesN", "°")
RADIANS = ("radians", "radian", "rad", "Radians", "radians_north", "radian_N")


def angle(values: Any, units: str = "", name: str = "lat", **more: str) -> xr.DataArray:
    attributes = {"units": units, **more} if units else more
    return xr.DataArray(np.asarray(values), dims="n", name=name, attrs=attributes)


@pytest.mark.parametrize("units", [*DEGREES, *RADIANS])
def test_units(units: str) -> None:
    given = np.array([-90.0, 0.0, 30.0, np.nan])
    values = np.radians(given) if units in RADIANS else given
    assert is_angle(angle(values, units))
    np.testing.assert_allclose(degrees(angle(values, units), "latitude"), given, rtol=1e-15)
    np.testing.assert_allclose(radians(angle(values, units), "latitude"), np.radians(given))


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"units": "degrees_north"}, "latitude"),
        ({"units": "degreeE"}, "longitude"),
        ({"units": "radians", "standard_name": "longitude"}, "longitude"),
        ({"standard_name": "latitude"}, "latitude"),
        ({"units": b" degrees_north"}, "latitude"),
        ({"units": np.array(["degrees"]), "standard_name": "longitude "}, "longitude"),
        ({"units": "degrees", "standard_name": "grid_latitude"}, ""),
        ({"units": "degrees_east", "standard_name": "latitude"}, ""),
        ({"units": "degrees"}, ""),
        ({"units": "m", "standard_name": "projection_x_coordinate"}, ""),
        ({"units": "northern apples"}, ""),
    ],
)
def test_kinds(attributes: dict[str, Any], kind: str) -> None:
    assert kind_of(xr.DataArray(np.zeros(3), dims="n", attrs=attributes)) == kind


def test_limits_are_those_of_the_unit() -> None:
    quarter = np.float32(np.pi / 2)  # a little more than the double
    assert radians(angle([quarter], "radians"), "latitude")[0] == float(quarter)
    assert degrees(angle([-180.0, 360.0, 540.0], "degrees"), "longitude").max() == 540.0
    assert degrees(angle(np.zeros(0), "degrees"), "longitude").size == 0
    assert degrees(angle([45.0]), "latitude")[0] == 45.0


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (
            angle([-45.0, 45.0], "radians"),
            "The latitudes 'lat' must be from -1.5708 to 1.5708 in radians, got 45 as the largest"
            " magnitude. Set their attribute 'units' to the unit they have, 'degrees' or"
            " 'radians'.",
        ),
        (
            angle([0.0, -90.1], "degrees_north"),
            "The latitudes 'lat' must be from -90 to 90 in degrees, got 90.1 as the largest"
            " magnitude. Set their attribute 'units' to the unit they have, 'degrees' or"
            " 'radians'.",
        ),
        (
            angle([0.0, np.inf]),
            "The latitudes 'lat' must be from -90 to 90 in degrees, got inf as the largest"
            " magnitude. Set their attribute 'units' to the unit they have, 'degrees' or"
            " 'radians'.",
        ),
        (
            angle([1.5]),
            "The latitudes 'lat' have no units, and values up to 1.5 could be degrees or radians."
            " Set their attribute 'units' to the unit they have, 'degrees' or 'radians'.",
        ),
        (
            angle([30.0], "gon"),
            "The latitudes 'lat' must be in degrees or radians, got the units 'gon'. Convert them,"
            " and set their attribute 'units' to 'degrees' or 'radians'.",
        ),
    ],
)
def test_what_cannot_be_one(variable: xr.DataArray, message: str) -> None:
    for convert in (degrees, radians):
        with pytest.raises(he.DatasetError) as caught:
            convert(variable, "latitude")
        assert str(caught.value) == message
