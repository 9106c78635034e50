"""Work that a fake device does again and again: how often, and who may ask for the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from halocline_engine.device.launch import graphs


@dataclass
class Device:
    """Work takes `run` seconds of the device, and no time of the host."""

    run: float
    now: float = 0.0
    free: float = 0.0
    done: int = 0
    recording: int | None = None
    graphs: list[int] = field(default_factory=list[int])

    def work(self) -> None:
        if self.recording is None:
            self.take(1)
        else:
            self.recording += 1

    def take(self, times: int) -> None:
        self.done += times
        self.free = max(self.free, self.now) + times * self.run

    def wait(self, until: float) -> None:
        self.now = max(self.now, until)

    def cupy(self) -> Any:
        def event(*, disable_timing: bool) -> Any:
            assert disable_timing
            return Mark(self)

        def queue(_allocator: object = None, *, non_blocking: bool = True) -> Queue:
            assert non_blocking
            return Queue(self)

        cuda = SimpleNamespace(
            get_current_stream=queue,
            Stream=queue,
            MemoryPool=lambda: SimpleNamespace(malloc=None),
            using_allocator=queue,
            Event=event,
        )
        return SimpleNamespace(cuda=cuda)


@dataclass
class Mark:
    device: Device
    at: float = 0.0

    def record(self, stream: object) -> None:
        self.at = self.device.free

    def synchronize(self) -> None:
        self.device.wait(self.at)


@dataclass
class Graph:
    device: Device
    times: int

    def launch(self, stream: object) -> None:
        self.device.take(self.times)


@dataclass
class Queue:
    device: Device

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *details: object) -> None:
        return None

    def synchronize(self) -> None:
        self.device.wait(self.device.free)


def captured(stream: Queue, work: Callable[[], None], times: int) -> Graph:
    device = stream.device
    device.recording = 0
    for _ in range(times):
        work()
    found, device.recording = Graph(device, device.recording), None
    device.graphs.append(found.times)
    return found


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Device]:
    def made(run: float) -> Device:
        device = Device(run)
        monkeypatch.setattr(graphs, "cupy", device.cupy)
        monkeypatch.setattr(graphs, "captured", captured)
        monkeypatch.setattr(graphs, "perf_counter", lambda: device.now)
        return device

    return made


def repeat(work: Callable[[], None], times: int, look: Callable[[], None] | None = None) -> None:
    graphs.Repetition(work)(times, look)


@pytest.mark.parametrize("run", [2e-6, 1e-3, 0.05])
@pytest.mark.parametrize("times", [0, 1, 4, 5, 40, 499, 30_000])
def test_work_is_done_so_often(on: Callable[[float], Device], run: float, times: int) -> None:
    device = on(run)
    repeat(device.work, times)
    assert device.done == times
    assert device.now == pytest.approx(times * run)
    assert len(device.graphs) == (times > 4 and run < 0.01)


def test_graphs_are_longer_where_there_are_many(on: Callable[[float], Device]) -> None:
    device = on(2e-6)
    for times in (10, 499, 5000, 100_000):
        repeat(device.work, times)
    assert device.graphs == [4, 4, 12, 32]


def test_what_was_recorded_serves_again(on: Callable[[float], Device]) -> None:
    device = on(2e-6)
    repetition = graphs.Repetition(device.work)
    for times in (10, 499, 700, 5000, 100_000, 100_000, 3):
        repetition(times)
    assert device.graphs == [4, 12, 32]
    assert device.done == 206_212


@pytest.mark.parametrize("run", [2e-6, 1e-4, 4e-3, 0.04])
def test_somebody_looks_ten_times_a_second(on: Callable[[float], Device], run: float) -> None:
    """Whoever asks for the end does not wait for what was queued long before."""
    device, asked = on(run), 0.3

    def look() -> None:
        if device.now >= asked:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeat(device.work, 10**6, look)
    assert asked <= device.now == device.free <= asked + 0.1


def test_the_device_is_never_idle(on: Callable[[float], Device]) -> None:
    device, behind = on(3e-3), list[float]()
    repeat(device.work, 1000, lambda: behind.append(device.free - device.now))
    assert len(behind) > 90
    assert min(behind) > 0.01
