"""Regridding by weight files, against SciPy's product and what is conserved."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from counting_plans import CountingPlans
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.datasets.formats import weights as weights_module
from halocline_engine.datasets.untyped import XARRAY
from halocline_engine.kernels.indirect.sparse import Sparse, sparse

# SciPy has no annotations.
scipy_sparse: Any = import_module("scipy.sparse")
SOURCE, TARGET = (18, 36), (7, 15)


def overlap(fine: int, coarse: int, low: float, high: float, *, sphere: bool) -> NDArray[Any]:
    """Return what part of each coarse interval each fine one covers; by area on a sphere."""

    def edges(count: int) -> NDArray[Any]:
        found = np.linspace(low, high, count + 1)
        return np.sin(np.radians(found)) if sphere else found

    a, b = edges(fine), edges(coarse)
    shared = np.minimum(b[1:, None], a[1:]) - np.maximum(b[:-1, None], a[:-1])
    return shared.clip(0) / np.diff(b)[:, None]


def conservative() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, columns and weights of first-order conservative remapping."""
    lat = overlap(SOURCE[0], TARGET[0], -90, 90, sphere=True)
    lon = overlap(SOURCE[1], TARGET[1], 0, 360, sphere=False)
    whole = np.kron(lat, lon)
    row, column = np.nonzero(whole > 1e-12)
    return row, column, whole[row, column]


def centres(count: int, low: float, high: float) -> NDArray[Any]:
    edges = np.linspace(low, high, count + 1)
    return (edges[1:] + edges[:-1]) / 2


def esmf() -> xr.Dataset:
    row, column, weight = conservative()
    lat, lon = np.meshgrid(centres(TARGET[0], -90, 90), centres(TARGET[1], 0, 360), indexing="ij")
    shuffled = np.random.default_rng(1).permutation(row.size)
    return xr.Dataset(
        {
            "row": (("n_s",), row[shuffled].astype("i4") + 1),
            "col": (("n_s",), column[shuffled].astype("i4") + 1),
            "S": (("n_s",), weight[shuffled]),
            "src_grid_dims": (("src_grid_rank",), np.array(SOURCE[::-1], "i4")),
            "dst_grid_dims": (("dst_grid_rank",), np.array(TARGET[::-1], "i4")),
            "yc_b": (("n_b",), lat.ravel(), {"units": "degrees"}),
            "xc_b": (("n_b",), lon.ravel(), {"units": "degrees"}),
        }
    )


def scrip() -> xr.Dataset:
    found = esmf()
    matrix = np.stack([found["S"].values, np.zeros(found["S"].size)], axis=1)
    return xr.Dataset(
        {
            "dst_address": (("num_links",), found["row"].values),
            "src_address": (("num_links",), found["col"].values),
            "remap_matrix": (("num_links", "num_wgts"), matrix),
            "src_grid_dims": (("src_grid_rank",), found["src_grid_dims"].values),
            "dst_grid_dims": (("dst_grid_rank",), found["dst_grid_dims"].values),
            "dst_grid_center_lat": (
                ("dst_grid_size",),
                np.radians(found["yc_b"].values),
                {"units": "radians"},
            ),
            "dst_grid_center_lon": (
                ("dst_grid_size",),
                np.radians(found["xc_b"].values),
                {"units": "radians"},
            ),
        }
    )


@pytest.fixture
def dataset() -> xr.Dataset:
    rng = np.random.default_rng(4)
    sea = rng.normal(280, 5, (5, *SOURCE))
    sea[:, 3:6, 10:20] = np.nan
    return xr.Dataset(
        {
            "t": (
                ("time", "lat", "lon", "level"),
                rng.normal(size=(3, *SOURCE, 2)),
                {"units": "K"},
            ),
            "sst": (("time5", "lat", "lon"), sea.astype("f4")),
            "mask": (("lat", "lon"), np.ones(SOURCE, int)),
            "profile": (("level",), [1.0, 2.0]),
        },
        coords={
            "time": [10, 20, 30],
            "lat": centres(SOURCE[0], -90, 90),
            "lon": centres(SOURCE[1], 0, 360),
            "level": [0.5, 1.5],
            "orography": (("lat", "lon"), np.ones(SOURCE)),
        },
        attrs={"history": "made"},
    )


