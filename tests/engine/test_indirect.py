"""Gather and scatter on datasets, against xarray's own indexing and plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from counting_plans import CountingPlans
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.errors import ArgumentError, FieldError

TARGETS = ("reference", "cpu")
# xarray's own annotations are partial.
same = cast("Any", xr).testing.assert_equal


@pytest.fixture
def dataset() -> xr.Dataset:
    rng = np.random.default_rng(2)
    index = rng.integers(0, 30, 50)
    return xr.Dataset(
        {
            "t": (("time", "cell", "level"), rng.normal(size=(4, 30, 3)), {"units": "K"}),
            "s": (("cell", "time"), rng.normal(size=(30, 4)).astype("f4")),
            "flag": (("cell",), rng.integers(0, 2, 30).astype(bool)),
            "index": (("point",), index),
            "each": (("time", "point"), rng.integers(0, 30, (4, 50))),
            "grid": (("y", "x"), rng.integers(0, 30, (5, 7)).astype("i2")),
            "back": (("cell",), rng.permutation(40)[:30]),
            "bin": (("cell",), rng.integers(0, 6, 30)),
        },
        coords={
            "time": np.array("2026-01-01", "M8[ns]") + np.arange(4),
            "lon": (("cell",), np.linspace(0, 360, 30)),
            "depth": (("level",), [1.0, 2.0, 3.0]),
            "station": (("point",), np.arange(50) + 100),
        },
        attrs={"title": "test", "history": "made"},
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["t", "s", "flag"])
@pytest.mark.parametrize("index", ["index", "grid", "each"])
def test_gather_is_vectorised_indexing(
    dataset: xr.Dataset, source: str, index: str, target: str
) -> None:
    found = he.gather(dataset, source=source, index=index, dim="cell", target=target)
    array: Any = dataset[source]
    wanted = array.isel(cell=dataset[index])
    if "time" in dataset[index].dims:
        assert dict(found.gathered.sizes) == dict(wanted.sizes)
        wanted = wanted.transpose(*found.gathered.dims)
    same(found.gathered.variable, wanted.variable)
    assert found.gathered.dtype == dataset[source].dtype
    assert found.gathered.attrs == dataset[source].attrs


def test_gather_keeps_what_fits(dataset: xr.Dataset) -> None:
    found = he.gather(dataset, source="t", index="index", dim="cell", name="column", target="cpu")
    assert found.column.dims == ("time", "point", "level")
    assert set(found.coords) == {"time", "lon", "depth", "station"}
    np.testing.assert_array_equal(found.lon, dataset.lon.values[dataset["index"].values])
    assert found.attrs["title"] == "test"
    lines = found.attrs["history"].split("\n")
    assert lines[0].endswith(": gather of 't' by 'index'")
    assert lines[1] == "made"
    pairs = he.gather(dataset, source="t", index="each", dim="cell", target="cpu")
    assert pairs.gathered.dims == ("time", "point", "level")
    assert set(pairs.coords) == {"time", "depth", "station"}


def test_gather_along_the_dimension_of_the_index() -> None:
    data = xr.Dataset(
        {"v": (("x",), [10.0, 11.0, 12.0]), "i": (("x",), [2, 2, 0])}, coords={"x": [5, 6, 7]}
    )
    found = he.gather(data, source="v", index="i", dim="x", target="cpu")
    assert found.gathered.values.tolist() == [12.0, 12.0, 10.0]
    assert found.x.values.tolist() == [7, 7, 5]


@pytest.mark.parametrize("target", TARGETS)
def test_indices_out_of_range(dataset: xr.Dataset, target: str) -> None:
    dataset["index"][3] = 30
    dataset["index"][5] = -2

    def taken(rule: str, **options: Any) -> Any:
        found = he.gather(
            dataset,
            source="s",
            index="index",
            dim="cell",
            out_of_range=rule,
            target=target,
            **options,
        )
        return found.gathered.values

    s, index = dataset.s.values, dataset["index"].values
    np.testing.assert_array_equal(taken("wrap"), s[index % 30])
    np.testing.assert_array_equal(taken("clip"), s[index.clip(0, 29)])
    masked = s[index % 30].copy()
    masked[[3, 5]] = np.nan
    np.testing.assert_array_equal(taken("mask"), masked)
    masked[3], masked[5] = -1.5, s[28]
    np.testing.assert_array_equal(taken("mask", negative="from_end", fill=-1.5), masked)
    with pytest.raises(ArgumentError, match="Index 30 at place 3 of 'index' is out of range"):
        taken("error")


def test_shared_dimensions_keep_their_marks(dataset: xr.Dataset) -> None:
    dataset["each"][2, 7] = 99
    found = he.gather(
        dataset, source="t", index="each", dim="cell", out_of_range="mask", target="cpu"
    )
    assert np.isnan(found.gathered.values[2, 7]).all()
    assert int(np.isnan(found.gathered.values).sum()) == 3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["t", "s"])
def test_scatter_is_the_inverse_of_gather(dataset: xr.Dataset, source: str, target: str) -> None:
    found = he.scatter(dataset, source=source, index="back", dim="wide", size=40, target=target)
    assert found.scattered.dims == tuple(
        "wide" if dim == "cell" else dim for dim in dataset[source].dims
    )
    dataset["scattered"] = found.scattered.variable
    again = he.gather(dataset, source="scattered", index="back", dim="wide", target=target)
    same(again.gathered.variable, dataset[source].variable)
    empty = np.setdiff1d(np.arange(40), dataset.back.values)
    assert np.isnan(found.scattered.isel(wide=empty)).all()


def combined(rule: str, members: NDArray[Any]) -> NDArray[Any]:
    match rule:
        case "last":
            return members[:, -1]
        case "sum":
            return members.sum(axis=1)
        case "min":
            return members.min(axis=1)
        case _:
            return members.max(axis=1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule", ["last", "sum", "min", "max"])
def test_duplicates_of_a_scatter(dataset: xr.Dataset, rule: str, target: str) -> None:
    found = he.scatter(
        dataset, source="t", index="bin", dim="bin", size=7, duplicates=rule, target=target
    )
    assert found.scattered.dims == ("time", "bin", "level")
    bins = dataset["bin"].values
    for number in range(7):
        values = found.scattered.values[:, number]
        members = dataset["t"].values[:, bins == number]
        wanted = combined(rule, members) if members.shape[1] else np.full((4, 3), np.nan)
        np.testing.assert_allclose(values, wanted, rtol=1e-13, atol=1e-14)
    with pytest.raises(ArgumentError, match="two elements would go to one place"):
        he.scatter(dataset, source="t", index="bin", dim="bin", size=7, target=target)


def test_scatter_of_a_plane_fills_one_dimension(dataset: xr.Dataset) -> None:
    data = xr.Dataset(
        {"v": (("k", "y", "x"), np.arange(12).reshape(2, 2, 3)), "i": (("x", "y"), [[0, 9]] * 3)}
    )
    found = he.scatter(
        data, source="v", index="i", dim="c", size=10, duplicates="sum", target="cpu"
    )
    assert found.scattered.dims == ("k", "c")
    assert found.scattered.values[:, [0, 9]].tolist() == [[3, 12], [21, 30]]
    assert found.scattered.values[:, 1:9].max() == 0
    filled = he.scatter(
        data, source="v", index="i", dim="c", size=10, duplicates="last", fill=-7, target="cpu"
    )
    assert filled.scattered.values[0].tolist() == [2, *[-7] * 8, 5]


def test_stores_are_read(dataset: xr.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "data.zarr"
    cast("Any", dataset).to_zarr(path, zarr_format=3, consolidated=False)
    from_disk = he.gather(path, source="t", index="index", dim="cell", target="cpu")
    here = he.gather(dataset, source="t", index="index", dim="cell", target="cpu")
    same(from_disk, here)
    with pytest.raises(FieldError):
        he.gather(path, source="t", index="indx", dim="cell")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "T"}, "The dataset has no variable 'T'."),
        (
            {"dim": "point"},
            "Variable 't' has no dimension 'point'. There are 'cell', 'level', 'time'.",
        ),
        ({"index": "lon"}, "The indices 'lon' must be whole numbers, got 'float64'. Convert"),
        ({"out_of_range": "nan"}, "Argument 'out_of_range' must be one of 'error', 'clip', "),
        ({"negative": "end"}, "Argument 'negative' must be one of 'out_of_range', 'from_end', "),
        (
            {"source": "flag", "fill": 0.5},
            "Argument 'fill' must be a value of type 'bool', got 0.5.",
        ),
    ],
)
def test_wrong_arguments_of_gather(
    dataset: xr.Dataset, options: dict[str, Any], message: str
) -> None:
    wanted: dict[str, Any] = {"source": "t", "index": "index", "dim": "cell"} | options
    with pytest.raises(he.RequestError) as caught:
        he.gather(dataset, target="cpu", **wanted)
    assert str(caught.value).startswith(message)


def test_wrong_arguments_of_scatter(dataset: xr.Dataset) -> None:
    def message(**options: Any) -> str:
        wanted: dict[str, Any] = {"source": "t", "index": "back", "dim": "wide", "size": 40}
        wanted |= options
        with pytest.raises(he.RequestError) as caught:
            he.scatter(dataset, target="cpu", **wanted)
        return str(caught.value)

    assert message(size=-1) == (
        "Argument 'size' must be a whole number from 0, got -1. Write for example size=10."
    )
    assert message(index="index") == (
        "Variable 't' has no dimension 'point'. There are 'cell', 'level', 'time'."
    )
    assert message(dim="level") == (
        "The result 'scattered' would have the dimension 'level' twice."
        " Rename a dimension of the index."
    )
    assert " is out of range: expected numbers from 0 to 4. " in message(size=5)


def test_indices_are_analysed_once(dataset: xr.Dataset) -> None:
    plans = CountingPlans()
    for _ in range(2):
        he.gather(dataset, source="t", index="index", dim="cell", target="cpu", plans=plans)
        he.scatter(dataset, source="t", index="back", dim="w", size=40, target="cpu", plans=plans)
    assert plans.made == 2
    dataset["index"][0] = (dataset["index"][0] + 1) % 30
    found = he.gather(dataset, source="t", index="index", dim="cell", target="cpu", plans=plans)
    assert plans.made == 3
    same(found["gathered"].variable, dataset["t"].isel(cell=dataset["index"]).variable)


@pytest.mark.parametrize("target", TARGETS)
def test_dimensions_of_the_source_order_what_is_scattered(target: str) -> None:
    """The last of the elements 0 1 2 / 3 4 is 4, and in the order of the index's own it is 2."""
    source = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "x"))
    index = xr.DataArray([[0, 0], [0, 0], [0, 1]], dims=("x", "y"))
    data = xr.Dataset({"source": source, "index": index})
    for chunks in (None, {"x": 2, "y": 1}):
        result = he.scatter(
            data,
            source="source",
            index="index",
            dim="place",
            size=2,
            duplicates="last",
            target=target,
            chunks=chunks,
        )
        assert result["scattered"].values.tolist() == [4.0, 5.0]
