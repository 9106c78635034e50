"""Results keep coordinates, whatever becomes of the dataset that they are of."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.stores.provenance import coordinates_of

SHIFTED = """
def shifted(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp[1, 0, 0]
"""
BANDS: dict[str, Any] = {"lower": "inp", "diagonal": "inp", "upper": "inp"}
CALLS: dict[str, Callable[..., xr.Dataset]] = {
    "run": partial(he.run, SHIFTED),
    "tridiagonal": partial(he.tridiagonal, **BANDS, rhs="inp", dim="x"),
    "factor": partial(he.factor, **BANDS, dim="x"),
    "gather": partial(he.gather, source="inp", index="index", dim="x"),
    "gather in blocks": partial(
        he.gather, source="inp", index="index", dim="x", chunks={"x": 2, "point": 1}
    ),
    "matmul": partial(he.matmul, left="inp", right="turned", dim="x"),
}


def data() -> xr.Dataset:
    random = np.random.default_rng(3)
    return xr.Dataset(
        {
            "inp": (("time", "y", "x"), random.random((2, 4, 6))),
            "turned": (("x", "z"), random.random((6, 3))),
            "index": ("point", np.array([1, 0])),
        },
        coords={
            "time": np.array(["2000-01-01", "2000-01-02"], "M8[ns]"),
            "y": ("y", np.arange(4.0), {"units": "degrees_north"}),
            "lat": (("y", "x"), random.random((4, 6)), {"units": "degrees_north"}),
            "label": ("time", np.array(["a", "b"], object)),
            "run_number": 3.0,
            "place": ("point", np.array([7, 8])),
        },
    )


def expected(call: str) -> xr.DataArray:
    """Return what xarray makes of the coordinates."""
    dataset = data()
    if call.startswith("gather"):
        return dataset["inp"].isel(x=dataset["index"])
    if call == "matmul":
        return xr.dot(dataset["inp"], dataset["turned"], dim="x")
    return dataset["inp"]


def opened(path: Path, how: str) -> Any:
    match how:
        case "path":
            return path
        case "lazy":
            return xr.open_zarr(path, consolidated=False, chunks=None)
        case _:
            return xr.open_zarr(path, consolidated=False, chunks={})


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ["path", "lazy", "dask"])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_coordinates_outlive_the_input(call: str, how: str, stored: bool, tmp_path: Path) -> None:
    path = tmp_path / "in.zarr"
    data().to_zarr(path, zarr_format=3, consolidated=False)
    place: dict[str, Any] = {"output": tmp_path / "out.zarr"} if stored else {}
    found = CALLS[call](opened(path, how), target="reference", **place)
    shutil.rmtree(path)
    wanted = coordinates_of(expected(call))
    assert set(found.coords) == set(wanted)
    for name, coordinate in wanted.items():
        assert found[name].dims == coordinate.dims
        np.testing.assert_array_equal(found[name].values, coordinate.values)
        assert found[name].attrs == coordinate.attrs


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_a_coordinate_that_cannot_be_read(stored: bool, tmp_path: Path) -> None:
    path = tmp_path / "in.zarr"
    data().to_zarr(path, zarr_format=3, consolidated=False)
    (path / "lat" / "c" / "0" / "0").write_bytes(b"no such thing")
    place: dict[str, Any] = {"output": tmp_path / "out.zarr"} if stored else {}
    with pytest.raises(he.DatasetError) as caught:
        CALLS["run"](path, target="reference", **place)
    assert str(caught.value).startswith("The coordinates of the result cannot be read: ")
    assert str(caught.value).endswith(". Correct the input, or leave them out with drop_vars.")
    assert [one.name for one in tmp_path.iterdir()] == ["in.zarr"]
