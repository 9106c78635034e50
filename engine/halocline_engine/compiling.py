"""The time that threads spend until machine code is there, apart from that of the work itself."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter

__all__ = ["compiled_seconds", "compiling"]


class _OfThread(threading.local):
    seconds = 0.0


_spent = _OfThread()


@contextmanager
def compiling() -> Generator[None]:
    """Count what is done meanwhile as compiling, or as loading what was compiled before."""
    began = perf_counter()
    try:
        yield
    finally:
        _spent.seconds += perf_counter() - began


def compiled_seconds() -> float:
    """Return the seconds that this thread has spent so far.

    >>> before = compiled_seconds()
    >>> with compiling():
    ...     pass
    >>> compiled_seconds() > before
    True
    """
    return _spent.seconds
