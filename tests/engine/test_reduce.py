"""`reduce` against NumPy, `math.fsum` and fractions: any blocks and workers, the same bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.errors import HaloclineError

#: Parts of xarray without types of their own.
XARRAY, TESTING = cast("Any", xr), cast("Any", xr.testing)
KINDS = ("sum", "mean", "norm", "min", "max", "count", "histogram")
EXPRESSIONS = ("t", "n", "2.0 * t + lat", "t * area", "flag", "n * n")


def dataset(seed: int = 0) -> Any:
    """Return a dataset with land, labels, weights and coordinates of three dimensions."""
    rng = np.random.default_rng(seed)
    shape = (3, 4, 5)
    t = 280.0 + 10.0 * rng.standard_normal(shape)
    t[rng.random(shape) < 0.1] = np.nan
    basin = rng.integers(0, 3, shape[1:]).astype(np.float64)
    basin[0, 0] = np.nan
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), t, {"units": "K"}),
            "n": (("time", "lat", "lon"), rng.integers(-9, 9, shape)),
            "flag": (("lat", "lon"), rng.random(shape[1:]) < 0.5),
            "area": (("lat",), np.linspace(0.5, 1.0, 4)),
            "basin": (("lat", "lon"), basin),
        },
        coords={"lat": [-30.0, -10.0, 10.0, 30.0], "lon": np.arange(5) * 72},
    )


def evaluated(data: Any, text: str) -> Any:
    """Return what an expression of these tests means."""
    t, n, lat = (data[name].astype("float64") for name in ("t", "n", "lat"))
    known = {"2.0 * t + lat": 2.0 * t + lat, "t * area": t * data["area"], "n * n": n * n}
    return known[text] if text in known else data[text]


def asked(seed: int) -> dict[str, Any]:
    """Return a drawn diagnostic."""
    draw = Random(seed)
    kind = draw.choice(KINDS)
    found: dict[str, Any] = {kind: draw.choice(EXPRESSIONS)}
    if kind == "histogram":
        found["bins"] = sorted(draw.sample(range(-20, 330), draw.randrange(2, 8)))
    if kind in ("sum", "mean", "histogram") and draw.random() < 0.4:
        found["weights"] = draw.choice(("area", "lat", "area * area"))
    if draw.random() < 0.5:
        own = ("lat", "lon") if found[kind] == "flag" else ("time", "lat", "lon")
        found["dims"] = draw.sample(own, draw.randrange(1, len(own) + 1))
    if draw.random() < 0.3:
        found["by"] = "basin"
    if draw.random() < 0.3:
        found["skipna"] = False
    return found


def judged(data: Any, given: Mapping[str, Any]) -> dict[tuple[int, ...], Any]:
    """Return each value of the result, from the cells of its group one by one."""
    kind = next(key for key in KINDS if key in given)
    parts: list[Any] = [evaluated(data, given[kind]).rename("value")]
    weights = given.get("weights")
    if weights is not None:
        area = data["area"]
        parts.append((area * area if weights == "area * area" else data[weights]).rename("w"))
    if "by" in given:
        parts.append(data["basin"].rename("label"))
    whole = xr.broadcast(*parts)
    dims = [str(dim) for dim in whole[0].dims]
    order = [dim for dim in ("time", "lat", "lon") if dim in dims]
    arrays = [part.transpose(*order).values for part in whole]
    reduced = [dim for dim in order if dim in given.get("dims", order)]
    groups: dict[tuple[int, ...], list[tuple[Any, float]]] = {}
    shape = tuple(arrays[0].shape[order.index(dim)] for dim in order if dim not in reduced)
    edges = np.array(given.get("bins", []), float)
    names = [range(3)] if "by" in given else []
    names += [range(len(edges) - 1)] if "bins" in given else []
    for at in np.ndindex(*shape, *(len(one) for one in names)):
        groups[at] = []
    for at in np.ndindex(arrays[0].shape):
        group = tuple(at[order.index(dim)] for dim in order if dim not in reduced)
        value = arrays[0][at]
        if "by" in given:
            label = arrays[-1][at]
            if math.isnan(label):
                continue
            group += (int(label),)
        if kind == "histogram":
            inside = [low <= value < high for low, high in itertools.pairwise(edges)]
            if value == edges[-1]:
                inside[-1] = True
            if not any(inside):
                continue
            group += (inside.index(True),)
        groups[group].append((value, float(arrays[1][at]) if weights is not None else 1.0))
    return {at: reduced_value(kind, cells, given) for at, cells in groups.items()}


def reduced_value(kind: str, cells: list[tuple[Any, float]], given: Mapping[str, Any]) -> Any:
    weighted = "weights" in given
    present = [(value, weight) for value, weight in cells if value == value]
    if kind == "count":
        return len(present)
    if kind == "histogram":
        return math.fsum(weight for _, weight in cells) if weighted else len(cells)
    if len(present) < len(cells) and not given.get("skipna", True):
        return math.nan
    if kind in ("min", "max"):
        best = min if kind == "min" else max
        return best((value for value, _ in present), default=None)
    if kind == "norm":
        return math.sqrt(math.fsum(float(value) * float(value) for value, _ in present))
    total = math.fsum(float(value) * weight for value, weight in present)
    if kind == "sum":
        return total
    by = math.fsum(weight for _, weight in present) if weighted else len(present)
    return total / by if by else math.nan


@given(st.integers(0, 2**48))
@settings(deadline=None, max_examples=60)
def test_a_drawn_diagnostic_is_what_its_cells_give(seed: int) -> None:
    data, given_ = dataset(seed % 5), asked(seed)
    draw = Random(seed)
    sizes = {"time": 3, "lat": 4, "lon": 5}
    result = he.reduce(data, {"made": given_}, target="cpu")["made"]
    used = next(iter(given_.values()))
    names = [dim for dim in sizes if used != "flag" or dim != "time" or "by" in given_]
    chunks = {d: draw.randrange(1, sizes[d] + 1) for d in names if used != "flag" or d != "time"}
    again = he.reduce(
        data, {"made": given_}, target=draw.choice(("cpu", "reference")), chunks=chunks
    )
    np.testing.assert_array_equal(again["made"].values, result.values)
    expected = judged(data, given_)
    assert result.size == len(expected)
    for at, value in expected.items():
        if value is None:
            kind = result.dtype.kind
            assert np.isnan(result.values[at]) if kind == "f" else result.values[at] == 0
        else:
            np.testing.assert_array_equal(result.values[at], value)


def test_several_diagnostics_have_names_coordinates_and_methods() -> None:
    data = dataset()
    result = he.reduce(
        data,
        {
            "heat": {"sum": "t", "weights": "area"},
            "zonal": {"mean": "t", "dims": ["lon"]},
            "basins": {"mean": "t", "by": "basin", "dims": ["lat", "lon"]},
            "hottest": {"max": "t", "dims": ["lat", "lon"]},
            "pdf": {"histogram": "t", "bins": [250.0, 280.0, 310.0]},
        },
    )
    t = data["t"]
    weighted = t.weighted(data["area"])
    np.testing.assert_allclose(result["heat"], weighted.sum())
    np.testing.assert_allclose(result["zonal"], t.mean("lon"))
    by = t.groupby(data["basin"]).mean().transpose("time", "basin")
    np.testing.assert_allclose(result["basins"].values, by.values)
    assert result["basins"].dims == ("time", "basin")
    assert result["basin"].values.tolist() == [0.0, 1.0, 2.0]
    best = t.argmax(["lat", "lon"])
    np.testing.assert_array_equal(result["hottest_lat"], data["lat"][best["lat"]])
    np.testing.assert_array_equal(result["hottest_lon"], data["lon"][best["lon"]])
    assert result["hottest"].attrs["ancillary_variables"] == "hottest_lat hottest_lon"
    assert result["pdf_bin"].values.tolist() == [265.0, 295.0]
    assert result["pdf_bin_low"].values.tolist() == [250.0, 280.0]
    assert result["zonal"].attrs["cell_methods"] == "lon: mean"
    assert result["zonal"].attrs["units"] == "K"
    assert result["heat"].attrs["cell_methods"] == "time: lat: lon: sum (comment: weighted by area)"
    assert result["hottest"].attrs["cell_methods"] == "lat: lon: maximum"
    assert "reductions 'heat', 'zonal'" in result.attrs["history"]


def test_a_stored_result_is_the_one_in_memory(tmp_path: Path) -> None:
    data = dataset()
    given_ = {
        "zonal": {"mean": "t", "dims": ["lon"]},
        "hottest": {"max": "t", "dims": ["lat", "lon"]},
        "pdf": {"histogram": "t", "bins": [250.0, 280.0, 310.0]},
    }
    data.chunk({"time": 1, "lat": 2}).to_zarr(
        tmp_path / "in.zarr", zarr_format=3, consolidated=False
    )
    here = he.reduce(data, given_)
    stored = he.reduce(tmp_path / "in.zarr", given_, output=tmp_path / "out.zarr")
    for one in (stored, XARRAY.open_zarr(tmp_path / "out.zarr")):
        TESTING.assert_equal(cast("Any", one).load(), here)


def test_workers_change_nothing() -> None:
    data = dataset()
    given_ = {
        "heat": {"sum": "t * area"},
        "hottest": {"max": "t"},
        "n": {"sum": "n", "by": "basin"},
    }
    here = he.reduce(data, given_)
    there = he.reduce(data, given_, cluster=2, chunks={"lat": 1, "time": 2})
    TESTING.assert_equal(here, there)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float32"])
def test_sums_of_whole_numbers_and_of_float32_are_exact(dtype: str) -> None:
    values = np.random.default_rng(1).integers(0, 200, 1000).astype(dtype)
    values = values + np.asarray(2**40, dtype) if dtype == "uint64" else values
    result = he.reduce(
        xr.Dataset({"v": ("x", values)}), {"total": {"sum": "v"}, "most": {"max": "v"}}
    )
    assert result["total"].item() == sum(values.tolist())
    assert result["total"].dtype == ("float64" if dtype == "float32" else "int64")
    assert result["most"].dtype == dtype


def test_an_empty_dimension_has_a_sum_of_zero_and_no_mean() -> None:
    data = xr.Dataset({"v": (("y", "x"), np.empty((2, 0)))})
    result = he.reduce(
        data,
        {
            "total": {"sum": "v"},
            "rows": {"mean": "v", "dims": ["x"]},
            "most": {"max": "v"},
            "held": {"count": "v"},
        },
    )
    assert result["total"].item() == 0.0
    assert np.isnan(result["rows"].values).tolist() == [True, True]
    assert np.isnan(result["most"].item())
    assert result["most_x"].item() == -1
    assert result["held"].item() == 0


def test_an_expression_is_a_variable_if_it_is_called_so() -> None:
    data = xr.Dataset({"2 t": ("x", [1.0, 2.0])})
    assert he.reduce(data, {"total": {"sum": "2 t"}})["total"].item() == 3.0


def refusal(diagnostics: Any, **more: Any) -> str:
    with pytest.raises(HaloclineError) as caught:
        he.reduce(dataset(), diagnostics, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({}, "Argument 'diagnostics' must have at least one diagnostic, got none."),
        ({"a": {"sum": "t", "mean": "t"}}, "got 'sum' and 'mean'."),
        ({"a": {}}, "must have one of 'sum', 'mean', 'norm', 'min', 'max', 'count', 'histogram',"),
        ({"a": {"sum": "t", "weight": "area"}}, "has no key 'weight'. Did you mean 'weights'?"),
        ({"a": {"sum": 3}}, "['sum']' must be an expression of variables, got the int 3."),
        ({"a": {"max": "t", "weights": "area"}}, "has 'weights', but a max has none."),
        ({"a": {"histogram": "t"}}, "must have 'bins'."),
        ({"a": {"sum": "t", "bins": [0, 1]}}, "has 'bins', but no histogram."),
        ({"a": {"histogram": "t", "bins": 3}}, "must be a list of edges, got 'int'."),
        ({"a": {"histogram": "t", "bins": [1, 0]}}, "two finite edges, each above the one before."),
        ({"a": {"sum": "t", "dims": ["depth"]}}, "must name dimensions of 't', got 'depth'."),
        ({"a": {"sum": "t", "by": "basins"}}, "The dataset has no variable 'basins'."),
        ({"a": {"sum": "t", "skipna": 1}}, "['skipna']' must be True or False, got the int 1."),
        ({"lat": {"mean": "t", "dims": ["lon"]}}, "a dimension or coordinate has it already."),
        ({"a": {"max": "t"}, "a_lat": {"max": "t"}}, "would be named 'a_lat'."),
    ],
)
def test_a_diagnostic_that_cannot_be_is_refused(given_: Any, message: str) -> None:
    assert message in refusal(given_)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t * rho", "line 1, column 5: The dataset has no variable 'rho'.\nt * rho\n    ^"),
        ("t[1, 0, 0]", "line 1, column 1: An expression has no offsets"),
        ("t +", "line 1, column 4:"),
        ("t; n", "This is not an expression of variables."),
        ("t * (n", "The text is not valid Python syntax"),
        ("3.0", "The expression '3.0' names no variable."),
        ("open(t)", "line 1, column 1:"),
        ("t.values", "line 1, column 1:"),
        ("[t for t in n]", "line 1, column 1:"),
        ("flag + flag", "line 1, column"),
    ],
)
def test_a_wrong_expression_is_shown_with_its_place(text: str, message: str) -> None:
    assert message in refusal({"a": {"sum": text}})


def test_other_arguments_are_refused() -> None:
    assert "must name dimensions that are reduced or kept, got 'x'." in refusal(
        {"a": {"sum": "t"}}, chunks={"x": 1}
    )
    assert "must be 'auto', 'cpu' or 'reference' for reductions, got 'cuda'." in refusal(
        {"a": {"sum": "t"}}, target="cuda"
    )


def test_a_sum_beyond_its_type_is_refused() -> None:
    data = xr.Dataset({"v": ("x", np.full(3, 2**62))})
    with pytest.raises(HaloclineError, match=r"The sum 'a' is 1.38351e\+19, which has no place"):
        he.reduce(data, {"a": {"sum": "v"}})
    assert he.reduce(data, {"a": {"sum": "1.0 * v"}})["a"].item() == 3.0 * 2**62


def test_a_value_is_summed_as_fsum_does_whatever_the_order() -> None:
    values: NDArray[Any] = np.array([1e100, 1.0, -1e100, 1e-30] * 50)
    data = xr.Dataset({"v": ("x", values)})
    for chunk in (1, 7, 200):
        result = he.reduce(data, {"total": {"sum": "v"}}, chunks={"x": chunk})
        assert result["total"].item() == math.fsum(values)
