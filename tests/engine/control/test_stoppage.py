"""Processes that are stopped for long, and those that are merely slow."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from itertools import pairwise

import pytest
from deadlines import until
from hypothesis import given
from hypothesis import strategies as st

from halocline_engine.control.stoppage import STOPPED_SECONDS, Stoppage, ending_stopped, is_stopped


@pytest.fixture
def sleeper() -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["/bin/sleep", "600"])
    yield process
    process.kill()
    process.wait()


def seconds_until_over(stops: list[tuple[float, bool]]) -> float | None:
    """Return the time of the first look at which a process is given up."""
    stoppage = Stoppage()
    return next((now for now, stopped in stops if stoppage.is_over(now, stopped=stopped)), None)


def test_a_pause_of_ten_seconds_costs_nothing_and_one_of_a_minute_ends() -> None:
    looks = [tick / 10 for tick in range(1200)]
    assert seconds_until_over([(now, now < 10) for now in looks]) is None
    over = seconds_until_over([(now, 5 <= now < 65) for now in looks])
    assert over is not None
    assert abs(over - (5 + STOPPED_SECONDS)) < 1


def test_a_process_that_goes_on_in_between_is_not_given_up() -> None:
    looks = [tick / 10 for tick in range(3000)]
    assert seconds_until_over([(now, now % 15 < 14.5) for now in looks]) is None


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.booleans()), max_size=60))
def test_it_is_over_only_after_enough_looks_at_a_stopped_process(
    steps: list[tuple[float, bool]],
) -> None:
    """However long the observer was away itself: a suspended machine has stopped nobody."""
    now, looks = 0.0, list[tuple[float, bool]]()
    for step, stopped in steps:
        now += step
        looks.append((now, stopped))
    over = seconds_until_over(looks)
    row = longest = 0.0
    for (before, _), (after, stopped) in pairwise(looks):
        row = row + min(after - before, 1.0) if stopped else 0.0
        longest = max(longest, row)
    assert (over is not None) == (longest >= STOPPED_SECONDS)


def test_the_system_tells_a_stopped_process_from_a_sleeping_one(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert not is_stopped(sleeper.pid)
    os.kill(sleeper.pid, signal.SIGSTOP)
    until(lambda: is_stopped(sleeper.pid))
    os.kill(sleeper.pid, signal.SIGCONT)
    until(lambda: not is_stopped(sleeper.pid))
    sleeper.kill()
    sleeper.wait()
    assert not is_stopped(sleeper.pid)


def test_what_is_stopped_for_long_is_killed(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halocline_engine.control.stoppage.STOPPED_SECONDS", 0.1)
    monkeypatch.setattr("halocline_engine.control.stoppage._LOOK_SECONDS", 0.02)
    other = subprocess.Popen(["/bin/sleep", "600"])
    with ending_stopped(lambda: [sleeper.pid, other.pid]):
        sleeper.send_signal(signal.SIGSTOP)
        assert sleeper.wait(30) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()
