"""Threads that share the pieces of a kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from halocline_engine.backends.base import Value

__all__ = ["Team", "taken"]

_Item = TypeVar("_Item")


class Team:
    """The threads of an executable; they start when work comes, and idle ones are used first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def run(
        self, compiled: Callable[..., None], pieces: Sequence[tuple[Value, ...]], threads: int
    ) -> None:
        """Run a kernel on pieces, each by the thread that comes first."""
        if len(pieces) == 1:
            compiled(*pieces[0])
            return
        left = deque(pieces)

        def some() -> None:
            for words in taken(left):
                compiled(*words)

        self.share(some, min(threads, len(pieces)))

    def share(self, work: Callable[[], None], workers: int) -> None:
        """Work here and in other threads, and wait for all that began; each takes what is left."""
        pool = self._threads() if workers > 1 else None
        others = [pool.submit(work) for _ in range(workers - 1)] if pool else []
        work()
        for other in others:
            if not other.cancel():
                other.result()

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(thread_name_prefix="halocline-cpu")
            return self._pool


def taken(work: deque[_Item]) -> Iterator[_Item]:
    """Yield what no thread has taken yet; threads share the work."""
    while True:
        try:
            yield work.popleft()
        except IndexError:
            return
