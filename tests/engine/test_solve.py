"""Solves on datasets: any order of dimensions, any blocks, any pool; the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from emulation.machine import ABSENT, EmulatedMachine, compiler
from forests import random_parents, sparse_solution
from hypothesis import given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.solves import request, tree
from halocline_engine.distribute.solves.tree import pieces_of
from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.tree.cuda import CudaTree

NAMES = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d"}


def columns(dtype: str = "float64", **sizes: int) -> xr.Dataset:
    """Return dominant systems along `z`, with a coordinate and attributes."""
    rng = np.random.default_rng(3)
    dims, shape = tuple(sizes), tuple(sizes.values())
    data = {name: (dims, rng.normal(size=shape).astype(dtype)) for name in "acd"}
    dominant = 1 + abs(data["a"][1]) + abs(data["c"][1])
    return xr.Dataset(
        {**data, "b": (dims, dominant.astype(dtype))},
        coords={dims[0]: np.arange(shape[0]) * 2.0},
        attrs={"title": "columns", "history": "made by hand"},
    )


def solved(dataset: Any, **options: Any) -> xr.Dataset:
    arguments: dict[str, Any] = {**NAMES, "dim": "z", **options}
    return he.tridiagonal(dataset, **arguments)


def test_the_result_solves_the_systems() -> None:
    dataset = columns(t=2, z=9, x=5)
    kept = dataset.copy(deep=True)
    result = solved(dataset)
    x = result["solution"]
    assert x.dims == ("t", "z", "x")
    before = x.shift(z=1, fill_value=0.0) * dataset["a"]
    behind = x.shift(z=-1, fill_value=0.0) * dataset["c"]
    missing = before + dataset["b"] * x + behind - dataset["d"]
    assert float(abs(missing).max()) < 1e-14
    assert result["solution_status"].dims == ("t", "x")
    assert not result["solution_status"].values.any()
    assert result["t"].equals(dataset["t"])
    assert result.attrs["title"] == "columns"
    newest, oldest = result.attrs["history"].splitlines()
    assert newest.endswith(": tridiagonal systems of 'd' along 'z'")
    assert oldest == "made by hand"
    assert dataset.identical(kept)


@pytest.mark.parametrize("order", [("t", "z", "x"), ("z", "x", "t"), ("x", "t", "z")])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_any_order_and_any_blocks(order: tuple[str, ...], target: str, tmp_path: Path) -> None:
    dataset = columns(t=3, z=9, x=10)
    whole = solved(dataset)
    moved = xr.Dataset({name: dataset[name].transpose(*order) for name in "abcd"})
    for chunks in ({}, {"x": 3}, {"t": 1, "x": 4}):
        result = solved(moved, target=target, chunks=chunks)
        assert result["solution"].dims == order
        again = result["solution"].transpose("t", "z", "x")
        assert np.array_equal(again.values, whole["solution"].values)
    stored = solved(moved, target=target, chunks={"x": 3}, output=tmp_path / "x.zarr")
    assert np.array_equal(stored["solution"].transpose("t", "z", "x"), whole["solution"])
    assert stored["solution_status"].attrs["flag_masks"] == [1, 2, 4, 8, 16]


def test_a_store_that_is_chunked_along_the_rows(tmp_path: Path) -> None:
    dataset = columns(t=2, z=12, x=6)
    untyped: Any = dataset
    chunked = untyped.chunk({"z": 5, "x": 4})
    chunked.to_zarr(tmp_path / "in.zarr", zarr_format=3, consolidated=False)
    result = solved(tmp_path / "in.zarr", chunks={"x": 4})
    assert np.array_equal(result["solution"], solved(dataset)["solution"])


def test_bands_are_repeated_along_the_dimensions_that_they_lack() -> None:
    dataset = columns(t=2, z=9, x=4)
    one = dataset.isel(t=0, x=0, drop=True)
    partly = dataset.assign(a=one["a"], c=dataset["c"].isel(t=1, drop=True))
    full = dataset.assign(a=partly["a"].broadcast_like(dataset["d"]),
                          c=partly["c"].broadcast_like(dataset["d"]))  # fmt: skip
    full = full.transpose("t", "z", "x")
    assert np.array_equal(solved(partly)["solution"], solved(full)["solution"])


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_constant_coefficients_are_eliminated_once(target: str) -> None:
    dataset = columns(t=2, z=9, x=4)
    one = dataset.isel(t=0, x=0, drop=True)
    constant = dataset.assign({name: one[name] for name in "abc"})
    constant["d"][1, 3, 2] = np.nan
    full = constant.assign({n: constant[n].broadcast_like(dataset["d"]) for n in "abc"})
    result = solved(constant, target=target, residual=True)
    direct = solved(full.transpose("t", "z", "x"), target=target, residual=True)
    for name in ("solution", "solution_status", "solution_residual"):
        assert np.array_equal(result[name], direct[name], equal_nan=True), name
    assert int(result["solution_status"].values.sum()) == 4


def test_periodic_systems_and_the_residual() -> None:
    dataset = columns(x=4, z=9)
    result = solved(dataset, periodic=True, residual=True, name="u")
    assert set(result.data_vars) == {"u", "u_status", "u_residual"}
    assert float(result["u_residual"].max()) < 1e-15
    x = result["u"]
    missing = dataset["a"] * x.roll(z=1) + dataset["b"] * x + dataset["c"] * x.roll(z=-1)
    assert float(abs(missing - dataset["d"]).max()) < 1e-14


def test_one_system_alone() -> None:
    dataset = columns(z=30)
    result = solved(dataset)
    assert result["solution"].shape == (30,)
    assert result["solution_status"].shape == ()


def test_no_system_at_all() -> None:
    result = solved(columns(t=2, z=9, x=4).isel(x=slice(0, 0)))
    assert result["solution"].shape == (2, 9, 0)


def ragged(cells: int = 9, seed: int = 1) -> xr.Dataset:
    """Return cells of very different sizes, whose nodes are in no order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, cells)
    parents = [random_parents(int(size), rng, shuffled=True) for size in sizes]
    total = int(sizes.sum())
    return xr.Dataset(
        {
            "size": ("cell", sizes, {"sample_dimension": "node"}),
            "parent": ("node", np.concatenate(parents).astype(np.int32)),
            "diagonal": ("node", rng.uniform(50, 60, total)),
            "upper": ("node", rng.uniform(-1, 0, total)),
            "rhs": ("node", rng.normal(size=total)),
        },
        coords={"cell": [f"n{at}" for at in range(cells)]},
    )


