"""Matrices that are eliminated once, several right-hand sides, and pentadiagonal systems."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Event

BANDS: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}
FIVE = ("second_lower", "lower", "diagonal", "upper", "second_upper")
scipy: Any = import_module("scipy.linalg")


def columns(*, matrix: tuple[str, ...] = ("t", "z", "x"), dtype: str = "float64") -> xr.Dataset:
    """Return dominant matrices along `z` with some dimensions, and right-hand sides with all."""
    rng = np.random.default_rng(3)
    sizes = {"t": 3, "z": 9, "x": 4}
    shape = [sizes[dim] for dim in matrix]
    data: dict[str, Any] = {n: (matrix, rng.normal(size=shape).astype(dtype)) for n in "ac"}
    data["b"] = (matrix, (1 + abs(data["a"][1]) + abs(data["c"][1])).astype(dtype))
    for name in "de":
        data[name] = (tuple(sizes), rng.normal(size=tuple(sizes.values())).astype(dtype))
    return xr.Dataset(data, coords={"t": [1, 2, 3]})


@pytest.mark.parametrize("matrix", [("t", "z", "x"), ("z",), ("x", "z")])
@pytest.mark.parametrize("periodic", [False, True])
def test_factors_give_the_bits_of_a_solve(matrix: tuple[str, ...], *, periodic: bool) -> None:
    dataset = columns(matrix=matrix)
    dataset["d"][1, 3, 2] = np.nan
    direct = he.tridiagonal(dataset, **BANDS, rhs="d", periodic=periodic)
    for target in ("cpu", "reference"):
        factors = he.factor(dataset, **BANDS, periodic=periodic, target=target)
        assert factors["factor_reciprocal"].dims == matrix
        chunks = {"x": 3} if "x" in matrix else None
        result = he.solve(dataset, factors, rhs="d", target=target, chunks=chunks)
        for name in ("solution", "solution_status"):
            assert np.array_equal(result[name], direct[name], equal_nan=True)
        assert int(result["solution_status"].values.sum()) == 4


def test_several_right_hand_sides_and_stores(tmp_path: Path) -> None:
    dataset = columns(matrix=("z",))
    events: list[Event] = []
    he.factor(dataset, **BANDS, output=tmp_path / "factors.zarr")
    result = he.solve(
        dataset,
        tmp_path / "factors.zarr",
        rhs=["d", "e"],
        name="u",
        output=tmp_path / "out.zarr",
        chunks={"t": 2},
        on_event=events.append,
    )
    assert set(result.data_vars) == {"d_u", "d_u_status", "e_u", "e_u_status"}
    for name in "de":
        direct = he.tridiagonal(dataset, **BANDS, rhs=name)
        assert np.array_equal(result[f"{name}_u"], direct["solution"])
    assert [event.kind for event in events].count("pass-finished") == 2
    assert result["t"].equals(dataset["t"])
    assert result.attrs["history"].endswith("systems of 'd', 'e' along 'z', with factors")


def test_a_bad_matrix_is_reported_with_each_right_hand_side() -> None:
    dataset = columns()
    dataset["b"][1, 4, 2] = 0
    dataset["a"][0, 3, 1] = np.nan
    dataset["a"][:, 0] = np.nan
    factors = he.factor(dataset, **BANDS)
    assert factors["factor_status"].values.tolist() == [[0, 4, 0, 0], [0, 0, 3, 0], [0] * 4]
    result = he.solve(dataset, factors, rhs="d")
    direct = he.tridiagonal(dataset, **BANDS, rhs="d")
    assert np.array_equal(result["solution_status"], direct["solution_status"])


@pytest.mark.parametrize("pivoting", [False, True])
def test_pentadiagonal_systems_of_a_dataset(*, pivoting: bool) -> None:
    rng = np.random.default_rng(4)
    dims, shape = ("t", "z", "x"), (2, 11, 3)
    dataset = xr.Dataset({name: (dims, rng.normal(size=shape)) for name in "eacfd"})
    dataset["c"] = dataset["c"].isel(t=0, drop=True)
    dataset["b"] = sum(abs(dataset[name]) for name in "eacf") + 0.5
    if pivoting:
        dataset["b"] = dataset["b"].where(dataset["a"] > 0, 0.0)
    names: dict[str, Any] = dict(zip(FIVE, "eabcf", strict=True))
    options: dict[str, Any] = {**names, "rhs": "d", "dim": "z", "pivoting": pivoting}
    result = he.pentadiagonal(dataset, **options, residual=True, name="u")
    assert result["u"].dims == dims
    assert not result["u_status"].values.any()
    assert float(result["u_residual"].max()) < 1e-15
    for t, x in np.ndindex(2, 3):
        one = dataset.isel(t=t, x=x)
        stored = np.zeros((5, 11))
        for above, name in zip(range(-2, 3), "eabcf", strict=True):
            for i in range(max(0, -above), min(11, 11 - above)):
                stored[2 - above, i + above] = one[name][i]
        exact = scipy.solve_banded((2, 2), stored, one["d"].values)
        assert np.abs(result["u"].values[t, :, x] - exact).max() < 1e-12 * np.abs(exact).max()
    moved = dataset.transpose("x", "z", "t")
    again = he.pentadiagonal(moved, **options, target="reference", chunks={"x": 2}, name="u")
    assert np.array_equal(again["u"].transpose(*dims), result["u"])


def test_a_bad_pentadiagonal_system_spoils_no_other() -> None:
    shape = (9, 4)
    bands = {name: (("z", "x"), np.full(shape, 1.0)) for name in "eacfd"}
    dataset = xr.Dataset({**bands, "b": (("z", "x"), np.full(shape, 9.0))})
    dataset["b"][3, 1] = 0
    dataset["d"][8, 2] = np.inf
    for name in "eabcf":
        dataset[name][:, 3] = 0
    dataset["e"][0] = dataset["f"][-1] = np.nan
    names: dict[str, Any] = dict(zip(FIVE, "eabcf", strict=True))
    found = he.pentadiagonal(dataset, **names, rhs="d", dim="z")
    assert found["solution_status"].values.tolist() == [0, 3, 4, 9]
    found = he.pentadiagonal(dataset, **names, rhs="d", dim="z", pivoting=True)
    assert found["solution_status"].values.tolist() == [0, 0, 4, 8]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "factors": (
        {"factors": xr.Dataset()},
        "The factors must be a result of 'factor', got a dataset without 'factor_reciprocal' or"
        " without its attributes. Make them with he.factor(...).",
    ),
    "size": (
        {"rhs": "short"},
        "Variable 'short' (rhs) must have 4 points along 'x', as the factors do, got no such"
        " dimension.",
    ),
    "dtype": (
        {"rhs": "single"},
        "Variable 'single' (rhs) must be float64, as the factors are, got float32. Convert it with"
        " astype.",
    ),
    "none": ({"rhs": []}, "Argument 'rhs' must name at least one variable, got none."),
    "name": (
        {"name": "t"},
        "The result cannot be named 't': a dimension or coordinate has it already. Give another"
        " 'name'.",
    ),
    "chunks": (
        {"chunks": {"z": 2}},
        "Dimension 'z' is that of the rows, and a block has all of them, but 'chunks' gives it 2 of"
        " 9. Leave it out; a store that is chunked along it will do.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_messages(case: str) -> None:
    changed, message = BAD[case]
    dataset = columns()
    untyped: Any = dataset["d"]
    factors = he.factor(dataset, **BANDS)
    dataset = dataset.assign(short=dataset["d"].isel(x=0, drop=True), single=untyped.astype("f4"))
    options: dict[str, Any] = {"factors": factors, "rhs": "d", **changed}
    with pytest.raises(he.RequestError) as caught:
        he.solve(dataset, **options)
    assert str(caught.value) == message


def test_messages_of_a_factorisation() -> None:
    dataset = columns(matrix=("z",)).assign(wide=columns()["a"])
    with pytest.raises(he.FieldError) as caught:
        he.factor(dataset, lower="wide", diagonal="b", upper="c", dim="z")
    assert str(caught.value) == (
        "Variable 'wide' (lower) has the dimension 't', which the diagonal 'b' does not have."
        " It has 'z'."
    )
    with pytest.raises(he.ArgumentError) as named:
        he.factor(dataset.rename(x="factor_upper"), **BANDS)
    assert str(named.value) == (
        "The dataset has a coordinate or dimension 'factor_upper', as factors have a variable."
        " Give it another name."
    )