def whole_matrix() -> Any:
    row, column, weight = conservative()
    shape = (int(np.prod(TARGET)), int(np.prod(SOURCE)))
    return scipy_sparse.csr_matrix((weight, (row, column)), shape)


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("kind", [esmf, scrip])
def test_regridding_is_the_product_of_scipy(dataset: xr.Dataset, kind: Any, target: str) -> None:
    found = he.regrid(dataset, kind(), target=target)
    assert set(found.data_vars) == {"t", "sst"}
    assert found.t.dims == ("time", "lat", "lon", "level")
    assert found.t.attrs == {"units": "K"}
    field = dataset["t"].transpose("time", "level", "lat", "lon").values.reshape(6, -1)
    wanted = (whole_matrix() @ field.T).T.reshape(3, 2, *TARGET)
    got = found.t.transpose("time", "level", "lat", "lon").values
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(found.lat, centres(TARGET[0], -90, 90), atol=1e-12)
    np.testing.assert_allclose(found.lon, centres(TARGET[1], 0, 360), atol=1e-12)
    assert set(found.coords) == {"time", "lat", "lon", "level"}
    assert found.attrs["history"].split("\n")[0].endswith(": regrid of t, sst")


def test_what_is_conserved(dataset: xr.Dataset) -> None:
    """The mean over the sphere stays, and a constant with missing cells stays what it is."""
    found = he.regrid(dataset, esmf(), variables=["t"], target="cpu")

    def mean(array: xr.DataArray) -> NDArray[Any]:
        edges = np.sin(np.radians(np.linspace(-90, 90, array.sizes["lat"] + 1)))
        weights = xr.DataArray(np.diff(edges), dims="lat", coords={"lat": array.lat})
        return array.mean("lon").weighted(weights).mean("lat").values

    np.testing.assert_allclose(mean(found["t"]), mean(dataset["t"]), atol=1e-14)
    sst = dataset["sst"].values
    dataset["sst"].values[~np.isnan(sst)] = 3.25
    sea = he.regrid(dataset, esmf(), variables=["sst"], target="cpu").sst
    np.testing.assert_allclose(sea.values[~np.isnan(sea.values)], 3.25, rtol=1e-7)
    assert sea.dtype == np.float32


def test_missing_cells_are_left_out(dataset: xr.Dataset) -> None:
    there = (~np.isnan(dataset["sst"].values)).reshape(5, -1)
    share = (whole_matrix() @ there.T.astype(float)).T.reshape(5, *TARGET)
    assert ((share > 0.01) & (share < 0.99)).any()

    def missing(**options: Any) -> NDArray[Any]:
        found = he.regrid(dataset, esmf(), variables=["sst"], target="cpu", **options)
        return np.isnan(found.sst.values)

    np.testing.assert_array_equal(missing(skipna=False), share < 1 - 1e-9)
    np.testing.assert_array_equal(missing(), share == 0)
    np.testing.assert_array_equal(missing(na_thres=0.5), share < 0.5)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_weights_that_add_up_to_0_or_less(target: str) -> None:
    """Differences of two cells, a mean of them, and one with the other sign."""
    weights = xr.Dataset(
        {
            "row": ("n_s", np.repeat([1, 2, 3], 2)),
            "col": ("n_s", np.tile([1, 2], 3)),
            "S": ("n_s", [1.0, -1.0, 0.5, 0.5, -0.5, -0.5]),
            "src_grid_dims": ("src_grid_rank", [2]),
            "dst_grid_dims": ("dst_grid_rank", [3]),
        }
    )
    nan = np.nan
    dataset = xr.Dataset({"t": (("time", "x"), [[5.0, 3.0], [5.0, nan], [nan, nan]])})
    found = he.regrid(dataset, weights, target=target, target_dims=["x"])
    np.testing.assert_array_equal(found.t, [[2.0, 4.0, -4.0], [nan, 5.0, -5.0], [nan, nan, nan]])
    found = he.regrid(dataset, weights, target=target, target_dims=["x"], na_thres=0.4)
    np.testing.assert_array_equal(found.t[1], [nan, nan, nan])


