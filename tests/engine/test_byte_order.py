"""Values in the byte order of other machines, as NetCDF's classic format has them in memory."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable
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
            "index": ("point", np.array([5, 0, 2], "int32")),
            "parent": ("node", np.array([-1, 0, 1, -1, 0], "int32")),
            "count": ("cell", np.array([3, 2], "int64"), {"sample_dimension": "node"}),
        }
    )


def weights(byte_order: str) -> xr.Dataset:
    places = np.arange(1, 25, dtype=f"{byte_order}i4")
    return xr.Dataset(
        {
            "row": ("n_s", places),
            "col": ("n_s", places[::-1]),
            "S": ("n_s", np.full(24, 0.5, f"{byte_order}f8")),
        },
        attrs={"map_method": "Bilinear remapping"},
    ).assign(
        src_grid_dims=("src_grid_rank", np.array([6, 4], f"{byte_order}i4")),
        dst_grid_dims=("dst_grid_rank", np.array([6, 4], f"{byte_order}i4")),
    )


def swapped(native: xr.Dataset) -> xr.Dataset:
    """Return the same values in the byte order of other machines."""
    return native.map(lambda array: array.astype(array.dtype.newbyteorder(">")), keep_attrs=True)


def moved(data: xr.Dataset, target: str, **given: Any) -> xr.Dataset:
    return he.scatter(
        data.isel(x=slice(3)).rename(point="x"),
        source="rhs",
        index="index",
        dim="c",
        size=8,
        target=target,
        **given,
    )


CALLS: dict[str, Callable[..., xr.Dataset]] = {
    "run": lambda d, target, **o: he.run(
        SHIFTED, d, fields={"inp": "rhs"}, dtypes={"real": d.rhs.dtype.name}, target=target, **o
    ),
    "tridiagonal": lambda d, target, **o: he.tridiagonal(
        d, **BANDS, rhs="rhs", dim="x", target=target, residual=True, **o
    ),
    "pentadiagonal": lambda d, target, **o: he.pentadiagonal(
        d, **BANDS, **OUTER, rhs="rhs", dim="x", target=target, **o
    ),
    "factor": lambda d, target, **o: he.factor(d, **BANDS, dim="x", target=target, **o),
    "tree": lambda d, target, **o: he.tree(
        d,
        diagonal="own",
        upper="link",
        parent="parent",
        rhs="current",
        row_size="count",
        target=target,
        **o,
    ),
    "gather": lambda d, target, **o: he.gather(
        d, source="rhs", index="index", dim="x", target=target, **o
    ),
    "gather in blocks": lambda d, target, **o: he.gather(
        d, source="rhs", index="index", dim="x", target=target, chunks={"x": 2, "point": 2}, **o
    ),
    "scatter": moved,
    "scatter of sums": lambda d, target, **o: moved(d, target, duplicates="sum", **o),
    "matmul": lambda d, target, **o: he.matmul(
        d, left="rhs", right="turned", dim="x", target=target, **o
    ),
    "column": lambda d, target, **o: he.column(
        "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(InterpolateC2F()(rhs))",
        d,
        axis={"centre": "x", "face": "x_face"},
        heights="heights",
        target=target,
        **o,
    ),
    "regrid": lambda d, target, **o: he.regrid(
        d[["rhs"]],
        weights("<" if d.rhs.dtype.isnative else ">"),
        target=target,
        **o,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_any_byte_order_gives_the_same(call: str, kind: str, target: str, tmp_path: Path) -> None:
    data = dataset(kind)
    expected = CALLS[call](data, target)
    assert expected.data_vars
    for given in ({}, {"output": tmp_path / "out.zarr"}):
        found = CALLS[call](swapped(data), target, **given)
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
