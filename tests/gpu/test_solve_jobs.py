"""Solves of datasets on real devices: any blocks, pivoting, factors, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("machine")]

NAMES: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}


def columns(dtype: str, **sizes: int) -> xr.Dataset:
    """Return dominant systems along `z`."""
    rng = np.random.default_rng(3)
    dims, shape = tuple(sizes), tuple(sizes.values())
    data = {name: (dims, rng.normal(size=shape).astype(dtype)) for name in "acd"}
    dominant = 1 + abs(data["a"][1]) + abs(data["c"][1])
    return xr.Dataset({**data, "b": (dims, dominant.astype(dtype))})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("order", [("z", "x"), ("x", "z")])
def test_rows_spread_over_blocks(dtype: str, order: tuple[str, ...], *, periodic: bool) -> None:
    dataset = columns(dtype, z=5000, x=6).transpose(*order)
    options: dict[str, Any] = {**NAMES, "rhs": "d", "periodic": periodic, "residual": True}
    whole = he.tridiagonal(dataset, **options, target="cuda")
    for chunks in ({"z": 1024}, {"z": 3072, "x": 4}):
        spread = he.tridiagonal(dataset, **options, target="cuda", chunks=chunks)
        for name in whole.data_vars:
            assert np.array_equal(spread[name], whole[name])
    assert float(whole["solution_residual"].max()) < (1e-14 if dtype == "float64" else 1e-5)
    assert not whole["solution_status"].values.any()


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("rows", [60, 700])
def test_pivoting_has_the_bits_of_the_reference(rows: int, *, periodic: bool) -> None:
    dataset = columns("float64", z=rows, x=40)
    dataset["b"] = dataset["b"].where(dataset["a"] > 0, 0.0) * 0.1
    dataset["a"][20, 5] = dataset["b"][20, 5] = dataset["c"][20, 5] = 0
    options: dict[str, Any] = {**NAMES, "rhs": "d", "periodic": periodic, "pivoting": True}
    found = he.tridiagonal(dataset, **options, target="cuda")
    judge = he.tridiagonal(dataset, **options, target="reference")
    assert found["solution_status"].values.tolist() == [8 * (x == 5) for x in range(40)]
    fine = found["solution_status"] == 0
    assert np.array_equal(found["solution"][:, fine], judge["solution"][:, fine])


@pytest.mark.parametrize("periodic", [False, True])
def test_factors_and_pentadiagonal_systems(*, periodic: bool) -> None:
    dataset = columns("float64", z=50, x=30)
    factors = he.factor(dataset, **NAMES, periodic=periodic, target="cuda")
    found = he.solve(dataset, factors, rhs="d", target="cuda")
    judge = he.tridiagonal(dataset, **NAMES, rhs="d", periodic=periodic, target="reference")
    assert np.array_equal(found["solution"], judge["solution"])
    five: dict[str, Any] = {**NAMES, "second_lower": "c", "second_upper": "a", "rhs": "d"}
    for pivoting in (False, True):
        options: dict[str, Any] = {**five, "pivoting": pivoting}
        there = he.pentadiagonal(dataset, **options, target="cuda")
        here = he.pentadiagonal(dataset, **options, target="reference")
        assert np.array_equal(there["solution"], here["solution"])


@pytest.mark.parametrize("nodes", [30, 200])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cells_of_one_tree_have_the_bits_of_the_reference(nodes: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    cells = 3000
    parents = np.arange(-1, nodes - 1)
    parents[5::7] = rng.integers(0, 4, len(parents[5::7]))
    arrays = rng.uniform(1, 2, (3, cells * nodes)).astype(dtype)
    arrays[0] += nodes
    arrays[0, [nodes + 9, 7 * nodes]] = np.inf, 0
    names = ("diagonal", "upper", "rhs")
    dataset = xr.Dataset(
        {
            "size": ("cell", np.full(cells, nodes), {"sample_dimension": "node"}),
            "parent": ("node", np.tile(parents, cells)),
            **{name: ("node", array) for name, array in zip(names, arrays, strict=True)},
        }
    )
    options: dict[str, Any] = {**{name: name for name in names}, "parent": "parent"}
    found, judge = (
        he.tree(dataset, **options, row_size="size", target=target, chunks={"cell": cells})
        for target in ("cuda", "reference")
    )
    assert np.array_equal(found["solution"], judge["solution"], equal_nan=True)
    assert np.array_equal(found["solution_status"], judge["solution_status"])


@pytest.mark.parametrize("rows", [40, 200, 5000])
@pytest.mark.parametrize("dims", [("z", "x"), ("x", "z")])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("one", [False, True])
def test_arrays_of_cupy_stay_on_the_device(
    rows: int, dims: tuple[str, str], dtype: str, *, one: bool
) -> None:
    """With the bits of arrays of the host, for all kinds of systems."""
    cupy: Any = pytest.importorskip("cupy")
    rng = np.random.default_rng(6)
    sizes = {"z": rows, "x": 37}
    data: dict[str, Any] = {}
    for name in "abcdef":
        along = ("z",) if one and name != "d" else dims
        values = rng.uniform(-1, 1, [sizes[dim] for dim in along]) + 5.0 * (name == "b")
        data[name] = (along, values.astype(dtype))
    host = xr.Dataset(data)
    there = xr.Dataset({name: (along, cupy.asarray(v)) for name, (along, v) in data.items()})
    five: dict[str, Any] = {**NAMES, "second_lower": "e", "second_upper": "f", "rhs": "d"}
    systems: dict[str, Any] = {**NAMES, "rhs": "d"}
    made: list[tuple[Any, dict[str, Any]]] = [
        (he.tridiagonal, systems),
        (he.tridiagonal, {**systems, "residual": True}),
        (he.tridiagonal, {**systems, "periodic": True}),
        (he.tridiagonal, {**systems, "pivoting": True}),
        (he.pentadiagonal, five),
        (he.pentadiagonal, {**five, "pivoting": True}),
    ]
    for solve, how in made:
        found, judge = (solve(dataset, **how, target="cuda") for dataset in (there, host))
        for name in judge.data_vars:
            values = found[name].data
            assert isinstance(values, cupy.ndarray), name
            np.testing.assert_array_equal(values.get(), judge[name].values)
    for periodic in (False, True):
        factors = he.factor(there, **NAMES, periodic=periodic, target="cuda")
        found = he.solve(there, factors, rhs="d", target="cuda")["solution"].data
        of_host = he.factor(host, **NAMES, periodic=periodic, target="cuda")
        judge = he.solve(host, of_host, rhs="d", target="cuda")["solution"].values
        np.testing.assert_array_equal(found.get(), judge)
