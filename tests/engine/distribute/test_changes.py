"""Gathers, scatters and regridding in blocks: the bits of one block, wherever they are computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import BlockFinished, Event, Finished, Planned
from halocline_engine.distribute.transfers import job
from halocline_engine.errors import ArgumentError, CancelledError, CapacityError, OutputError

identical = cast("Any", xr).testing.assert_identical
RNG = np.random.default_rng(6)


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "t": (("time", "member", "cell", "level"), RNG.normal(size=(5, 2, 40, 3))),
            "p": (("cell", "time"), RNG.normal(size=(40, 5)).astype("f4"), {"units": "Pa"}),
            "index": (("point",), RNG.integers(0, 40, 25)),
            "place": (("cell",), RNG.permutation(60)[:40]),
            "when": (("time", "cell"), np.zeros((5, 40), "M8[ns]")),
        },
        coords={"time": np.arange(5) * 2.0, "lon": (("cell",), np.arange(40.0))},
        attrs={"title": "made"},
    )


@pytest.fixture(scope="module")
def weights() -> xr.Dataset:
    return xr.Dataset(
        {
            "row": (("n_s",), RNG.integers(1, 12, 90)),
            "col": (("n_s",), RNG.integers(1, 41, 90)),
            "S": (("n_s",), RNG.random(90)),
            "src_grid_dims": (("one",), [40]),
            "dst_grid_dims": (("two",), [4, 3]),
        }
    )


def gathered(data: Any, weights: Any, **options: Any) -> xr.Dataset:
    return he.gather(data, source="t", index="index", dim="cell", **options)


def scattered(data: Any, weights: Any, **options: Any) -> xr.Dataset:
    return he.scatter(data, source="p", index="place", dim="wide", size=60, **options)


def regridded(data: Any, weights: Any, **options: Any) -> xr.Dataset:
    return he.regrid(data, weights, target_dims=("y", "x"), **options)


def without_history(found: xr.Dataset) -> xr.Dataset:
    return cast("Any", found).load().drop_encoding().assign_attrs(history="")


@pytest.mark.parametrize("make", [gathered, scattered, regridded])
def test_blocks_workers_and_stores_change_nothing(
    make: Callable[..., xr.Dataset],
    dataset: xr.Dataset,
    weights: xr.Dataset,
    two_workers: Any,
    tmp_path: Path,
) -> None:
    whole = without_history(make(dataset, weights, target="reference"))
    chunks = {} if make is scattered else {"time": 2}
    events: list[Event] = []
    stored = make(
        dataset,
        weights,
        target="reference",
        chunks=chunks,
        output=tmp_path / "out.zarr",
        on_event=events.append,
    )
    assert stored.attrs["history"].count("\n") == 0
    assert stored.attrs["title"] == "made"
    identical(without_history(stored), whole)
    path = tmp_path / "in.zarr"
    cast("Any", dataset).to_zarr(path, zarr_format=3, consolidated=False)
    remote = make(path, weights, target="reference", chunks=chunks, cluster=two_workers)
    identical(without_history(remote), whole)
    planned = events[0]
    assert isinstance(planned, Planned)
    blocks = [event for event in events if isinstance(event, BlockFinished)]
    assert len(blocks) == planned.blocks
    assert planned.projected_bytes > 0
    assert planned.blocks >= {gathered: 3, scattered: 1, regridded: 4}[make]
    assert isinstance(events[-1], Finished)


def test_what_cannot_be_done_leaves_nothing(
    dataset: xr.Dataset,
    weights: xr.Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def message(kind: type[he.HaloclineError], **options: Any) -> str:
        wanted: dict[str, Any] = {"source": "t", "index": "index", "dim": "cell"} | options
        with pytest.raises(kind) as caught:
            he.gather(dataset, **wanted)
        return str(caught.value)

    out = tmp_path / "out.zarr"
    assert message(ArgumentError, mode="resident") == (
        "Argument 'mode' must be 'auto' or 'streamed', got the str 'resident'. Leave it out."
    )
    assert message(ArgumentError, chunks={"depth": 1}) == (
        "Argument 'chunks' must name dimensions of the source, the index or the result, got"
        " 'depth'. There are 'time', 'member', 'cell', 'point', 'level'."
    )
    assert message(ArgumentError, chunks={"time": 0}) == (
        "Argument 'chunks' must be at least 1 along 'time', got 0."
        " Leave it out: sizes are then planned from memory."
    )
    assert message(ArgumentError, source="when", output=out) == (
        "Values of type 'datetime64[ns]' cannot be written to a store block by block, but 'when'"
        " has them. Leave 'output' out and store the result, or convert them."
    )
    assert message(OutputError, output=tmp_path).endswith("Choose another place, or remove it.")
    message(CancelledError, output=out, cancelled=lambda: True)
    monkeypatch.setattr(job, "_HELD", 10**15)
    assert " of memory, but " in message(CapacityError, output=out)
    with pytest.raises(ArgumentError) as caught:
        he.regrid(dataset, weights, target_dims=("y", "x"), chunks={"cell": 2})
    assert str(caught.value) == (
        "Argument 'chunks' must name unchanged dimensions, got 'cell'. There are"
        " 'time', 'member', 'level'."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_target_grid_must_not_share_a_dimension(dataset: xr.Dataset, weights: xr.Dataset) -> None:
    with pytest.raises(he.FieldError) as caught:
        he.regrid(dataset, weights, target_dims=("member", "time"), variables=["p"])
    assert str(caught.value) == (
        "The result 'p' would have the dimensions ('member', 'time', 'time'), one of them twice."
        " Name others with target_dims=."
    )
