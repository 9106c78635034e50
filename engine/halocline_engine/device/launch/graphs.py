"""Work that is done again and again, as a CUDA graph.

A launch from Python takes longer than a kernel on a small grid; a graph of many launches takes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from time import perf_counter

from halocline_engine.device.cupy_types import Event, MemoryPool, Stream, cupy
from halocline_engine.device.launch.capture import Graph, captured

__all__ = ["Recorded", "Repetition", "record"]

#: How often work is in one graph, at least and at most. Recording takes the host about as long as
#: the device takes to begin so many graphs.
_LEAST = 4
_MOST = 32
_RECORDING = 32
#: Seconds of work between two looks at who may have asked for the end. As much may be queued while
#: the device does the same.
_SHOWN = 0.02


@dataclass(frozen=True, slots=True)
class Recorded:
    """Work that was recorded for a stream, and the memory that it has for itself."""

    graph: Graph
    stream: Stream
    pool: MemoryPool

    def launch(self) -> None:
        """Queue the work."""
        self.graph.launch(self.stream)


def record(work: Callable[[], None], times: int) -> Recorded:
    """Record for the current stream what `work` queues, so many times, without doing it.

    Memory that `work` allocates comes from a pool of its own while it is recorded, so that nothing
    else gets it before the end.
    """
    cuda = cupy().cuda
    stream = cuda.get_current_stream()
    pool = cuda.MemoryPool()
    recorder = cuda.Stream(non_blocking=True)
    with recorder, cuda.using_allocator(pool.malloc):
        graph = captured(recorder, work, times)
    return Recorded(graph, stream, pool)


class Repetition:
    """Work that is done again and again; what was recorded of it is kept.

    It is always done on the same stream, by one thread at a time.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._took: float | None = None
        self._recorded: dict[int, Recorded] = {}

    def __call__(self, times: int, look: Callable[[], None] | None = None) -> None:
        """Do what the work queues on the current stream so many times; return when it is complete.

        `look` is called now and then; what it raises is raised when nothing is under way any more.
        """
        stream = cupy().cuda.get_current_stream()
        pace = _Pace(stream, look)
        try:
            if times > _LEAST and (self._took is None or self._took > _SHOWN / _LEAST):
                # What took long may have loaded its code at that time.
                self._took = _seconds(self._work, stream)
                times -= 1
            took = _SHOWN if self._took is None else self._took
            each = 1 if self._took is None else self._each(times, took)
            if each > 1:
                recorded = self._recorded[each]
                for _ in range(times // each):
                    pace.queue(recorded.launch, took * each)
                times %= each
            for _ in range(times):
                pace.queue(self._work, took)
        finally:
            stream.synchronize()

    def _each(self, times: int, took: float) -> int:
        """Return how often the work is in a graph that is there, 1 where there is no use for one.

        A graph that was recorded before serves as long as one twice as long is not worth it.
        """
        wanted = _each(times, took)
        known = max((each for each in self._recorded if each <= times), default=0)
        if 1 < wanted <= times and wanted >= 2 * known:
            self._recorded[wanted] = record(self._work, wanted)
            return wanted
        return max(known, 1)


def _seconds(work: Callable[[], None], stream: Stream) -> float:
    """Do the work once, and return how long it took, the host's part of it included."""
    stream.synchronize()
    began = perf_counter()
    work()
    stream.synchronize()
    return perf_counter() - began


def _each(times: int, took: float) -> int:
    """Return how often work that took so many seconds is in one graph that is queued again.

    >>> [_each(times, 1e-5) for times in (20, 500, 5000, 10**6)], _each(500, 1e-2)
    ([4, 4, 12, 32], 2)
    """
    worth = isqrt(times // _RECORDING)
    return max(1, min(int(_SHOWN / took), max(_LEAST, min(_MOST, worth))))


class _Pace:
    """Limit of the distance between host and device, with a look at the outside at each stop."""

    def __init__(self, stream: Stream, look: Callable[[], None] | None) -> None:
        self._stream, self._look = stream, look
        self._before: Event | None = None
        self._queued = 0.0

    def queue(self, work: Callable[[], None], seconds: float) -> None:
        """Queue work that takes so long at most."""
        work()
        self._queued += seconds
        if self._queued < _SHOWN:
            return
        self._queued = 0.0
        mark = cupy().cuda.Event(disable_timing=True)
        mark.record(self._stream)
        if self._look is not None:
            self._look()
        if self._before is not None:
            self._before.synchronize()
        self._before = mark
