"""Queues of work on a device."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from halocline_engine.device.cupy_types import Stream, cupy

__all__ = ["own_stream", "synchronize"]


@contextmanager
def own_stream() -> Generator[Stream]:
    """Make a new stream the current one of this thread; at the end its work is complete."""
    stream = cupy().cuda.Stream(non_blocking=True)
    with stream:
        yield stream
        stream.synchronize()


def synchronize() -> None:
    """Wait until the work of the current stream is complete."""
    cupy().cuda.get_current_stream().synchronize()
