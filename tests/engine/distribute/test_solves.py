"""Solves on the workers of a cluster: the bits of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import BlockFinished, Event, Finished, Worked
from halocline_engine.functions.reports.planning import plan_of


def test_tridiagonal_systems(two_workers: Any) -> None:
    rng = np.random.default_rng(3)
    dims, shape = ("t", "z", "x"), (4, 9, 5)
    dataset = xr.Dataset({name: (dims, rng.normal(size=shape)) for name in "acd"})
    dataset["b"] = 1 + abs(dataset["a"]) + abs(dataset["c"])
    names: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d"}
    here = he.tridiagonal(dataset, **names, dim="z", target="reference")
    events: list[Event] = []
    result = he.tridiagonal(
        dataset,
        **names,
        dim="z",
        target="reference",
        cluster=two_workers,
        chunks={"t": 1},
        on_event=events.append,
    )
    assert np.array_equal(result["solution"], here["solution"])
    kinds = [event.kind for event in events]
    blocks = [event for event in events if isinstance(event, BlockFinished)]
    shares = [event for event in events if isinstance(event, Worked)]
    ended = ["pass-finished", *["worked"] * len(shares), "finished"]
    assert kinds == ["planned", *["block-finished"] * 4, *ended]
    assert sum(share.blocks for share in shares) == 4
    assert {share.worker for share in shares} == {block.worker for block in blocks}
    computing = sum(block.computing for block in blocks)
    assert sum(share.computing for share in shares) == pytest.approx(computing)
    (finished,) = (event for event in events if isinstance(event, Finished))
    moved = sum(share.bytes for share in shares)
    assert moved == finished.bytes_read + finished.bytes_written
    for block in blocks:
        parts = (block.reading, block.computing, block.writing)
        assert min(parts) > 0
        assert sum(parts) <= block.seconds * (1 + 1e-9)
    assert events[-1].progress == 1


def test_rows_that_are_spread_over_workers(two_workers: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    dims, shape = ("x", "z"), (3, 3500)
    dataset = xr.Dataset({name: (dims, rng.normal(size=shape)) for name in "acd"})
    dataset["b"] = 1 + abs(dataset["a"]) + abs(dataset["c"])
    names: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    names |= {"periodic": True, "residual": True, "target": "reference"}
    here = he.tridiagonal(dataset, **names)
    far = he.tridiagonal(
        dataset,
        **names,
        cluster=two_workers,
        chunks={"z": 1024, "x": 2},
        output=tmp_path / "x.zarr",
    )
    for name in here.data_vars:
        assert np.array_equal(far[name], here[name])
    assert [path.name for path in tmp_path.iterdir()] == ["x.zarr"]


def test_factors_of_this_process(two_workers: Any) -> None:
    rng = np.random.default_rng(3)
    dims, shape = ("t", "z", "x"), (4, 9, 5)
    dataset = xr.Dataset({name: (dims, rng.normal(size=shape)) for name in "acd"})
    dataset["b"] = 1 + abs(dataset["a"]) + abs(dataset["c"])
    names: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}
    factors = he.factor(dataset, **names, periodic=True, target="reference")
    options: dict[str, Any] = {"rhs": "d", "target": "reference"}
    here = he.solve(dataset, factors, **options)
    far = he.solve(dataset, factors, **options, cluster=two_workers, chunks={"t": 1})
    assert np.array_equal(far["solution"], here["solution"])


def test_trees(two_workers: Any, tmp_path: Path) -> None:
    sizes = np.array([3, 0, 7, 2, 5])
    parents: list[Any] = [np.arange(-1, size - 1) for size in sizes.tolist()]
    rng = np.random.default_rng(4)
    dataset = xr.Dataset(
        {
            "size": ("cell", sizes, {"sample_dimension": "node"}),
            "parent": ("node", np.concatenate(parents)),
            "d": ("node", rng.uniform(3, 4, 17)),
            "u": ("node", rng.uniform(-1, 0, 17)),
            "r": ("node", rng.normal(size=17)),
        }
    )
    names: dict[str, Any] = {
        "diagonal": "d",
        "upper": "u",
        "parent": "parent",
        "rhs": "r",
        "row_size": "size",
    }
    here = he.tree(dataset, **names, target="reference")
    output = tmp_path / "trees.zarr"
    far = he.tree(
        dataset,
        **names,
        target="reference",
        cluster=two_workers,
        chunks={"cell": 2},
        output=output,
    )
    assert np.array_equal(far["solution"], here["solution"])
    assert np.array_equal(far["solution_status"], here["solution_status"])


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("one", [False, True])
def test_systems_along_the_first_dimension_are_one_block(target: str, *, one: bool) -> None:
    """A part of them would be copied together; what the block makes is the result itself."""
    rng = np.random.default_rng(4)
    sizes = {"z": 30, "y": 200, "x": 150}
    data: dict[str, Any] = {"d": (tuple(sizes), rng.normal(size=tuple(sizes.values())))}
    along = {"z": 30} if one else sizes
    for name in "abc":
        values = rng.uniform(-1, 1, tuple(along.values())) + 5.0 * (name == "b")
        data[name] = (tuple(along), values)
    dataset = xr.Dataset(data)
    names: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    names |= {"target": target, "residual": True}

    def blocks(given: xr.Dataset, **options: Any) -> int:
        return plan_of(he.tridiagonal, given, **names, **options).blocks

    turned = dataset.transpose("y", "z", "x", missing_dims="ignore")
    turned = turned.copy(deep=True)
    assert blocks(dataset) == 1
    assert blocks(turned) > 1
    assert blocks(dataset, chunks={"y": 100}) > 1
    five: dict[str, Any] = {**names, "second_lower": "a", "second_upper": "c"}
    assert plan_of(he.pentadiagonal, dataset, **five).blocks > 1
    assert blocks(dataset, options=he.Options(memory_limit=50_000_000)) > 1
    found = he.tridiagonal(dataset, **names)
    others = [
        he.tridiagonal(turned, **names),
        he.tridiagonal(dataset, **names, chunks={"y": 64}),
    ]
    for name in found.data_vars:
        values = found[name].values
        assert values.flags.writeable
        assert not any(np.shares_memory(values, dataset[one].values) for one in dataset)
        for other in others:
            np.testing.assert_array_equal(other[name].transpose(*found[name].dims), values)
