"""Graphs of what streams queue, whose kernels keep the priorities of their streams.

CuPy's own graphs run all kernels with the priority of the stream that they are launched on.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from halocline_engine.device.cupy_types import Stream
from halocline_engine.errors import DeviceError

__all__ = ["Graph", "captured"]

#: CU_STREAM_CAPTURE_MODE_RELAXED: memory may be allocated meanwhile, by any thread.
_RELAXED = 2
#: CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY of the driver API.
_NODE_PRIORITY = 8


class Graph:
    """Work that is queued at once; `address` is that of the driver's executable graph.

    When nothing refers to it, it is given back, and what is under way goes on.
    """

    def __init__(self, address: int) -> None:
        self._address = address
        given_back = weakref.finalize(self, _driver().cuGraphExecDestroy, ctypes.c_void_p(address))
        given_back.atexit = False

    def launch(self, stream: Stream) -> None:
        """Queue the work on a stream."""
        _call("cuGraphLaunch", self._address, stream.ptr)


def captured(stream: Stream, work: Callable[[], None], times: int = 1) -> Graph:
    """Return as a graph what `work` queues on a stream, so many times; nothing is done yet.

    It may queue on other streams, which the stream waits for in the end.
    """
    _call("cuStreamBeginCapture_v2", stream.ptr, ctypes.c_int(_RELAXED))
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        try:
            for _ in range(times):
                work()
        except BaseException:
            _driver().cuStreamEndCapture(ctypes.c_void_p(stream.ptr), ctypes.byref(graph))
            raise
        _call("cuStreamEndCapture", stream.ptr, ctypes.byref(graph))
        of_graph = (ctypes.byref(executable), graph, ctypes.c_ulonglong(_NODE_PRIORITY))
        _call("cuGraphInstantiateWithFlags", *of_graph)
    finally:
        if graph.value is not None:  # a capture that something went wrong in may leave none
            _call("cuGraphDestroy", graph)
    assert executable.value is not None
    return Graph(executable.value)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of the driver; raises `DeviceError` where it fails."""
    given = [ctypes.c_void_p(one) if isinstance(one, int) else one for one in arguments]
    status = getattr(_driver(), name)(*given)
    if status:
        raise DeviceError(f"The driver's '{name}' failed with status {status}.")


@cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")
