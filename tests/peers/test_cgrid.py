"""Operators on C-grids, as models write them, have the numbers of xgcm."""

# xgcm has no annotations.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false, reportUnknownLambdaType=false
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr
from xgcm import Grid

import halocline_engine as he

#: Dimensions of centres and faces, the position of faces, and whether attributes tell.
MODELS: dict[str, tuple[tuple[str, str], tuple[str, str], str, bool]] = {
    "NEMO": (("x_c", "x_f"), ("y_c", "y_f"), "right", False),
    "NEMO, same names with attributes": (("lon_t", "lon_u"), ("lat_t", "lat_u"), "right", True),
    "MOM6": (("xh", "xq"), ("yh", "yq"), "right", False),
    "MOM6, symmetric": (("xh", "xq"), ("yh", "yq"), "outer", False),
    "ROMS": (("xi_rho", "xi_u"), ("eta_rho", "eta_v"), "inner", False),
    "WRF": (("west_east", "west_east_stag"), ("south_north", "south_north_stag"), "outer", False),
    "MITgcm": (("XC", "XG"), ("YC", "YG"), "left", False),
    "MITgcm by attributes": (("a", "b"), ("c", "d"), "left", True),
}
CELLS = (7, 6)
MORE = {"left": 0, "right": 0, "outer": 1, "inner": -1}

HEAD = (
    "def f({}, out: Field[float]):\n    with computation(PARALLEL), interval(...):\n        out = "
)
#: The fields of an operator, where it lies along x and y, its text, and the same by xgcm.
OPERATORS: dict[str, tuple[str, str, str, Callable[..., Any]]] = {
    "divergence": (
        "uv",
        "cc",
        "u[1, 0, 0] - u + (v[0, 1, 0] - v)",
        lambda g, d: g.diff(d.u, "X") + g.diff(d.v, "Y"),
    ),
    "curl": (
        "uv",
        "ff",
        "v - v[-1, 0, 0] - (u - u[0, -1, 0])",
        lambda g, d: g.diff(d.v, "X") - g.diff(d.u, "Y"),
    ),
    "gradient in x": ("h", "fc", "h - h[-1, 0, 0]", lambda g, d: g.diff(d.h, "X")),
    "gradient in y": ("h", "cf", "h - h[0, -1, 0]", lambda g, d: g.diff(d.h, "Y")),
    "kinetic energy": (
        "uv",
        "cc",
        "0.5 * (0.5 * (u * u + u[1, 0, 0] * u[1, 0, 0]) + 0.5 * (v * v + v[0, 1, 0] * v[0, 1, 0]))",
        lambda g, d: 0.5 * (g.interp(d.u**2, "X") + g.interp(d.v**2, "Y")),
    ),
    "Coriolis average": (
        "v",
        "fc",
        "0.25 * (v + v[-1, 0, 0] + v[0, 1, 0] + v[-1, 1, 0])",
        lambda g, d: g.interp(g.interp(d.v, "Y"), "X"),
    ),
}


def dataset_of(name: str) -> tuple[xr.Dataset, dict[str, dict[str, str]]]:
    (xc, xf), (yc, yf), position, told = MODELS[name]
    rng = np.random.default_rng(len(name))
    nx, ny = CELLS
    sizes = {xc: nx, yc: ny, xf: nx + MORE[position], yf: ny + MORE[position]}
    coords: dict[str, Any] = {}
    for axis, cell, face in (("X", xc, xf), ("Y", yc, yf)):
        shift = {"left": -0.5, "right": 0.5}.get(position, 0.0)
        coords[cell] = (cell, np.arange(sizes[cell], dtype=float), {"axis": axis} if told else {})
        attrs = {"axis": axis, "c_grid_axis_shift": shift} if told else {}
        coords[face] = (face, np.arange(sizes[face]) + shift, attrs)
    shapes = {"h": (yc, xc), "u": (yc, xf), "v": (yf, xc)}
    data = {n: (dims, rng.random([sizes[d] for d in dims])) for n, dims in shapes.items()}
    grid = {"X": {"center": xc, position: xf}, "Y": {"center": yc, position: yf}}
    return xr.Dataset(data, coords=coords), grid


#: A periodic axis has as many faces as cells.
AXES = [
    (name, periodic)
    for name, (_, _, position, _) in MODELS.items()
    for periodic in (False, True)
    if not periodic or MORE[position] == 0
]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("model", "periodic"), AXES)
def test_operators_have_the_numbers_of_xgcm(model: str, operator: str, periodic: bool) -> None:
    data, grid = dataset_of(model)
    fields, lies, text, peer = OPERATORS[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how: dict[str, Any] = {"padding": "periodic" if periodic else "fill"}
        xgcm = Grid(data, coords=grid, autoparse_metadata=False, fill_value=0.0, **how)
        expected = peer(xgcm, data)
    (xc, xf), (yc, yf) = MODELS[model][:2]
    out = [{"c": yc, "f": yf}[lies[1]], {"c": xc, "f": xf}[lies[0]]]
    dims = [*out, *(str(dim) for name in fields for dim in data[name].dims)]
    found = he.run(
        HEAD.format(", ".join(f"{name}: Field[float]" for name in fields)) + text + "\n",
        data,
        positions=None if lies == "cc" else {"out": out},
        boundary=dict.fromkeys(dims, "periodic" if periodic else {"constant": 0.0}),
        target="reference",
    )["out"]
    assert found.dims == tuple(out)
    expected = expected.transpose(*out)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-14, atol=1e-14)
