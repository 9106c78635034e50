"""Which dimension is which axis, on made datasets and on real files."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path

import iris_sample_data  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.grids.axes import find_axes
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis

SAMPLES = Path(iris_sample_data.path)
ALL = (Axis.I, Axis.J, Axis.K)


def made(**coordinates: tuple[str, dict[str, str]]) -> xr.Dataset:
    """Return a variable on dimensions a, b, c and d, with coordinates that have attributes."""
    coords = {name: (dim, np.arange(3.0), attrs) for name, (dim, attrs) in coordinates.items()}
    return xr.Dataset({"v": (("a", "b", "c", "d"), np.zeros((3, 3, 3, 3)))}, coords)


@pytest.mark.parametrize(
    ("file", "variable", "dims"),
    [
        ("ostia_monthly.nc", "surface_temperature", ("longitude", "latitude", None)),
        ("A1B_north_america.nc", "air_temperature", ("longitude", "latitude", None)),
        (
            "hybrid_height.nc",
            "air_potential_temperature",
            ("grid_longitude", "grid_latitude", "model_level_number"),
        ),
        # Its coordinates are two-dimensional, so only the names of the dimensions say it.
        ("NEMO/nemo_1m_20150101-20150201_grid-T.nc", "tos", ("x", "y", None)),
    ],
)
def test_real_files(file: str, variable: str, dims: tuple[str | None, ...]) -> None:
    with xr.open_dataset(SAMPLES / file) as dataset:
        assert find_axes(dataset, [variable], ALL, (), None) == dims


@pytest.mark.parametrize(
    ("attributes", "axis"),
    [
        ({"axis": "X"}, 0),
        ({"standard_name": "projection_x_coordinate"}, 0),
        ({"standard_name": "longitude"}, 0),
        ({"units": "degrees_east"}, 0),
        ({"axis": "Y"}, 1),
        ({"standard_name": "grid_latitude"}, 1),
        ({"units": "degrees_north"}, 1),
        ({"axis": "Z"}, 2),
        ({"standard_name": "air_pressure"}, 2),
        ({"positive": "up"}, 2),
    ],
)
def test_attributes(attributes: dict[str, str], axis: int) -> None:
    given = {"I": None, "J": None, "K": None}
    del given["IJK"[axis]]
    dataset = made(c=("c", attributes))
    assert find_axes(dataset, ["v"], ALL, (), given)[axis] == "c"


@pytest.mark.parametrize(("x", "y"), [("lon", "lat"), ("longitude", "latitude")])
def test_longitude_and_latitude_are_known_by_their_names(x: str, y: str) -> None:
    dataset = xr.Dataset({"v": (("time", y, x), np.zeros((2, 3, 4)))})
    assert find_axes(dataset, ["v"], ALL, (), None) == (x, y, None)
    beside = dataset.rename(time="y").rename({x: "x"})
    assert find_axes(beside, ["v"], ALL, (), None) == ("x", "y", None)


def test_attributes_win_over_names() -> None:
    dataset = made(b=("b", {"axis": "X"})).rename(d="x", c="y")
    assert find_axes(dataset, ["v"], ALL, (), None) == ("b", "y", None)


def test_two_coordinates_of_one_dimension_are_one_answer() -> None:
    dataset = made(c=("c", {"axis": "Z"}), height=("c", {"standard_name": "height"}))
    given = {"I": "a", "J": "b"}
    assert find_axes(dataset, ["v"], ALL, (), given) == ("a", "b", "c")


def test_two_dimensions_are_ambiguous() -> None:
    dataset = made(c=("c", {"axis": "X"}), d=("d", {"axis": "X"}))
    assert find_axes(dataset, ["v"], ALL, (), None) == (None, None, None)
    with pytest.raises(AxisError) as caught:
        find_axes(dataset, ["v"], ALL, (Axis.I,), None)
    assert str(caught.value) == ("Axis 'I' could be any of 'c', 'd'. Choose one: axes={'I': 'c'}.")


def test_given_axes_come_first() -> None:
    dataset = made(a=("a", {"axis": "X"}), b=("b", {"axis": "Y"}))
    assert find_axes(dataset, ["v"], ALL, (), {"I": "d"}) == ("d", "b", None)


def test_an_axis_may_be_given_up() -> None:
    dataset = made(a=("a", {"axis": "X"}), c=("c", {"axis": "Z"}))
    given = {"J": None, "K": None}
    assert find_axes(dataset, ["v"], ALL, (), given) == ("a", None, None)
    with pytest.raises(AxisError, match="Axis 'J' was not found"):
        find_axes(dataset, ["v"], ALL, (Axis.J,), given)


def test_unused_axes_are_not_looked_for() -> None:
    assert find_axes(made(), ["v"], (), (), None) == (None, None, None)
