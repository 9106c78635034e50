"""Work that is done again and again, as a CUDA graph.

A launch from Python takes longer than a kernel on a small grid; a graph of many launches takes one.
"""

from __future__ import annotations

from collections.abc import Callable

from halocline_engine.device.door import cupy

__all__ = ["repeat"]

#: cudaStreamCaptureModeRelaxed: memory may be allocated meanwhile, by any thread.
_RELAXED = 2
#: How often the work is in one graph.
_TIMES = 16


def repeat(work: Callable[[], None], times: int) -> None:
    """Do what `work` queues on the current stream so many times, and wait until it is complete.

    Memory that `work` allocates comes from a pool of its own while it is recorded, so that nothing
    else gets it before the end.
    """
    cuda = cupy().cuda
    stream = cuda.get_current_stream()
    if times >= _TIMES:
        pool = cuda.MemoryPool()
        recorder = cuda.Stream(non_blocking=True)
        with recorder, cuda.using_allocator(pool.malloc):
            recorder.begin_capture(_RELAXED)
            try:
                for _ in range(_TIMES):
                    work()
            finally:
                graph = recorder.end_capture()
        for _ in range(times // _TIMES):
            graph.launch(stream)
        stream.synchronize()
    for _ in range(times % _TIMES):
        work()
    stream.synchronize()
