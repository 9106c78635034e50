"""Graphs by a fake driver: what is called, and what happens where that fails."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from halocline_engine.device.launch import capture
from halocline_engine.errors import DeviceError


class Driver:
    """Functions of the driver by name; each notes its call, and returns a status."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.flags = 0
        self.graph: int | None = 66
        self.failing = ""

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> int:
            self.calls.append(name)
            if name == "cuStreamEndCapture":
                given[1]._obj.value = self.graph
            if name == "cuGraphInstantiateWithFlags":
                given[0]._obj.value = 77
                self.flags = given[2].value
            return 700 if name == self.failing else 0

        return call


class Stream:
    ptr = 5


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(capture, "_driver", lambda: made)
    return made


def captured(work: Any, times: int = 1) -> capture.Graph:
    stream: Any = Stream()
    return capture.captured(stream, work, times)


def test_work_is_recorded_so_often_and_kernels_keep_their_priorities(driver: Driver) -> None:
    graph = captured(lambda: driver.calls.append("work"), 2)
    stream: Any = Stream()
    graph.launch(stream)
    assert driver.calls == [
        "cuStreamBeginCapture_v2",
        "work",
        "work",
        "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags",
        "cuGraphDestroy",
        "cuGraphLaunch",
    ]
    assert driver.flags == 8
    del graph
    gc.collect()
    assert driver.calls[-1] == "cuGraphExecDestroy"


@pytest.mark.parametrize("graph", [66, None])
def test_a_failure_ends_the_recording_and_gives_it_back(driver: Driver, graph: int | None) -> None:
    driver.graph = graph

    def work() -> None:
        raise KeyError("u")

    with pytest.raises(KeyError):
        captured(work)
    destroyed = [] if graph is None else ["cuGraphDestroy"]
    assert driver.calls == ["cuStreamBeginCapture_v2", "cuStreamEndCapture", *destroyed]


def test_the_driver_says_what_failed(driver: Driver) -> None:
    driver.failing = "cuGraphInstantiateWithFlags"
    with pytest.raises(DeviceError) as caught:
        captured(lambda: None)
    assert str(caught.value) == (
        "The driver's 'cuGraphInstantiateWithFlags' failed with status 700."
    )
    assert driver.calls[-1] == "cuGraphDestroy"
