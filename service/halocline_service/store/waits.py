"""Expired waits and peers last heard of, by the monotonic clock of this process.

The clock that tells the time is set, and differs between machines: a time that another process
wrote cannot be compared with it. What is compared is what this process saw.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from halocline_service.jobs.job import Lease
from halocline_service.store.base import Clock

__all__ = ["Heard", "Waits"]


class Waits:
    """Waiting times of jobs since they were first seen to, or since `begin`."""

    def __init__(self, ticks: Clock) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self._since: dict[Lease, float] = {}

    def begin(self, lease: Lease) -> None:
        """Count from now on for a job whose attempt was cut off."""
        with self._lock:
            self._since[lease] = self._ticks()

    def over(self, waiting: Iterable[tuple[Lease, float]]) -> list[str]:
        """Say which jobs have waited, of all that wait for some seconds; others are forgotten."""
        with self._lock:
            now, before, self._since = self._ticks(), self._since, {}
            over: list[str] = []
            for lease, seconds in waiting:
                since = self._since.setdefault(lease, before.get(lease, now))
                if now - since >= seconds:
                    over.append(lease.job_id)
            return over


@dataclass(frozen=True, slots=True)
class _Beat:
    told: float  # when, by the clock of who wrote it
    at: float  # by the monotonic clock of this process


class Heard:
    """Who wrote something new lately, told by the times that stand in their rows."""

    def __init__(self, clock: Clock, ticks: Clock) -> None:
        self._now = clock
        self._ticks = ticks
        self._lock = threading.Lock()
        self._beats: dict[str, _Beat] = {}
        self._looked = float("-inf")

    def within(self, seconds: float, told: Mapping[str, float]) -> set[str]:
        """Say who was heard of in the last seconds, of all rows that there are now.

        What was written since the last look is as old as the clocks say, but no older than that
        look, and not of the future.
        """
        with self._lock:
            now, clock = self._ticks(), self._now()
            gap, self._looked = now - self._looked, now
            beats: dict[str, _Beat] = {}
            for name, time in told.items():
                old = self._beats.get(name)
                if old is not None and old.told == time:
                    beats[name] = old
                    continue
                age = max(clock - time, 0.0)
                beats[name] = _Beat(time, now - (age if old is None else min(age, gap)))
            self._beats = beats
            return {name for name, beat in beats.items() if now - beat.at <= seconds}
