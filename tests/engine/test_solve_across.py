"""Solves whose rows are spread over blocks: the bits of whole systems, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.jobs import blocking
from halocline_engine.distribute.solves import partitioned, request
from halocline_engine.distribute.tasks.events import Event

NAMES: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
SIZE = 8


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "PIECE", SIZE)
    monkeypatch.setattr(request, "PIECE", SIZE)


def columns(**sizes: int) -> xr.Dataset:
    rng = np.random.default_rng(3)
    dims, shape = tuple(sizes), tuple(sizes.values())
    data = {name: (dims, rng.normal(size=shape)) for name in "acd"}
    dominant = 1 + abs(data["a"][1]) + abs(data["c"][1])
    return xr.Dataset({**data, "b": (dims, dominant)})


def solved(dataset: Any, **options: Any) -> xr.Dataset:
    arguments: dict[str, Any] = {**NAMES, "residual": True, "mode": "streamed", **options}
    return he.tridiagonal(dataset, **arguments)


def same(one: xr.Dataset, other: xr.Dataset) -> bool:
    return all(np.array_equal(one[n].transpose(*other[n].dims), other[n]) for n in other.data_vars)


@pytest.mark.usefixtures("short_pieces")
@pytest.mark.parametrize("periodic", [False, True])
def test_any_blocks_give_the_bits_of_one(*, periodic: bool, tmp_path: Path) -> None:
    dataset = columns(t=3, z=103, x=5)
    whole = solved(dataset, periodic=periodic, target="cpu")
    assert not whole["solution_status"].values.any()
    assert float(whole["solution_residual"].max()) < 1e-15
    judge = solved(dataset, periodic=periodic, target="reference", chunks={"z": 24, "t": 2})
    assert same(judge, whole)
    ways = ({"z": 16}, {"z": 20, "x": 2}, {"z": 56, "t": 1})
    orders = (("t", "z", "x"), ("z", "x", "t"), ("x", "t", "z"))
    for order, chunks in zip(orders, ways, strict=True):
        moved = xr.Dataset({name: dataset[name].transpose(*order) for name in "abcd"})
        result = solved(moved, periodic=periodic, target="cpu", chunks=chunks)
        assert result["solution"].dims == order
        assert same(result, whole)
    stored = solved(dataset, periodic=periodic, chunks={"z": 16}, output=tmp_path / "x.zarr")
    assert same(stored, whole)


@pytest.mark.usefixtures("short_pieces")
def test_a_store_chunked_along_the_rows_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks need not fit the pieces: the rows at the ends of blocks are read from two chunks."""
    monkeypatch.setattr(blocking, "SMALL_TASK", 1)
    monkeypatch.setattr(partitioned, "SMALL_TASK", 1)
    dataset = columns(t=2, z=100, x=6)
    untyped: Any = dataset
    untyped.chunk({"z": 13, "x": 4}).to_zarr(
        tmp_path / "in.zarr", zarr_format=3, consolidated=False
    )
    events: list[Event] = []
    result = solved(tmp_path / "in.zarr", on_event=events.append)
    whole = solved(dataset)
    assert same(result, whole)
    planned: Any = events[0]
    assert planned.reason == "the rows are spread over blocks, whose ends are solved for in between"
    assert planned.passes == 4
    assert planned.blocks >= 4
    lazy = solved(untyped.chunk({"z": 13}), on_event=events.append)
    assert same(lazy, whole)


@pytest.mark.usefixtures("short_pieces")
def test_progress_goes_from_nothing_to_everything() -> None:
    events: list[Event] = []
    solved(columns(z=50, x=3), chunks={"z": 16}, on_event=events.append)
    progress = [event.progress for event in events]
    assert progress == sorted(progress)
    assert (progress[0], progress[-1]) == (0, 1)
    assert [event.kind for event in events].count("pass-finished") == 4


@pytest.mark.usefixtures("short_pieces")
def test_bands_without_the_other_dimensions_and_bad_systems() -> None:
    dataset = columns(t=2, z=50, x=4)
    one = dataset.isel(t=0, x=0, drop=True)
    constant = dataset.assign({name: one[name] for name in "abc"})
    constant["d"][1, 3, 2] = np.nan
    whole = solved(constant)
    spread = solved(constant, chunks={"z": 16, "x": 3})
    for name in whole.data_vars:
        assert np.array_equal(spread[name], whole[name], equal_nan=True)
    assert int(whole["solution_status"].values.sum()) == 4
    assert not solved(constant.isel(x=slice(0, 0)), chunks={"z": 16})["solution"].size


