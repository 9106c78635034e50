"""A stream of one's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from halocline_engine.device.cupy_types import cupy

__all__ = ["new_array", "own_stream", "wait_for_all"]


def wait_for_all() -> None:
    """Wait until all that was queued on the device is complete, on whichever stream."""
    cupy().cuda.runtime.deviceSynchronize()


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array of CuPy, whose values are not defined."""
    return cupy().empty(shape, dtype)


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
