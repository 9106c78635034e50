"""Time that workers spend on each activity."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields

from halocline_engine.compiling import compiled_seconds

__all__ = ["Counts", "Interval", "Spent", "Stopwatch"]

#: Maximum number of intervals of a rank; neighbours are merged to stay below it.
_MOST = 64


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of each activity; the remaining time was spent waiting.

    `reading` and `writing` are transfers between stores and the memory of the host, `sending` and
    `fetching` between the host and a device. `halos` is the exchange of halos by the host; an
    exchange by kernels is part of `computing`. A streamed block reads its halo with its own cells.
    `compiling` is the wait for machine code of kernels, compiled or loaded from the cache.
    """

    reading: float = 0.0
    sending: float = 0.0
    compiling: float = 0.0
    computing: float = 0.0
    halos: float = 0.0
    fetching: float = 0.0
    writing: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        """Return the sums.

        >>> (Spent(reading=1.0) + Spent(reading=2.0, halos=0.5)).reading
        3.0
        """
        return Spent(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Counts:
    """Seconds of a block or a run, and bytes moved.

    `bytes_read` and `bytes_written` count uncompressed array elements; `peak_bytes` is the largest
    resident size of a process that computed; `fetches` is the number of fetched chunks, if counted.
    `bytes_zero_copy` are the bytes transferred to or from a device without a copy on the host, and
    `bytes_direct_io` those transferred between files and a device, or decoded on a device.
    """

    seconds: float
    bytes_read: int
    bytes_written: int
    peak_bytes: int
    fetches: int = 0
    bytes_zero_copy: int = 0
    bytes_direct_io: int = 0


@dataclass(frozen=True, slots=True)
class Interval:
    """Activities of a rank between two times, in seconds since its start."""

    began: float
    ended: float
    spent: Spent

    def merge(self, other: Interval) -> Interval:
        """Return the union of this interval and the next."""
        return Interval(self.began, other.ended, self.spent + other.spent)

    def numbers(self) -> tuple[float, ...]:
        """Return start, end, and the seconds of each activity."""
        return tuple(round(one, 6) for one in (self.began, self.ended, *astuple(self.spent)))


@dataclass(slots=True)
class Stopwatch:
    """Stopwatch of the activities of a rank, in consecutive intervals; for one thread."""

    began: float = field(default_factory=time.perf_counter)
    total: Spent = field(default_factory=Spent)
    _seconds: dict[str, float] = field(
        default_factory=lambda: {one.name: 0.0 for one in fields(Spent)}
    )
    _intervals: list[Interval] = field(default_factory=list["Interval"])

    @contextmanager
    def spending(self, activity: str) -> Generator[None]:
        """Measure an activity, a field of `Spent`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(activity, time.perf_counter() - began)

    @contextmanager
    def stepping(self) -> Generator[None]:
        """Measure steps, without the measured exchanges of halos between them."""
        halos, compiled = self._seconds["halos"], compiled_seconds()
        began = time.perf_counter()
        yield
        seconds, compiled = time.perf_counter() - began, compiled_seconds() - compiled
        self.add("compiling", compiled)
        self.add("computing", seconds - compiled - (self._seconds["halos"] - halos))

    def measured(self, activity: str, acts: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Return a function that calls some functions and measures their time."""

        def act() -> None:
            began = time.perf_counter()
            for one in acts:
                one()
            self.add(activity, time.perf_counter() - began)

        return act

    def add(self, activity: str, seconds: float) -> None:
        """Count seconds of an activity."""
        self._seconds[activity] += seconds

    def end_interval(self) -> None:
        """End an interval, and begin the next one."""
        spent = Spent(**self._seconds)
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        self.total = self.total + spent
        began = self._intervals[-1].ended if self._intervals else 0.0
        self._intervals.append(Interval(began, time.perf_counter() - self.began, spent))
        if len(self._intervals) > _MOST:
            some = self._intervals
            pairs = [a.merge(b) for a, b in zip(some[::2], some[1::2], strict=False)]
            self._intervals = pairs + some[2 * len(pairs) :]

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The completed intervals."""
        return tuple(self._intervals)
