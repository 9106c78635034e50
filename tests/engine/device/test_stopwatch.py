"""The stopwatch on a fake device, where work takes a given time after it is queued."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from halocline_engine.device.launch import graphs, stopwatch
from halocline_engine.device.launch.stopwatch import seconds_of
from halocline_engine.errors import DeviceError


class Failure(Exception):
    pass


@dataclass
class Device:
    """Queuing a call takes `queue` seconds of the host, and running it `run` of the device."""

    run: float
    queue: float = 5e-5
    host: float = 0.0
    busy: float = 0.0
    recording: list[float] | None = None
    calls: int = 0

    def work(self) -> None:
        self.calls += 1
        self.host += self.queue
        if self.recording is not None:
            self.recording.append(self.run)
        else:
            self.take(self.run)

    def take(self, seconds: float) -> None:
        self.busy = max(self.busy, self.host) + seconds

    def cupy(self) -> Any:
        stream = FakeStream(self)

        def event(*, disable_timing: bool) -> FakeEvent:
            assert not disable_timing
            return FakeEvent(self)

        def elapsed(first: FakeEvent, last: FakeEvent) -> float:
            return 1e3 * (last.at - first.at)

        def recorder(*, non_blocking: bool) -> FakeStream:
            assert non_blocking
            return FakeStream(self)

        def allocating(_: object) -> AbstractContextManager[None]:
            return nullcontext()

        cuda = SimpleNamespace(
            runtime=SimpleNamespace(CUDARuntimeError=Failure),
            get_current_stream=lambda: stream,
            Event=event,
            get_elapsed_time=elapsed,
            MemoryPool=lambda: SimpleNamespace(malloc=None),
            Stream=recorder,
            using_allocator=allocating,
        )
        return SimpleNamespace(cuda=cuda)


@dataclass
class FakeEvent:
    device: Device
    at: float = 0.0

    def record(self, stream: object) -> None:
        self.at = max(self.device.busy, self.device.host)

    def synchronize(self) -> None:
        self.device.host = max(self.device.host, self.device.busy)


@dataclass
class FakeStream:
    device: Device

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *details: object) -> None:
        return None


def captured(stream: FakeStream, work: Callable[[], None], times: int) -> Any:
    device = stream.device
    recorded = device.recording = list[float]()
    for _ in range(times):
        work()
    device.recording = None

    def launch(_: object) -> None:
        device.host += 1e-5
        device.take(sum(recorded))

    return SimpleNamespace(launch=launch)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Device]:
    def made(run: float) -> Device:
        device = Device(run)
        for module in (graphs, stopwatch):
            monkeypatch.setattr(module, "cupy", device.cupy)
        monkeypatch.setattr(graphs, "captured", captured)
        return device

    return made


@pytest.mark.parametrize("run", [2e-6, 2e-5, 1e-4, 1e-3, 0.2])
def test_only_the_device_is_timed(on: Callable[[float], Device], run: float) -> None:
    device = on(run)
    assert seconds_of(device.work) == pytest.approx(run, rel=0.03)
    assert device.calls <= 22


def test_a_device_that_fails_is_an_error(on: Callable[[float], Device]) -> None:
    on(1e-3)

    def work() -> None:
        raise Failure("an illegal address")

    with pytest.raises(DeviceError) as caught:
        seconds_of(work)
    assert str(caught.value) == "Work could not be timed: an illegal address."


def test_long_work_is_called_no_more_than_it_must(on: Callable[[float], Device]) -> None:
    device = on(0.2)
    seconds_of(device.work)
    assert device.calls == 3
