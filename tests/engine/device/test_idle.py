"""Memory of a device that a process keeps: it goes back some time after the last job."""

from __future__ import annotations

import sys
import threading

import pytest
from fake_cupy import FakeCupy

from halocline_engine.device.memory import idle
from halocline_engine.device.memory.idle import DeviceUse


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    found = FakeCupy(kept=60 << 30)
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setattr(idle, "cupy", lambda: found)
    return found


class Clock:
    """Timers that are over when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[Clock.Timer] = []
        clock = self

        class Made(Clock.Timer):
            def start(self) -> None:
                clock.waiting.append(self)

            def cancel(self) -> None:
                clock.waiting.remove(self)

        monkeypatch.setattr(threading, "Timer", Made)

    class Timer:
        daemon = False

        def __init__(self, seconds: float, function: object) -> None:
            self.seconds, self.function = seconds, function

    def passes(self) -> None:
        for timer in self.waiting:
            assert timer.daemon
            assert callable(timer.function)
            timer.function()


def test_memory_goes_back_after_the_last_job(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, use = Clock(monkeypatch), DeviceUse(seconds=7.0)
    with use:
        with use:
            pass
        assert not clock.waiting, "a job still runs"
    assert [timer.seconds for timer in clock.waiting] == [7.0]
    assert fake.kept
    clock.passes()
    assert fake.kept == 0


def test_a_job_that_begins_keeps_the_memory(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, use = Clock(monkeypatch), DeviceUse()
    with use:
        pass
    late = clock.waiting[0]
    with use:
        assert not clock.waiting
        assert callable(late.function)
        late.function()  # its time was over just before
        assert fake.kept
    clock.passes()
    assert fake.kept == 0


def test_processes_without_a_device_wait_for_nothing(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, use = Clock(monkeypatch), DeviceUse()
    fake.kept = 0
    with use:
        pass
    fake.kept, fake.devices = 1, -1
    with use:
        pass
    monkeypatch.delitem(sys.modules, "cupy")
    with use:
        pass
    assert not clock.waiting
