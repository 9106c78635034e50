"""Blocks that stay in device memory: the bits of the streamed mode, for any blocks and ranks."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, cast
from unittest.mock import Mock, patch

import distributed
import numpy as np
import pytest
import xarray as xr
from stepped_programs import BOUNDARIES, stepped

import halocline_engine as he
from halocline_engine.datasets.untyped import variable_data
from halocline_engine.device.machine import CudaMachine
from halocline_engine.distribute.executors import dask as executors
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.events import Event, Planned, StepsFinished
from halocline_engine.errors import DeviceError

DASK = cast(Any, distributed)

pytestmark = pytest.mark.gpu


def case(name: str, dtype: str) -> tuple[str, xr.Dataset, dict[str, Any]]:
    return stepped(name, dtype, (7, 61, 83) if name == "star" else (1, 157, 211))


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["wave", "star"])
def test_any_blocks_ranks_and_bundles_make_the_same_bits(
    machine: CudaMachine, name: str, dtype: str, boundary: dict[str, Any]
) -> None:
    assert machine.facts.index >= 0
    text, data, how = case(name, dtype)
    how |= {"boundary": boundary, "steps": 37, "target": "cuda"}
    expected = he.run(text, data, mode="streamed", **how)
    for ranks, chunks, steps in (
        (1, {}, None),
        (1, {}, 12),
        (1, {"x": 50, "y": 37}, 3),
        (3, {"y": 23}, 1),
        (3, {"y": 23, "x": 60}, 5),
    ):
        events: list[Event] = []
        with patch(
            "halocline_engine.distribute.executors.select.local_pool",
            return_value=LocalPool(workers=ranks),
        ):
            found = he.run(
                text,
                data,
                mode="resident",
                chunks=chunks,
                options=he.Options(steps_per_pass=steps),
                on_event=events.append,
                **how,
            )
        assert isinstance(events[0], Planned)
        assert events[0].workers == ranks
        transports = {e.transport for e in events if isinstance(e, StepsFinished)}
        assert transports == ({"messages"} if ranks > 1 else {"none"})
        for one in expected.data_vars:
            np.testing.assert_array_equal(found[one].values, expected[one].values)


def test_ranks_without_peer_memory_send_messages(
    machine: CudaMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.facts.index >= 0
    text, data, how = case("wave", "float64")
    how |= {"boundary": BOUNDARIES[1], "steps": 37, "target": "cuda", "chunks": {"y": 60}}
    expected = he.run(text, data, mode="streamed", **how)
    monkeypatch.setattr(
        "halocline_engine.distribute.exchanges.peers.open_memory",
        Mock(side_effect=DeviceError("Not from here.")),
    )
    events: list[Event] = []
    with patch(
        "halocline_engine.distribute.executors.select.local_pool", return_value=LocalPool(workers=3)
    ):
        found = he.run(text, data, mode="resident", on_event=events.append, **how)
    assert {e.transport for e in events if isinstance(e, StepsFinished)} == {"messages"}
    for one in expected.data_vars:
        np.testing.assert_array_equal(found[one].values, expected[one].values)


def test_ranks_of_processes_store_into_the_memory_of_one_device(machine: CudaMachine) -> None:
    """Two processes share the only device, and open each other's memory."""
    assert machine.facts.index >= 0
    text, data, how = case("wave", "float32")
    how |= {"boundary": BOUNDARIES[0], "steps": 23, "target": "cuda", "chunks": {"y": 80}}
    expected = he.run(text, data, mode="streamed", **how)
    events: list[Event] = []
    devices = [{"CUDA_VISIBLE_DEVICES": "0"}] * 2
    with (
        executors.worker_processes(devices, resources={"GPU": 1}) as cluster,
        DASK.Client(cluster, set_as_default=False) as client,
    ):
        found = he.run(text, data, mode="resident", on_event=events.append, cluster=client, **how)
    assert {e.transport for e in events if isinstance(e, StepsFinished)} == {"peer memory"}
    for one in expected.data_vars:
        np.testing.assert_array_equal(found[one].values, expected[one].values)


@pytest.mark.parametrize("name", ["wave", "star"])
def test_arrays_of_cupy_stay_on_the_device(
    machine: CudaMachine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They go in and come out without a copy on the host; periodic ends and blocks as well."""
    cupy: Any = pytest.importorskip("cupy")
    assert machine.facts.index >= 0
    text, data, how = case(name, "float32")
    how |= {"boundary": BOUNDARIES[1], "steps": 37, "target": "cuda", "mode": "resident"}
    expected = he.run(text, data, **how)
    values = {one: (data[one].dims, cupy.asarray(data[one].values)) for one in data.data_vars}
    on_device = xr.Dataset(values)
    moved: list[int] = []
    for way in ("upload", "download"):
        plain = getattr(CudaMachine, way)

        def counted(self: Any, values: Any, *more: Any, plain: Any = plain) -> Any:
            moved.append(values.nbytes)
            return plain(self, values, *more)

        monkeypatch.setattr(CudaMachine, way, counted)
    for chunks in ({}, {"y": 23, "x": 60}):
        found = he.run(text, on_device, chunks=chunks, **how)
        for one in expected.data_vars:
            array = variable_data(found, str(one)).data
            assert isinstance(array, cupy.ndarray)
            np.testing.assert_array_equal(array.get(), expected[one].values)
    assert max(moved, default=0) < min(int(data[one].nbytes) for one in data.data_vars) // 2
    for one in data.data_vars:  # which nothing has changed
        array = variable_data(on_device, str(one)).data
        np.testing.assert_array_equal(array.get(), data[one].values)


def test_a_killed_worker_leaves_no_device_memory(machine: CudaMachine) -> None:
    """Two processes share the device; one is killed, and the other makes the rest."""
    cupy: Any = pytest.importorskip("cupy")
    assert machine.facts.index >= 0
    text, data, how = case("wave", "float32")
    steps = 2_000
    how |= {"boundary": BOUNDARIES[0], "steps": steps, "target": "cuda", "chunks": {"y": 80}}
    expected = he.run(text, data, mode="resident", **how)
    free = cupy.cuda.runtime.memGetInfo()[0]
    struck: list[int] = []
    devices = [{"CUDA_VISIBLE_DEVICES": "0"}] * 2
    with (
        executors.worker_processes(devices, resources={"GPU": 1}) as cluster,
        DASK.Client(cluster, set_as_default=False) as client,
    ):
        processes = sorted(client.run(os.getpid).values())

        def strike(event: Event) -> None:
            if isinstance(event, StepsFinished) and event.steps_done > 100 and not struck:
                struck.append(processes[-1])
                os.kill(struck[0], signal.SIGKILL)

        found = he.run(text, data, mode="resident", on_event=strike, cluster=client, **how)
    assert struck
    for one in expected.data_vars:
        np.testing.assert_array_equal(found[one].values, expected[one].values)
    deadline = time.monotonic() + 30.0
    while cupy.cuda.runtime.memGetInfo()[0] < free - (64 << 20):
        assert time.monotonic() < deadline, "Device memory is left behind."
        time.sleep(0.1)
