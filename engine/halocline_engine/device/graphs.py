"""Work that is done again and again, as a CUDA graph.

A launch from Python takes longer than a kernel on a small grid; a graph of many launches takes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from halocline_engine.device.door import Graph, MemoryPool, Stream, cupy

__all__ = ["Recorded", "captured", "record", "repeat"]

#: cudaStreamCaptureModeRelaxed: memory may be allocated meanwhile, by any thread.
_RELAXED = 2
#: How often the work is in one graph.
_TIMES = 16


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


def captured(stream: Stream, work: Callable[[], None], times: int = 1) -> Graph:
    """Return as a graph what `work` queues on a stream, so many times; nothing is done yet."""
    stream.begin_capture(_RELAXED)
    try:
        for _ in range(times):
            work()
    finally:
        graph = stream.end_capture()
    return graph


def repeat(work: Callable[[], None], times: int) -> None:
    """Do what `work` queues on the current stream so many times, and wait until it is complete."""
    stream = cupy().cuda.get_current_stream()
    if times >= _TIMES:
        recorded = record(work, _TIMES)
        for _ in range(times // _TIMES):
            recorded.launch()
        stream.synchronize()
    for _ in range(times % _TIMES):
        work()
    stream.synchronize()
