"""Blocks that overlap on a device: the bytes of the plain path, in the memory that is granted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
import zarr

from halocline_engine.device.machine import CudaMachine
from halocline_engine.device.queues import DeviceQueues
from halocline_engine.distribute.executors.dask import start
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

pytestmark = pytest.mark.gpu

SMOOTH = """
def smooth(u: Field[np.float32], m: Field[IJ, bool], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        flux = u[1, 0, 0] - u if m else 0.0
        v = u + w * (flux - flux[-1, 0, 0] + u[0, 1, 0] - 2.0 * u + u[0, -1, 0])
"""
SIDES: dict[str, Any] = {"x": "periodic", "y": {"low": "reflect", "high": {"constant": 2.0}}}


@pytest.fixture(scope="module", params=["raw", "compressed"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("out_of_core") / "in.zarr"
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    compressors = None if request.param == "raw" else "auto"
    rng = np.random.default_rng(4)
    options: dict[str, Any] = {"compressors": compressors}
    u = group.create_array(
        "u",
        shape=(2, 403, 517),
        chunks=(2, 50, 517),
        dtype="float32",
        dimension_names=("z", "y", "x"),
        **options,
    )
    u[...] = rng.normal(size=(2, 403, 517)).astype("float32")
    m = group.create_array(
        "m",
        shape=(403, 517),
        chunks=(50, 517),
        dtype="bool",
        dimension_names=("y", "x"),
        **options,
    )
    m[...] = rng.random((403, 517)) > 0.3
    return path


def smoothed(
    store: Path, output: Path | None, cluster: Any = None, **options: Any
) -> tuple[xr.Dataset, list[Event]]:
    events: list[Event] = []
    options = {"steps_per_pass": 5, "compressed": False, **options}
    result = run(
        SMOOTH,
        store,
        scalars={"w": 0.1},
        boundary=SIDES,
        steps=12,
        feedback={"v": "u"},
        chunks={"y": 64},
        target="cuda",
        mode="streamed",
        cluster=cluster,
        output=output,
        on_event=events.append,
        options=Options(**options),
    )
    return result, events


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_bytes_are_those_of_the_plain_path(
    machine: CudaMachine, store: Path, tmp_path: Path, slots: int
) -> None:
    plain, _ = smoothed(store, None, pipeline_depth=0)
    got, events = smoothed(store, tmp_path / "out.zarr", pipeline_depth=slots)
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    assert planned.passes == 3
    # Nothing is read twice, as neighbours hand on what they share.
    assert finished.bytes_read < 3 * (2 * 403 * 517 * 4 + 403 * 517) + 3 * 3 * 64 * 517 * 9


def test_a_worker_has_a_pipeline_of_its_own(
    machine: CudaMachine, store: Path, tmp_path: Path
) -> None:
    plain, _ = smoothed(store, None, pipeline_depth=0)
    with start(1, "cuda") as pool:
        got, events = smoothed(store, tmp_path / "out.zarr", cluster=pool.client)
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    assert finished.fetches == planned.predicted_fetches


def test_a_device_memory_that_is_granted_is_kept_to(
    machine: CudaMachine, store: Path, cupy: Any
) -> None:
    granted = 24 * 2**20
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    plain, _ = smoothed(store, None, pipeline_depth=0)
    pool.free_all_blocks()
    got, events = smoothed(store, None, pipeline_depth=3, device_memory_limit=granted)
    assert got["v"].identical(plain["v"])
    assert pool.total_bytes() - before <= granted
    assert isinstance(events[0], Planned)
    assert events[0].blocks == 7


def test_page_locked_memory_goes_to_the_device_and_back(machine: CudaMachine, cupy: Any) -> None:
    values = np.random.default_rng(0).normal(size=(33, 7, 5)).astype("float32")
    with DeviceQueues() as queues:
        there, back = (
            queues.buffer(values.nbytes).view("float32").reshape(values.shape, order="F")
            for _ in range(2)
        )
        there[...] = values
        back[...] = np.nan
        array = cupy.full((40, 9, 5), np.nan, "float32", order="F")[4:37, 1:8]
        queues.sending.put(lambda: queues.send(there, array))
        queues.computing.after(queues.sending.mark())
        queues.computing.put(lambda: array.__imul__(2.0))
        queues.fetching.after(queues.computing.mark())
        queues.fetching.put(lambda: queues.fetch(array, back))
        queues.fetching.mark().wait()
        np.testing.assert_array_equal(back, 2 * values)
