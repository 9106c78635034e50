"""Interruption of long loops over the chunks of stores, which know nothing of the job they serve.

A store may declare millions of chunks, and reading them takes minutes. Whoever starts such work
says for its thread how to learn that nobody wants the result any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["interruptible", "raise_if_interrupted"]


class _OfThread(threading.local):
    check: Callable[[], None] | None = None


_current = _OfThread()


@contextmanager
def interruptible(check: Callable[[], None]) -> Generator[None]:
    """Let loops of this thread call `check` from time to time, which raises to end them."""
    before, _current.check = _current.check, check
    try:
        yield
    finally:
        _current.check = before


def raise_if_interrupted() -> None:
    """Raise what the current check raises; do nothing where no work is interruptible.

    >>> def stop() -> None:
    ...     raise RuntimeError("stopped")
    >>> raise_if_interrupted()
    >>> with interruptible(stop):
    ...     raise_if_interrupted()
    Traceback (most recent call last):
    RuntimeError: stopped
    """
    if _current.check is not None:
        _current.check()
