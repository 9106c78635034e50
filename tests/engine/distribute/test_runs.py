"""Pipelines on the workers of a cluster, on devices of threads: bytes, counts, ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock, patch

import numpy as np
import pytest
import xarray as xr
import zarr
from deadlines import until

from halocline_engine.distribute.executors.dask import start
from halocline_engine.distribute.pipeline.runs import PipelinedRuns
from halocline_engine.distribute.stencils import passes
from halocline_engine.distribute.tasks.events import BlockFinished, Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError
from halocline_engine.functions.run import run

STAR = """
def star(u: Field[np.float32], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[1, 0, 0] + u[-2, 0, 0] + u[0, 1, 0] + u[0, -1, 0])
"""
ROWS = 48


def made(path: Path, compressors: Any) -> Path:
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    array = group.create_array(
        "u",
        shape=(ROWS, 30),
        chunks=(5, 30),
        dtype="float32",
        compressors=compressors,
        dimension_names=("y", "x"),
    )
    array[...] = np.random.default_rng(2).normal(size=(ROWS, 30)).astype("float32")
    return path


def starred(store: Path, **arguments: Any) -> tuple[xr.Dataset, Planned, Finished, list[Event]]:
    events: list[Event] = []
    tell: Callable[[Event], None] | None = arguments.pop("on_event", None)

    def keep(event: Event) -> None:
        events.append(event)
        if tell is not None:
            tell(event)

    options: dict[str, Any] = {
        "pipeline_depth": 3,
        "steps_per_pass": 2,
        **arguments.pop("options", {}),
    }
    result = run(
        STAR,
        store,
        steps=5,
        feedback={"v": "u"},
        boundary={"x": "periodic", "y": "edge"},
        chunks={"y": 4},
        target="reference",
        on_event=keep,
        options=Options(**options),
        **arguments,
    )
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    return result, planned, finished, events


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_runs_give_the_bytes_of_blocks_and_the_fetches_that_are_predicted(
    tmp_path: Path, two_workers: Any, compressors: Any
) -> None:
    store = made(tmp_path / "in.zarr", compressors)
    expected, _, alone, _ = starred(store, options={"pipeline_depth": 0})
    got, planned, finished, events = starred(store, cluster=two_workers)
    assert got["v"].values.tobytes() == expected["v"].values.tobytes()
    assert (planned.workers, planned.blocks, planned.passes) == (2, 12, 3)
    assert finished.fetches == planned.predicted_fetches
    done = [event for event in events if isinstance(event, BlockFinished)]
    assert [event.done for event in done] == 3 * list(range(1, 13))
    assert len({event.worker for event in done}) == 2
    # Of a run of two blocks one is handed its halo; blocks by themselves read all of it.
    assert finished.bytes_read < alone.bytes_read


def test_a_cancelled_run_ends_on_all_workers(two_workers: Any, tmp_path: Path) -> None:
    looks = iter(range(1000))
    store, output = made(tmp_path / "in.zarr", None), tmp_path / "out.zarr"
    with pytest.raises(CancelledError):
        starred(store, cluster=two_workers, output=output, cancelled=lambda: next(looks) > 3)
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]
    until(lambda: not any(threads(two_workers)))


def threads(client: Any) -> list[str]:
    """Return the threads of pipelines on all workers."""

    # Workers cannot import a module of tests; a function within a function goes to them as it is.
    def names() -> list[str]:
        import threading

        ours = ("read", "write", "sending", "computing", "fetching")
        return [one.name for one in threading.enumerate() if one.name.startswith(ours)]

    return [name for found in client.run(names).values() for name in found]


def test_a_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    store = made(tmp_path / "in.zarr", None)
    expected, _, _, _ = starred(store, options={"pipeline_depth": 0})

    async def die() -> None:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    with start(2, "cpu") as pool:
        client: Any = pool.client
        killed: list[str] = []

        def kill(event: Event) -> None:
            if isinstance(event, BlockFinished) and event.done == 5 and not killed:
                killed.append(event.worker)
                client.run(die, workers=[event.worker], wait=False)

        got, _, _, events = starred(store, cluster=client, on_event=kill)
    assert killed
    assert got["v"].values.tobytes() == expected["v"].values.tobytes()
    done = [event.done for event in events if isinstance(event, BlockFinished)]
    assert done == 3 * list(range(1, 13))


def test_workers_of_a_machine_know_how_many_share_its_cores(tmp_path: Path) -> None:
    with start(2, "reference") as pool:
        assert pool.workers_per_host == 2
        with patch.object(passes, "PipelinedRuns", wraps=PipelinedRuns) as made_runs:
            starred(
                made(tmp_path / "in.zarr", None), output=tmp_path / "out.zarr", cluster=pool.client
            )
    assert made_runs.call_args.args[-1] == 2
    resources = Mock(side_effect=KeyboardInterrupt)
    runs = PipelinedRuns(Mock(), 3, "reference", "alone", 1, workers_per_host=5)
    with (
        patch("halocline_engine.distribute.pipeline.runs.open_resources", resources),
        pytest.raises(KeyboardInterrupt),
    ):
        runs.together(())
    assert resources.call_args.kwargs["workers_per_host"] == 5