def test_files_and_unstructured_grids(dataset: xr.Dataset, tmp_path: Path) -> None:
    weights = esmf().drop_vars(["yc_b", "xc_b"])
    weights["dst_grid_dims"] = (("dst_grid_rank",), [int(np.prod(TARGET))])
    store: Any = weights
    store.to_netcdf(tmp_path / "weights.nc")
    found = he.regrid(dataset, tmp_path / "weights.nc", variables=["t"], target="cpu")
    assert dict(found.t.sizes) == {"time": 3, "cell": 105, "level": 2}
    same = he.regrid(dataset, esmf(), variables=["t"], target="cpu")
    flat = same.t.values.reshape(3, 105, 2)
    np.testing.assert_array_equal(found.t.values, flat)
    turned = dataset[["t"]].rename(lat="a", lon="b").transpose("b", "level", "a", "time")
    again = he.regrid(turned, esmf(), dims=("a", "b"), target_dims=("lat", "lon"), target="cpu")
    np.testing.assert_array_equal(
        again.t.transpose("time", "lat", "lon", "level").values, same.t.values
    )


def test_wrong_requests(dataset: xr.Dataset, tmp_path: Path) -> None:
    def message(weights: Any = None, **options: Any) -> str:
        with pytest.raises(he.RequestError) as caught:
            he.regrid(dataset, esmf() if weights is None else weights, target="cpu", **options)
        return str(caught.value)

    assert message(variables=["sts"]) == "The dataset has no variable 'sts'. Did you mean 'sst'?"
    assert message(variables=["profile"]) == (
        "Variable 'profile' cannot be regridded: expected float32 or float64 on a grid of 18 x 36"
        " cells, got 'float64' with the dimensions {'level': 2}. Name the dimensions of the grid"
        " with dims=."
    )
    assert message(dims=("lat", "level")) == (
        "The dataset has no variable of type float32 or float64 on a grid of 18 x 36 cells, for"
        f" which the weights were made; its dimensions are {dict(dataset.sizes)}. Make weights for"
        " the grid of the dataset, whose sizes stand in 'src_grid_dims', the fastest one first; or"
        " name its dimensions with dims=."
    )
    assert message(na_thres=2.0) == "Argument 'na_thres' must be a number from 0 to 1, got 2.0."
    assert message(target_dims=("a",)) == (
        "Argument 'target_dims' must name 2 dimensions, got ['a']."
    )
    assert message(target_dims=("time", "x")) == (
        "The result 't' would have the dimensions ('time', 'time', 'x', 'level'), one of them"
        " twice. Name others with target_dims=."
    )
    assert message(xr.Dataset({"S": 1.0})) == (
        "The weights hold neither 'row', 'col' and 'S' (ESMF) nor 'dst_address', 'src_address' and"
        " 'remap_matrix' (SCRIP). Write them with ESMF_RegridWeightGen, xESMF or SCRIP."
    )
    assert message(esmf().drop_vars("src_grid_dims")) == (
        "The weights do not say how large the grid is: 'src_grid_dims' and the dimension 'n_a' are"
        " missing. Files of xESMF leave them out; open them with xarray, and add the number of"
        " points along each dimension of the grid, the fastest first:"
        " weights.assign(src_grid_dims=('src_grid_rank', [360, 180]))."
    )
    assert message(tmp_path / "none.nc").startswith("Dataset ")
    broken = esmf()
    broken["row"][5] = 106
    assert message(broken) == (
        "Weight 5 has the row 105, counted from 0, but there are 105 of them. Files count from"
        " 1; the weights must be for grids of these sizes."
    )


