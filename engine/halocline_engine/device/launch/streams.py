"""A stream of one's own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import cupy

__all__ = ["SideStream", "brought", "new_array", "own_stream", "wait_for_all"]

#: Priority of a stream; the driver takes the highest one that there is.
_HIGHEST = -5


def wait_for_all() -> None:
    """Wait until all that was queued on the device is complete, on whichever stream."""
    cupy().cuda.runtime.deviceSynchronize()


def brought(values: NDArray[Any]) -> Any:
    """Return an array of CuPy with the values of one of the host."""
    return cupy().asarray(values)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array of CuPy, whose values are not defined."""
    return cupy().empty(shape, dtype)


class SideStream:
    """Another stream, of the highest priority, for work beside that of the current stream."""

    def __init__(self) -> None:
        cuda = cupy().cuda
        self._stream = cuda.Stream(non_blocking=True, priority=_HIGHEST)
        self._begun, self._done = (cuda.Event(disable_timing=True) for _ in range(2))

    def __call__(
        self, work: Sequence[Callable[[], None]], beside: Sequence[Callable[[], None]]
    ) -> None:
        """Queue both after what is queued; what is queued next on the current stream waits."""
        current = cupy().cuda.get_current_stream()
        self._begun.record(current)
        self._stream.wait_event(self._begun)
        with self._stream:
            for act in beside:
                act()
        self._done.record(self._stream)
        for act in work:
            act()
        current.wait_event(self._done)


@contextmanager
def own_stream() -> Generator[None]:
    """Have a new stream as the current one of this thread; what it has is complete at the end.

    Work of other threads goes on beside it, on the same device as well.
    """
    stream = cupy().cuda.Stream(non_blocking=True)
    with stream:
        try:
            yield
        finally:
            stream.synchronize()
