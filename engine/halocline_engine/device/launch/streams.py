"""A stream of one's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from halocline_engine.device.cupy_types import cupy

__all__ = ["own_stream"]


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