def test_memory_does_not_grow_with_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what passes hand on, which is 81 bytes for each piece and system."""
    monkeypatch.setattr(partitioned, "PIECE", 64)
    for module in (partitioned, blocking):
        monkeypatch.setattr(module, "LARGE_TASK", 12 * 24 * 64 * 8)
    projected: list[int] = []
    for rows in (1600, 6400):
        events: list[Event] = []
        output = tmp_path / f"{rows}.zarr"
        solved(columns(z=rows, x=4), output=output, on_event=events.append)
        planned: Any = events[0]
        projected.append(planned.projected_bytes)
    assert projected[1] - projected[0] == (6400 - 1600) // 64 * 4 * 81


@pytest.mark.usefixtures("short_pieces")
def test_cancelling_leaves_nothing(tmp_path: Path) -> None:
    looked: list[int] = []

    def later() -> bool:
        looked.append(1)
        return len(looked) > 9

    with pytest.raises(he.CancelledError):
        solved(columns(z=80, x=4), chunks={"z": 8}, output=tmp_path / "out.zarr", cancelled=later)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("short_pieces")
def test_what_does_not_fit_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalPool, "memory", property(lambda _: 40_000))
    dataset = columns(z=64, x=40)
    with pytest.raises(he.CapacityError) as caught:
        solved(dataset, output="out.zarr", chunks={"z": 8, "x": 40})
    assert str(caught.value) == (
        "A block of rows needs 61440 bytes, but 6144 are free for it. Give smaller 'chunks', or"
        " leave them out."
    )
    monkeypatch.setattr(LocalPool, "memory", property(lambda _: 2_000))
    with pytest.raises(he.CapacityError) as single:
        solved(columns(z=64), output="out.zarr")
    assert str(single.value) == (
        "A piece of rows needs 1536 bytes of memory, but 676 are free for a block. Use workers with"
        " more memory."
    )
    with pytest.raises(he.ArgumentError) as small:
        solved(dataset, chunks={"z": 0})
    assert str(small.value) == (
        "Argument 'chunks' must be at least 1 along 'z', got 0."
        " Leave it out: sizes are then planned from memory."
    )


@pytest.mark.usefixtures("short_pieces")
def test_what_passes_hand_on_must_fit_on_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Bands, solution and status; and for each of 320 pieces, 8 numbers, 2 more and a byte."""
    for name, value in (("remote", True), ("reaches_memory", False)):
        fixed = property(lambda _, value=value: value, lambda _, value: None)
        monkeypatch.setattr(LocalPool, name, fixed)
    needed = 5 * 64 * 40 * 8 + 40 + 320 * (8 * 8 + 2 * 8 + 1)

    def usage(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=needed - 1)

    monkeypatch.setattr("shutil.disk_usage", usage)
    with pytest.raises(he.OutputError) as caught:
        solved(columns(z=64, x=40), output=tmp_path / "x", chunks={"z": 8}, residual=False)
    assert str(caught.value) == (
        f"The run needs up to {needed} bytes under '{tmp_path}', but only {needed - 1} are free."
        " Free some space, or choose another place with output=."
    )
    assert not list(tmp_path.iterdir())


def test_a_long_system_in_threads_and_in_one_block() -> None:
    """With pieces as they are: 1,024 rows, and the rest with the last one."""
    dataset = columns(z=5000, x=2)
    whole = solved(dataset)
    assert same(solved(dataset, chunks={"z": 1024, "x": 1}), whole)
    assert float(whole["solution_residual"].max()) < 1e-15


@pytest.mark.usefixtures("short_pieces")
@pytest.mark.parametrize("periodic", [False, True])
def test_pivoting_solves_systems_whole(*, periodic: bool) -> None:
    """Without dominance, with zeros on the diagonal, and of more rows than two pieces."""
    dataset = columns(t=2, z=40, x=3)
    dataset["b"] = dataset["b"].where(dataset["a"] > 0, 0.0) * 0.1
    options: dict[str, Any] = {"pivoting": True, "periodic": periodic}
    result = solved(dataset, **options, chunks={"t": 1})
    assert float(result["solution_residual"].max()) < 1e-15
    assert not result["solution_status"].values.any()
    assert same(solved(dataset, **options, target="reference"), result)
    without = solved(dataset, periodic=periodic)
    assert (without["solution_status"].values & 3).all()
    with pytest.raises(he.ArgumentError) as caught:
        solved(dataset, **options, chunks={"z": 16})
    assert str(caught.value) == (
        "Dimension 'z' is that of the rows, and a block has all of them, but 'chunks' gives it 16"
        " of 40. Leave it out; a store that is chunked along it will do."
    )
