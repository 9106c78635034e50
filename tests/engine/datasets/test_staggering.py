"""Variables of staggered grids, levels of any name, and datasets with few dimensions."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.grids.dimension_names import (
    DIMENSION_NAMES,
    axis_named,
    is_time_or_member,
)
from halocline_engine.ir.types import Axis

FLUX = """
def flux(t: Field[float], u: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t * (u[1, 0, 0] - u)
"""
DIVERGENCE = """
def divergence(u: Field[float], v: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = u[1, 0, 0] - u + v[0, 1, 0] - v
"""
PRODUCT = """
def product(t: Field[float], u: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t * u
"""
TWICE = """
def twice(t: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * t
"""
HEATING = """
def heating(t: Field[float]):
    with computation(PARALLEL), interval({}):
        t = t + 5.0
"""
LEVEL = """
def level(t: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t if K == 0 else 0.0
"""
TOTAL = """
def total(t: Field[float], total: Field[IJ, float]):
    with computation(FORWARD), interval(...):
        total = total + t
"""


def run(text: str, dataset: xr.Dataset, **arguments: Any) -> xr.Dataset:
    return he.run(text, dataset, target="reference", **arguments)


def faces(cell: str, face: str, row: str, count: int) -> xr.Dataset:
    u = np.tile(np.arange(float(count)) ** 2, (3, 1))
    return xr.Dataset({"t": ((row, cell), np.ones((3, 4))), "u": ((row, face), u)})


#: The first face by the name and the number of faces, of four cells.
KNOWN = {("xq", 4): 1, ("xq", 5): 0, ("west_east_stag", 5): 0, ("xi_u", 3): 1, ("i_g", 4): 0}


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize(
    ("cell", "face", "row"),
    [
        ("xh", "xq", "yh"),
        ("west_east", "west_east_stag", "south_north"),
        ("xi_rho", "xi_u", "eta_rho"),
        ("i", "i_g", "j"),
        ("x", "x_f", "y"),
        ("lon", "slon", "lat"),
        ("here", "between", "rows"),
    ],
)
@pytest.mark.parametrize("axes", ["none", "cells", "faces"])
@pytest.mark.parametrize("text", [FLUX, PRODUCT])
def test_faces_with_dimensions_of_their_own(
    text: str, axes: str, cell: str, face: str, row: str, count: int
) -> None:
    given = {"none": None, "cells": {"I": cell, "J": row}, "faces": {"I": face, "J": row}}[axes]
    dataset = faces(cell, face, row, count)
    first = KNOWN.get((face, count))
    if first is None:
        with pytest.raises(he.AxisError):
            run(text, dataset, axes=given)
        return
    found = run(text, dataset, axes=given)["out"]
    u = np.full(6, np.nan)
    u[first : first + count] = dataset["u"].values[0]
    assert found.dims == (row, cell)
    assert np.array_equal(
        found.values, np.tile((u[1:] - u[:-1] if text == FLUX else u)[:4], (3, 1)), equal_nan=True
    )


def test_text_for_faces() -> None:
    said: list[str] = []
    for count in (5, 4, 3):
        with pytest.raises(he.AxisError) as caught:
            run(FLUX, faces("x", "x_f", "y", count), axes={"I": "x", "J": "y"})
        said.append(str(caught.value))
    assert said[0] == (
        "Variables 't' and 'u' have different points along axis 'I', 'x' and 'x_f', but fields of a"
        " program share them. If one has faces, say where they lie: grid={'X': {'center': 'x',"
        " 'outer': 'x_f'}}, or {'center': 'x_f', 'inner': 'x'}. Interpolate 'u' to 'x', or name"
        " those of its points that belong to each point of 'x', such as the first ones:"
        " dataset['u'] = (('y', 'x'), dataset['u'].isel(x_f=slice(0, 4)).data). To loop over both,"
        " broadcast 'u' to 'x'."
    )
    assert "grid={'X': {'center': 'x', 'right': 'x_f'}}, or 'left'. " in said[1]
    assert "grid={'X': {'center': 'x_f', 'outer': 'x'}}, or {'center': 'x'," in said[2]
    found = run(FLUX, faces("x", "x_f", "y", 4), grid={"X": {"center": "x", "right": "x_f"}})
    assert found["out"].values[0].tolist()[1:] == [1.0, 3.0, 5.0]


def test_the_hint_leads_to_right_numbers() -> None:
    dataset = faces("xh", "xq", "yh", 5)
    u = dataset["u"]
    dataset["upper"] = (("yh", "xh"), u.isel(xq=slice(1, 5)).data)
    dataset["u"] = (("yh", "xh"), u.isel(xq=slice(0, 4)).data)
    text = FLUX.replace("u: Field[float]", "u: Field[float], upper: Field[float]")
    out = run(text.replace("u[1, 0, 0]", "upper"), dataset)["out"]
    assert out.dims == ("yh", "xh")
    assert out.values[0].tolist() == [1.0, 3.0, 5.0, 7.0]


def test_all_variables_on_faces() -> None:
    values = np.zeros((4, 4))
    dataset = xr.Dataset({"u": (("y", "x_u"), values), "v": (("y_v", "x"), values)})
    with pytest.raises(he.AxisError, match="'x' and 'x_u'"):
        run(DIVERGENCE, dataset)


def test_a_dimension_that_no_other_variable_has() -> None:
    dataset = xr.Dataset({"t": (("y", "x"), np.ones((3, 4))), "u": ("s", np.arange(9.0))})
    with pytest.raises(he.AxisError, match="'x' and 's'"):
        run(FLUX, dataset)
    # Without neighbours there is nothing to tell wrongly: one result for each of both.
    assert run(PRODUCT, dataset)["out"].sizes == {"s": 9, "y": 3, "x": 4}


def test_metric_terms_and_members_are_repeated() -> None:
    random = np.random.default_rng(3)
    t = random.random((2, 3, 4))
    dataset = xr.Dataset({"t": (("member", "y", "x"), t), "u": (("member", "y"), t[:, :, 0])})
    assert (
        run(FLUX, dataset)["out"].isel(x=slice(0, 3)).values.tolist()
        == np.zeros((2, 3, 3)).tolist()
    )
    out = run(PRODUCT, dataset)["out"]
    assert np.array_equal(out.values, t * t[:, :, :1])


@pytest.mark.parametrize(
    "name",
    ["lev", "level", "bottom_top", "s_rho", "deptht", "plev", "nz", "isobaricInhPa", "z_l", "zl"],
)
def test_levels_of_models(name: str) -> None:
    dataset = xr.Dataset({"t": ((name, "y", "x"), np.zeros((3, 1, 2)))})
    low, high = (run(HEATING.format(one), dataset)["t"] for one in ("0, 1", "-1, None"))
    assert low.values[:, 0, 0].tolist() == [5.0, 0.0, 0.0]
    assert high.values[:, 0, 0].tolist() == [0.0, 0.0, 5.0]
    first = run(LEVEL, dataset + 1.0)["out"]
    assert first.values[:, 0, 0].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("text", [HEATING.format("0, 1"), HEATING.format("-1, None"), LEVEL])
def test_levels_of_unknown_names(text: str) -> None:
    dataset = xr.Dataset({"t": (("floor", "y", "x"), np.zeros((3, 1, 2)))})
    with pytest.raises(he.AxisError) as caught:
        run(text, dataset)
    assert str(caught.value) == (
        "The result depends on axis 'K', and it is not known whether it is one of the dimensions"
        " 'floor'. Say it: axes={'K': 'floor'}, or axes={'K': None} if the data has no such axis."
    )
    assert run(text, dataset, axes={"K": "floor"}).sizes["floor"] == 3
    assert run(text, dataset, axes={"K": None}).sizes["floor"] == 3


def test_sums_over_levels_of_unknown_names() -> None:
    dataset = xr.Dataset(
        {"t": (("floor", "y", "x"), np.ones((3, 1, 2))), "total": (("y", "x"), np.zeros((1, 2)))}
    )
    with pytest.raises(he.AxisError, match="The result depends on axis 'K'"):
        run(TOTAL, dataset)
    assert run(TOTAL, dataset, axes={"K": "floor"})["total"].values.tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize("name", ["time", "member", "number", "realization"])
def test_times_and_members_are_no_levels(name: str) -> None:
    dataset = xr.Dataset({"t": ((name, "y", "x"), np.zeros((3, 1, 2)))})
    assert run(HEATING.format("0, 1"), dataset)["t"].values.tolist() == [[[5.0, 5.0]]] * 3


@pytest.mark.parametrize(
    "dims", [("x",), ("time",), ("z",), ("ncells",), ("a", "b"), (), ("t", "y")]
)
def test_programs_on_points_need_no_axis(dims: tuple[str, ...]) -> None:
    values = np.random.default_rng(0).random((3, 4)[: len(dims)])
    out = run(TWICE, xr.Dataset({"t": (dims, values)}))["out"]
    assert out.dims == dims
    assert np.array_equal(out.values, 2.0 * values)


def test_one_dimension_and_its_neighbours() -> None:
    text = TWICE.replace("2.0 * t", "t[1, 0, 0] - t[-1, 0, 0]")
    out = run(text, xr.Dataset({"t": ("x", np.arange(5.0) ** 2)}), boundary={"x": "edge"})["out"]
    assert out.values.tolist() == [1.0, 4.0, 8.0, 12.0, 7.0]


def test_the_page_has_the_names_of_models() -> None:
    page = Path("docs/datasets-and-boundaries.md").read_text()
    for model, names in DIMENSION_NAMES.items():
        cells = (" ".join(f"`{name}`" for name in own.split()) for own in names)
        assert f"| {model} | {' | '.join(cells)} |" in page


def test_names_of_models_belong_to_one_axis() -> None:
    for names in DIMENSION_NAMES.values():
        for axis, own in zip(Axis, names, strict=True):
            for name in own.split():
                assert axis_named(name) is axis
                assert not is_time_or_member(name)


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        *(("x_c", Axis.I), ("yq", Axis.J), ("lon_2", Axis.I), ("height_2", Axis.K)),
        *(("level1", Axis.K), ("z_aaf", Axis.K), ("y_grid_T", Axis.J), ("xp1", Axis.I)),
        *(("isobaric1", Axis.K), ("height_above_ground2", Axis.K), ("time1", None)),
        *(("zone", None), ("it", None), ("index", None), ("station", None), ("x1", None)),
        *(("time", None), ("member", None), ("ncells", None), ("i_step", None)),
    ],
)
def test_names_that_are_like_those_of_models(name: str, axis: Axis | None) -> None:
    assert axis_named(name) is axis
