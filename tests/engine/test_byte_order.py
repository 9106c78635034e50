"""Values in the byte order of other machines, as NetCDF's classic format has them in memory."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

SHIFTED = """
def shifted(inp: Field[real], out: Field[real]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp[1, 0, 0]
"""
BANDS: dict[str, Any] = {"lower": "lower", "diagonal": "diagonal", "upper": "upper"}
OUTER: dict[str, Any] = {"second_lower": "lower", "second_upper": "upper"}
KINDS = ("float32", "float64")


def dataset(kind: str) -> xr.Dataset:
    random = np.random.default_rng(5)
    levels = {
        name: (("y", "x"), random.random((4, 6)).astype(kind)) for name in ("lower", "upper", "rhs")
    }
    diagonal = ("y", "x"), (4.0 + random.random((4, 6))).astype(kind)
    nodes = {
        name: ("node", (2.0 + random.random(5)).astype(kind)) for name in ("own", "link", "current")
    }
    return xr.Dataset(
        {
            **levels,
            **nodes,
            "diagonal": diagonal,
            "heights": ("x_face", np.linspace(0.0, 3.0, 7).astype(kind)),
            "turned": (("x", "z"), random.random((6, 3)).astype(kind)),
            "short": (("y", "point"), random.random((4, 3)).astype(kind)),
            "index": ("point", np.array([5, 0, 2], "int32")),
            "parent": ("node", np.array([-1, 0, 1, -1, 0], "int32")),
            "count": ("cell", np.array([3, 2], "int64"), {"sample_dimension": "node"}),
        }
    )


def weights() -> xr.Dataset:
    places = np.arange(1, 25, dtype=">i4")
    return xr.Dataset(
        {
            "row": ("n_s", places),
            "col": ("n_s", places[::-1]),
            "S": ("n_s", np.full(24, 0.5, ">f8")),
            "src_grid_dims": ("src_grid_rank", np.array([6, 4], ">i4")),
            "dst_grid_dims": ("dst_grid_rank", np.array([6, 4], ">i4")),
        }
    )


def swapped(native: xr.Dataset) -> xr.Dataset:
    """Return the same values in the byte order of other machines."""
    kinds: dict[Any, Any] = {name: one.dtype.newbyteorder(">") for name, one in native.items()}
    return native.assign({name: native[name].astype(kind) for name, kind in kinds.items()})


NODES: dict[str, Any] = {
    "diagonal": "own",
    "upper": "link",
    "parent": "parent",
    "rhs": "current",
    "row_size": "count",
}
PLACES: dict[str, Any] = {"source": "rhs", "index": "index", "dim": "x"}
SPREAD: dict[str, Any] = {"source": "short", "index": "index", "dim": "c", "size": 8}
LEVELS: dict[str, Any] = {"axis": {"centre": "x", "face": "x_face"}, "heights": "heights"}
DIVERGENCE = "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(InterpolateC2F()(rhs))"
CALLS: dict[str, tuple[Callable[..., xr.Dataset], dict[str, Any]]] = {
    "run": (partial(he.run, SHIFTED), {"fields": {"inp": "rhs"}}),
    "tridiagonal": (he.tridiagonal, {**BANDS, "rhs": "rhs", "dim": "x", "residual": True}),
    "pentadiagonal": (he.pentadiagonal, {**BANDS, **OUTER, "rhs": "rhs", "dim": "x"}),
    "factor": (he.factor, {**BANDS, "dim": "x"}),
    "tree": (he.tree, NODES),
    "gather": (he.gather, PLACES),
    "gather in blocks": (he.gather, {**PLACES, "chunks": {"x": 2, "point": 2}}),
    "scatter": (he.scatter, SPREAD),
    "scatter of sums": (he.scatter, {**SPREAD, "duplicates": "sum"}),
    "matmul": (he.matmul, {"left": "rhs", "right": "turned", "dim": "x"}),
    "column": (partial(he.column, DIVERGENCE), LEVELS),
    "regrid": (he.regrid, {"weights": weights(), "variables": ["rhs"]}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_any_byte_order_gives_the_same(call: str, kind: str, target: str, tmp_path: Path) -> None:
    data = dataset(kind)
    function, named = CALLS[call]
    if call == "run":
        named = {**named, "dtypes": {"real": kind}}
    expected = function(data, target=target, **named)
    assert expected.data_vars
    for given in ({}, {"output": tmp_path / "out.zarr"}):
        found = function(swapped(data), target=target, **named, **given)
        for name, array in expected.data_vars.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name].values, array.values)


@pytest.mark.parametrize("kind", KINDS)
def test_factors_solve_for_any_byte_order(kind: str, target: str) -> None:
    data = dataset(kind)
    factors = he.factor(data, **BANDS, dim="x", target=target)
    expected = he.solve(data, factors, rhs="rhs", target=target)
    found = he.solve(swapped(data), factors, rhs="rhs", target=target)
    np.testing.assert_array_equal(found["solution"].values, expected["solution"].values)