def test_equal_weights_are_put_in_order_once(
    dataset: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered: list[int] = []

    def counted(*terms: Any) -> Sparse:
        ordered.append(terms[0].size)
        return sparse(*terms)

    monkeypatch.setattr(weights_module, "sparse", counted)
    plans, weights = CountingPlans(), esmf()
    first = he.regrid(dataset, weights, target="reference", plans=plans)
    again = he.regrid(dataset, weights.copy(deep=True), target="reference", plans=plans)
    assert again.equals(first)
    assert len(ordered) == plans.made == 1
    weights["S"][3] *= 0.5
    other = he.regrid(dataset, weights, target="reference", plans=plans)
    assert len(ordered) == plans.made == 2
    assert not other.equals(first)


def test_what_xesmf_writes(dataset: xr.Dataset, tmp_path: Path) -> None:
    """`Regridder.to_netcdf` writes row, col and S without sizes; the hint says how to add them."""
    whole, place = esmf(), tmp_path / "weights.nc"
    store: Any = whole[["S", "col", "row"]]
    store.to_netcdf(place, engine="netcdf4")
    options: Any = {"variables": ["sst"], "target": "reference"}
    with pytest.raises(he.DatasetError, match="Files of xESMF leave them out"):
        he.regrid(dataset, place, **options)
    with XARRAY.open_dataset(place, engine="netcdf4") as weights:
        given = weights.assign(
            src_grid_dims=("src_grid_rank", list(SOURCE[::-1])),
            dst_grid_dims=("dst_grid_rank", list(TARGET[::-1])),
        )
        found = he.regrid(dataset, given, **options)["sst"].values
    wanted = he.regrid(dataset, whole, **options)["sst"].values
    np.testing.assert_array_equal(found, wanted)


def square(**coordinates: Any) -> tuple[xr.Dataset, xr.Dataset, NDArray[Any]]:
    """Return data on (lat, lon, month), all of size 4, weights that mix the grid, and the mix."""
    random = np.random.default_rng(6)
    values, matrix = random.random((4, 4, 4)), random.random((16, 16))
    row, col = (each.ravel() + 1 for each in np.indices((16, 16)))
    grid = ("rank", [4, 4])
    weights = xr.Dataset(
        {
            "row": ("n_s", row),
            "col": ("n_s", col),
            "S": ("n_s", matrix.ravel()),
            "src_grid_dims": grid,
            "dst_grid_dims": grid,
        }
    )
    data = xr.Dataset({"t": (tuple(coordinates), values)}, coords=coordinates)
    return data, weights, (matrix @ values.reshape(16, 4)).reshape(4, 4, 4)


NORTH, EAST = {"units": "degrees_north"}, {"units": "degrees_east"}
PLAIN: Any = np.arange(4.0)


@pytest.mark.parametrize(
    "coordinates",
    [
        {"lat": ("lat", PLAIN), "lon": ("lon", PLAIN), "month": ("month", PLAIN)},
        {"y": ("y", PLAIN), "x": ("x", PLAIN), "z": ("z", PLAIN)},
        {"a": ("a", PLAIN, NORTH), "b": ("b", PLAIN, EAST), "c": ("c", PLAIN)},
        {"a": ("a", PLAIN, {"axis": "Y"}), "b": ("b", PLAIN, {"axis": "X"}), "c": ("c", PLAIN)},
    ],
)
def test_the_grid_is_told_by_its_coordinates(coordinates: Any) -> None:
    data, weights, wanted = square(**coordinates)
    found = he.regrid(data, weights, target="reference")["t"]
    assert found.dims == tuple(coordinates)
    np.testing.assert_allclose(found, wanted)
    turned = data.transpose(*reversed(found.dims))
    same = he.regrid(turned, weights, target="reference")["t"]
    np.testing.assert_array_equal(same.transpose(*found.dims), found)


def test_a_grid_that_could_be_several_is_refused() -> None:
    data, weights, wanted = square(a=("a", PLAIN), b=("b", PLAIN), c=("c", PLAIN))
    with pytest.raises(he.FieldError) as caught:
        he.regrid(data, weights, target="reference")
    assert str(caught.value) == (
        "The grid of 4 x 4 cells could be (a, b) or (b, c) of variable 't' with the dimensions"
        " {'a': 4, 'b': 4, 'c': 4}. Say which with dims=['a', 'b']."
    )
    found = he.regrid(data, weights, dims=["a", "b"], target="reference")["t"]
    np.testing.assert_allclose(found, wanted)
