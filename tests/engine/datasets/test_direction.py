"""Whether coordinates are heights, and in which direction they grow."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.grids.direction import is_height, is_upward
from halocline_engine.errors import FieldError

DEPTHS, HEIGHTS = np.array([0.0, 10, 30]), np.array([0.0, -10, -30])


def made(name: str, **attrs: Any) -> xr.DataArray:
    return xr.DataArray(np.arange(3.0), dims="k", name=name, attrs=attrs)


@pytest.mark.parametrize(
    ("values", "upward", "coordinate"),
    [
        (DEPTHS, True, made("z")),
        (HEIGHTS, True, made("z")),
        (DEPTHS, True, made("z", positive="UP")),
        (DEPTHS, False, made("z", positive="down")),
        (DEPTHS, False, made("lev", standard_name="depth")),
        (DEPTHS, False, made("lev", long_name="Ocean depth coordinate")),
        (DEPTHS, False, made("deptht")),
        (DEPTHS, False, made("plev", units="hPa")),
        (DEPTHS, False, made("plev", standard_name="air_pressure", positive="down")),
        (DEPTHS, True, made("h", standard_name="height", positive="up")),
        (HEIGHTS, True, made("Z", standard_name="depth", positive="up")),
        (np.array([-5.0, 100.0]), False, made("depth", positive="down")),
    ],
)
def test_direction(values: Any, upward: bool, coordinate: xr.DataArray) -> None:
    assert is_upward(values, [coordinate]) is upward


@pytest.mark.parametrize(
    ("values", "coordinate", "message"),
    [
        (
            HEIGHTS,
            made("Z", standard_name="depth", positive="down"),
            "Coordinate 'Z' is positive downwards, but its values are mostly below zero. Set"
            " dataset['Z'].attrs['positive'] = 'up', or change the sign of its values.",
        ),
        (
            HEIGHTS,
            made("deptht"),
            "Coordinate 'deptht' is positive downwards, but its values are mostly below zero. Set"
            " dataset['deptht'].attrs['positive'] = 'up', or change the sign of its values.",
        ),
        (
            DEPTHS,
            made("zl", long_name="Layer pseudo-depth, -z*", positive="up"),
            "Coordinate 'zl' is positive upwards, but its values are depths or pressures. Set"
            " dataset['zl'].attrs['positive'] = 'down', or change the sign of its values.",
        ),
        (
            DEPTHS,
            made("h", standard_name="height", positive="down"),
            "Coordinate 'h' is positive downwards, but its values are heights. Set"
            " dataset['h'].attrs['positive'] = 'up', or change the sign of its values.",
        ),
        (
            DEPTHS,
            made("z", positive="north"),
            "Attribute 'positive' of 'z' must be 'up' or 'down', got 'north'. Set"
            " dataset['z'].attrs['positive'].",
        ),
    ],
)
def test_contradictions(values: Any, coordinate: xr.DataArray, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        is_upward(values, [coordinate])
    assert str(caught.value) == message


def test_two_coordinates_of_a_column() -> None:
    down, up, silent = made("Z", positive="down"), made("Zp1", positive="up"), made("Zp1")
    assert is_upward(DEPTHS, [silent, down]) is False
    with pytest.raises(FieldError) as caught:
        is_upward(DEPTHS, [up, down])
    assert str(caught.value) == (
        "Coordinate 'Zp1' grows upwards and 'Z' downwards, but both are of one column. Correct the"
        " attribute 'positive' of one of them: dataset['Zp1'].attrs."
    )


@pytest.mark.parametrize(
    "coordinate",
    [
        made("z"),
        made("z", units="1"),
        made("depth", standard_name="depth", units="m"),
        made("plev", units="Pa"),
        made("lev"),
    ],
)
def test_heights(coordinate: xr.DataArray) -> None:
    assert is_height(coordinate)


@pytest.mark.parametrize(
    "coordinate",
    [
        made("s_rho", standard_name="ocean_s_coordinate_g2"),
        made("s_w"),
        made("s_rho", units="1"),
        made("lev", standard_name="atmosphere_hybrid_sigma_pressure_coordinate", units="hPa"),
        made("level", standard_name="model_level_number"),
        made("k", standard_name="z_grid_index_at_lower_w_location"),
        made("height", standard_name="height", long_name="generalized_height", units="1"),
        made("lev", units="level"),
        made("z").astype("U"),
    ],
)
def test_counts_and_coordinates_without_units(coordinate: xr.DataArray) -> None:
    assert not is_height(coordinate)
