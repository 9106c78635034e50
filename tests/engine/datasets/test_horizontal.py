"""Latitude and longitude of variables: by their coordinates, or else by names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.grids.horizontal import horizontal_dims


@pytest.mark.parametrize(
    ("dims", "coords", "expected"),
    [
        (("lon", "lat"), {}, ("lat", "lon")),
        (("south_north", "west_east"), {}, ("south_north", "west_east")),
        (("yh", "xq"), {}, ("yh", "xq")),
        (("a", "b"), {}, None),
        (("x", "lon"), {}, None),
        (("a", "b"), {"a": {"axis": "x"}, "b": {"units": "degrees_north"}}, ("b", "a")),
        (("x", "y"), {"x": {"axis": "Y"}, "y": {"standard_name": "longitude"}}, ("x", "y")),
    ],
)
def test_horizontal_dims(
    dims: tuple[str, str], coords: dict[str, dict[str, Any]], expected: tuple[str, str] | None
) -> None:
    lines = {name: (name, np.arange(3.0), attrs) for name, attrs in coords.items()}
    assert horizontal_dims(xr.DataArray(np.zeros((3, 3)), lines, dims)) == expected
