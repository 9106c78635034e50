"""Time that work takes on the current device, by its own events.

The device must never wait for Python while the clock runs. So the first event goes behind a call
that is under way, and work that is shorter than queuing it is recorded as a graph of many calls.
"""

from __future__ import annotations

from collections.abc import Callable

from halocline_engine.device.cupy_types import cupy
from halocline_engine.device.launch.graphs import record
from halocline_engine.errors import DeviceError

__all__ = ["seconds_of"]

#: Calls shorter than this many seconds are recorded: queuing one takes up to a fifth of it.
_SHORT = 3e-4
#: What one timing should last, in seconds, and how many calls it has at least and at most.
_LASTING = 5e-3
_LEAST, _MOST = 2, 20
_RECORDED = 16


def seconds_of(work: Callable[[], None]) -> float:
    """Return the seconds that a call of `work` takes, which queues work on the current stream.

    It was called before, and copies nothing from or to the host. Raises `DeviceError` where the
    device fails.
    """
    failure = cupy().cuda.runtime.CUDARuntimeError
    try:
        return _seconds_of(work)
    except failure as error:
        raise DeviceError(f"Work could not be timed: {error}.") from error


def _seconds_of(work: Callable[[], None]) -> float:
    seconds = _timed(work, _LEAST)
    if seconds >= _SHORT:
        calls = min(_MOST, int(_LASTING / seconds))
        return seconds if calls <= _LEAST else _timed(work, calls)
    recorded = record(work, _RECORDED)
    launches = max(_LEAST, min(_MOST, int(_LASTING / (_RECORDED * seconds))))
    return _timed(recorded.launch, launches) / _RECORDED


def _timed(work: Callable[[], None], calls: int) -> float:
    """Return the seconds of each of some calls, behind one that is under way."""
    cuda = cupy().cuda
    stream = cuda.get_current_stream()
    begin, end = cuda.Event(disable_timing=False), cuda.Event(disable_timing=False)
    work()
    begin.record(stream)
    for _ in range(calls):
        work()
    end.record(stream)
    end.synchronize()
    return cuda.get_elapsed_time(begin, end) / 1e3 / calls
