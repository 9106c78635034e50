"""Columns of datasets as other programs write and open them."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from model_columns import GRADIENT, draw_column

import halocline_engine as he

FACES = -np.array([0.0, 10, 30, 60])
WANTED = [0.0, 5 / 15, 10 / 25, 0.0]
DRAWS = 120


def gradient(dataset: xr.Dataset, **arguments: Any) -> xr.DataArray:
    return he.column(GRADIENT, dataset, target="reference", **arguments)["result"]


def opened(dataset: xr.Dataset, path: Path, decode: Any) -> xr.Dataset:
    dataset.to_netcdf(path)
    return cast("Any", xr).open_dataset(path, decode_coords=decode).load()


def hybrid() -> xr.Dataset:
    a, b = np.array([0.0, 100, 200, 400, 800]), np.array([1.0, 0.9, 0.7, 0.3, 0.0])
    variables: dict[str, Any] = {
        "t": (("z", "x"), np.arange(8.0).reshape(4, 2)),
        "orog": ("x", [0.0, 1000.0]),
    }
    for name, ends in (("a", a), ("b", b)):
        middle = 0.5 * (ends[1:] + ends[:-1])
        variables[name] = ("z", middle, {"bounds": f"{name}_bnds"})
        variables[f"{name}_bnds"] = (("z", "two"), np.stack([ends[:-1], ends[1:]], 1))
    attrs = {
        "standard_name": "atmosphere_hybrid_height_coordinate",
        "formula_terms": "a: a b: b orog: orog",
        "positive": "up",
        "units": "m",
        "bounds": "a_bnds",
    }
    return xr.Dataset(variables, {"z": ("z", 0.5 * (a[1:] + a[:-1]), attrs)})


@pytest.mark.parametrize("decode", ["all", "coordinates", False])
def test_formula_terms_in_the_encoding(decode: Any, tmp_path: Path) -> None:
    result = gradient(opened(hybrid(), tmp_path / "hybrid.nc", decode))
    assert np.allclose(result.values[1], [2 / 100, 2 / (100 + 1000 * (0.8 - 0.95))])


@pytest.mark.parametrize("decode", ["all", "coordinates", False])
@pytest.mark.parametrize("terms", [True, False])
@pytest.mark.parametrize("standard", [True, False])
def test_s_coordinates_are_no_heights(
    decode: Any, terms: bool, standard: bool, tmp_path: Path
) -> None:
    coords: dict[str, Any] = {}
    for name, values in (("s_rho", [-0.75, -0.25]), ("s_w", [-1.0, -0.5, 0.0])):
        attrs = {"positive": "up", "long_name": "S-coordinate"}
        if terms:
            attrs["formula_terms"] = f"s: {name} C: C eta: zeta depth: h depth_c: hc"
        if standard:
            attrs["standard_name"] = "ocean_s_coordinate_g2"
        coords[name] = (name, values, attrs)
    variables = {
        "t": (("s_rho", "x"), np.arange(4.0).reshape(2, 2)),
        "C": ("s_rho", [-0.75, -0.25]),
        "h": ("x", [100.0, 4000.0]),
        "zeta": ("x", [0.0, 0.0]),
        "hc": 20.0,
    }
    dataset = opened(xr.Dataset(variables, coords), tmp_path / "roms.nc", decode)
    with pytest.raises(he.RequestError):
        gradient(dataset)
    heights = xr.DataArray([[-100.0, -4000.0], [-50.0, -2000.0], [0.0, 0.0]], dims=("s_w", "x"))
    result = gradient(dataset.assign(z_w=heights), heights="z_w")
    assert result.sel(s_w=-0.5).values.tolist() == [2 / 50, 2 / 2000]


def ocean(shift: Any = -0.5, **attrs: str) -> xr.Dataset:
    """Return a dataset with all vertical dimensions of MITgcm."""

    def level(name: str, size: int, **more: Any) -> Any:
        return name, np.arange(size), {"axis": "Z", **more}

    heights = {"units": "m", **attrs}
    return xr.Dataset(
        {"t": (("k", "j"), np.array([[20.0], [15.0], [5.0]]) * np.ones((3, 2)))},
        {
            "k": level("k", 3),
            "k_l": level("k_l", 3, c_grid_axis_shift=-0.5),
            "k_u": level("k_u", 3, c_grid_axis_shift=0.5),
            "k_p1": level("k_p1", 4, c_grid_axis_shift=shift),
            "Z": ("k", 0.5 * (FACES[1:] + FACES[:-1]), heights),
            "Zp1": ("k_p1", FACES, heights),
        },
    )


@pytest.mark.parametrize(
    "shift", [-0.5, (-0.5, 0.5), np.array([-0.5, 0.5]), [-0.5, 0.5], "(-0.5, 0.5)", "left", "outer"]
)
@pytest.mark.parametrize("positive", [{"positive": "up"}, {"positive": "UP"}, {}])
def test_faces_at_both_ends(shift: Any, positive: dict[str, str]) -> None:
    result = gradient(ocean(shift, **positive))
    assert result.dims == ("k_p1", "j")
    assert np.allclose(result.isel(j=0).values, WANTED)


def test_heights_that_are_positive_downwards() -> None:
    with pytest.raises(he.FieldError) as caught:
        gradient(ocean(positive="down", standard_name="depth"))
    assert str(caught.value) == (
        "Coordinate 'Zp1' is positive downwards, but its values are mostly below zero. Set"
        " dataset['Zp1'].attrs['positive'] = 'up', or change the sign of its values."
    )


@pytest.mark.parametrize("lacking", [[], ["Z"], ["Zp1"]])
def test_depths_of_which_some_say_it(lacking: list[str]) -> None:
    dataset = ocean(positive="down")
    dataset = dataset.assign_coords({name: -dataset[name] for name in ("Z", "Zp1")})
    for name in ("Z", "Zp1"):
        dataset[name].attrs = {} if name in lacking else {"positive": "down"}
    assert np.allclose(gradient(dataset).isel(j=0).values, WANTED)


@pytest.mark.parametrize(
    ("centre", "face"),
    [("bottom_top", "bottom_top_stag"), ("z_l", "z_i"), ("st_ocean", "sw_ocean")],
)
def test_levels_of_models_without_attributes(centre: str, face: str) -> None:
    soil = xr.DataArray(np.zeros(3), dims="soil_layers_stag")
    dataset = xr.Dataset({"t": (centre, [20.0, 15.0, 5.0]), "height": (face, FACES), "soil": soil})
    result = gradient(dataset, heights="height")
    assert result.dims == (face,)
    assert np.allclose(result.values, WANTED)


def judge(seed: int) -> str:
    """Return 'right' or 'refused', or what was wrong."""
    column = draw_column(np.random.default_rng(seed))
    try:
        result = gradient(column.dataset)
    except he.RequestError as error:
        return f"refused: {type(error).__name__}"
    wanted = column.gradient.reshape(len(column.gradient), -1)
    got = result.transpose(..., "x").values
    known = not column.words.startswith(("parametric", "counts"))
    right = known and len(got) == len(wanted) and np.allclose(got, wanted)
    return "right" if right else f"{column.words}: wrong numbers"


def test_drawn_columns_are_right_or_refused() -> None:
    found = Counter(judge(seed) for seed in range(DRAWS))
    assert found.keys() == {"right", "refused: AxisError", "refused: FieldError"}
    assert found["right"] > DRAWS // 2