def trees(dataset: Any, **options: Any) -> xr.Dataset:
    names: dict[str, Any] = {
        "diagonal": "diagonal",
        "upper": "upper",
        "parent": "parent",
        "rhs": "rhs",
    }
    arguments: dict[str, Any] = {**names, "row_size": "size", **options}
    return he.tree(dataset, **arguments)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_trees_of_any_order_in_any_blocks(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ragged()
    whole = trees(dataset)
    offsets = np.concatenate([[0], np.cumsum(dataset["size"].values)])
    fields = (dataset[name].values for name in ("parent", "diagonal", "upper", "rhs"))
    exact = sparse_solution(offsets, *fields)
    assert np.abs(whole["solution"].values - exact).max() < 1e-12
    assert whole["solution_status"].dims == ("cell",)
    assert whole["cell"].equals(dataset["cell"])
    monkeypatch.setattr(request, "_NODES_A_CHUNK", 16)
    for cells in (1, 2, 5):
        output = tmp_path / f"{target}-{cells}.zarr"
        result = trees(dataset, target=target, chunks={"cell": cells}, output=output)
        assert np.array_equal(result["solution"], whole["solution"])
        assert np.array_equal(result["solution_status"], whole["solution_status"])


def test_trees_with_more_dimensions() -> None:
    dataset = ragged()
    rng = np.random.default_rng(4)
    many = dataset.assign(
        rhs=(("node", "t"), rng.normal(size=(dataset.sizes["node"], 3))),
        diagonal=dataset["diagonal"] + xr.DataArray([0.0, 1.0, 2.0], dims="t"),
    )
    result = trees(many, chunks={"cell": 4})
    assert result["solution"].dims == ("node", "t")
    assert result["solution_status"].dims == ("t", "cell")
    for t in range(3):
        one = trees(many.isel(t=t))
        assert np.array_equal(result["solution"].isel(t=t), one["solution"])


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=20),
    cells=st.integers(1, 6),
    chunk=st.integers(1, 12),
)
def test_no_chunk_of_a_ragged_result_has_two_writers(
    sizes: list[int], cells: int, chunk: int
) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pieces = pieces_of(offsets, cells, chunk)
    total = int(offsets[-1])
    assert [p.own.start for p in pieces] == list(range(0, len(sizes), cells))
    at = 0
    for piece in pieces:
        written = Span(piece.written.start, min(piece.written.stop, total))
        assert piece.written.start % chunk == 0
        if written.size:
            assert written.start == at
            assert piece.nodes.start <= written.start
            assert written.stop <= piece.nodes.stop
            at = written.stop
        assert piece.cells.start == piece.own.start
        assert piece.cells.stop >= piece.own.stop
    assert at == total


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    broken = ragged()
    broken["parent"][-1] = 1000
    with pytest.raises(he.FieldError, match="but the parent of its node"):
        trees(broken, output=tmp_path / "out.zarr", chunks={"cell": 2})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(he.CancelledError):
        solved(columns(t=2, z=9), output=tmp_path / "out.zarr", cancelled=lambda: True)
    assert list(tmp_path.iterdir()) == []


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "variable": (
        {"lower": "aa"},
        "Variable 'aa' (argument 'lower') is not in the dataset. Did you mean 'a'?",
    ),
    "dim": (
        {"dim": "zz"},
        "Variable 'a' (lower) must have the dimension 'zz', got 't', 'z', 'x'. It is the"
        " dimension of the rows.",
    ),
    "beyond": (
        {"rhs": "e"},
        "Variable 'a' (lower) has the dimension 't', which the right-hand side 'e' does not have."
        " It has 'z', 'x'.",
    ),
    "dtype": (
        {"upper": "f"},
        "Variable 'f' (upper) must be float32 or float64, as 'd' is (float64), got float32. Convert"
        " it with astype.",
    ),
    "name": (
        {"name": "t"},
        "The result cannot be named 't': a dimension or coordinate has it already. Give another"
        " 'name'.",
    ),
    "mode": (
        {"mode": "resident"},
        "With mode='resident' workers share the rows of each system, but systems of 9 rows are"
        " solved whole, as they have fewer than 2048. Leave the mode out.",
    ),
    "mode and pivoting": (
        {"mode": "resident", "pivoting": True},
        "With mode='resident' workers share the rows of each system, but 'pivoting' needs all rows"
        " at once. Leave one of both out.",
    ),
    "no mode": (
        {"mode": "fast"},
        "Argument 'mode' must be 'auto', 'streamed' or 'resident', got the str 'fast'. Leave it"
        " out.",
    ),
    "chunks": (
        {"chunks": {"y": 2}},
        "Argument 'chunks' must name dimensions of the systems, got 'y'. There are 't', 'x'.",
    ),
    "rows": (
        {"chunks": {"z": 2}},
        "Dimension 'z' is that of the rows, and a block has all of them, but 'chunks' gives it 2 of"
        " 9. Leave it out; a store that is chunked along it will do.",
    ),
    "size": (
        {"chunks": {"x": 0}},
        "Argument 'chunks' must be at least 1 along 'x', got 0."
        " Leave it out: sizes are then planned from memory.",
    ),
    "cluster": (
        {"cluster": 0},
        "Argument 'cluster' must be a whole number from 1, got 0. Write for example cluster=10.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_messages(case: str) -> None:
    options, message = BAD[case]
    dataset = columns(t=2, z=9, x=4)
    untyped: Any = dataset["c"]
    single = untyped.astype("f4")
    dataset = dataset.assign(e=dataset["d"].isel(t=0, drop=True), f=single)
    with pytest.raises(he.RequestError) as caught:
        solved(dataset, **options)
    assert str(caught.value) == message


BAD_TREES: dict[str, tuple[dict[str, Any], str]] = {
    "count": (
        {"row_size": "sizes"},
        "There is no variable 'sizes' that says how many nodes each row has. A contiguous ragged"
        " array has one, with the attribute 'sample_dimension'.",
    ),
    "kind": (
        {"row_size": "rhs"},
        "Count variable 'rhs' must have one dimension and whole numbers, got 1 dimensions of"
        " float64.",
    ),
    "along": (
        {"row_size": "other"},
        "Count variable 'other' must name the dimension that its rows lie along by the attribute"
        " 'sample_dimension', got ''.",
    ),
    "negative": (
        {"row_size": "negative"},
        "Row 1 of 'negative', counted from 0, must have from 0 to 190 elements, got -3. A row has"
        " no more of them than its sample dimension 'node'.",
    ),
    "sum": (
        {"row_size": "short"},
        "The rows of 'short' have 9 elements together, but dimension 'node' has 190. The counts of"
        " a contiguous ragged array add up to its sample dimension.",
    ),
    "parent": (
        {"parent": "upper"},
        "Variable 'upper' must hold whole numbers along 'node' only, as the parents of all nodes,"
        " got float64 along 'node'.",
    ),
    "cells": (
        {"rhs": "both"},
        "Variable 'both' must have the dimension 'node' of the nodes without 'cell' of the cells,"
        " got both. Store the nodes of all cells along one dimension.",
    ),
    "chunks": (
        {"chunks": {"node": 5}},
        "Argument 'chunks' must give a number of cells, by 'cell', got 'node'. The nodes along"
        " 'node' go with their cells.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TREES)
def test_messages_of_trees(case: str) -> None:
    options, message = BAD_TREES[case]
    dataset = ragged()
    ones = xr.ones_like(dataset["size"])
    short = ones.assign_attrs(sample_dimension="node")
    negative: Any = dataset["size"].copy()
    negative.values[1] = -3
    floats: Any = ones
    both = dataset["rhs"] * floats.astype(float)
    dataset = dataset.assign(other=ones.drop_attrs(), short=short, negative=negative, both=both)
    with pytest.raises(he.RequestError) as caught:
        trees(dataset, **options)
    assert str(caught.value) == message


def test_what_does_not_fit_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalPool, "memory", property(lambda _: 40_000))
    dataset = columns(t=100, z=9, x=4)
    with pytest.raises(he.CapacityError) as caught:
        solved(dataset, output="out.zarr", chunks={"t": 50})
    assert str(caught.value) == (
        "A block of 50 systems needs 43200 bytes, but 19872 are free for it. Give smaller"
        " 'chunks', or leave them out."
    )
    assert caught.value.needed == 43200
    with pytest.raises(he.CapacityError) as single:
        solved(columns(z=900), output="out.zarr")
    assert str(single.value) == (
        "One system needs 86400 bytes of memory, but 20000 are free for a block. Use workers with"
        " more memory."
    )
    with pytest.raises(he.CapacityError) as many:
        trees(ragged(), output="out.zarr", chunks={"cell": 9})
    assert str(many.value) == (
        "A block of 9 cells needs up to 76000 bytes, but 20000 are free for it. Give fewer cells:"
        " chunks={'cell': ...}."
    )


@pytest.mark.skipif(compiler() is None, reason=ABSENT)
def test_cells_of_one_tree_go_to_the_kernel_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = EmulatedMachine(tmp_path)
    kernels = CudaTree(machine, Library(machine), 227 * 1024, 2)

    def on_the_device(_target: str) -> CudaTree:
        return kernels

    monkeypatch.setattr(tree, "tree_solver", on_the_device)
    rng = np.random.default_rng(0)
    cells, nodes = 600, 12
    parents = np.array([3, 0, 1, -1, 3, 4, 4, 1, 7, 0, 9, 10])
    total = cells * nodes
    dataset = xr.Dataset(
        {
            "size": ("cell", np.full(cells, nodes), {"sample_dimension": "node"}),
            "parent": ("node", np.tile(parents, cells)),
            "diagonal": ("node", rng.uniform(50, 60, total)),
            "upper": ("node", rng.uniform(-1, 0, total)),
            "rhs": (("t", "node"), rng.normal(size=(2, total))),
        }
    )
    found = trees(dataset, target="cpu", chunks={"cell": cells})
    launched = {name for loaded in machine.loaded for name, _, _ in loaded.launched}
    assert launched == {"pack", "uniform", "unpack"}
    monkeypatch.undo()
    assert np.array_equal(found["solution"], trees(dataset, target="reference")["solution"])
