"""Worker processes that a call started and the next one uses again.

Starting processes takes seconds, and so does everything that they load and compile first. They end
when nobody has used them for `IDLE` seconds, and with this process.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from halocline_engine.distribute.executors.dask import ClusterPool, start

__all__ = ["IDLE", "reused"]

#: Seconds that workers stay for another call.
IDLE = 300.0


@dataclass(slots=True)
class _Started:
    """Workers that wait: how many for which target, and what ends them."""

    workers: int
    target: str
    pool: ClusterPool
    stack: ExitStack

    @property
    def healthy(self) -> bool:
        """Whether all of them are still there."""
        try:
            return self.pool.client.status == "running" and self.pool.workers == self.workers
        except Exception:
            return False


class _Idle:
    """The workers that wait for the next call, of one number and target at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: _Started | None = None
        self._timer: threading.Timer | None = None

    def take(self, workers: int, target: str) -> _Started | None:
        """Return workers that fit; what waits and does not fit ends."""
        found = self._exchange(None)
        if found is None:
            return None
        if (found.workers, found.target) == (workers, target) and found.healthy:
            return found
        found.stack.close()
        return None

    def leave(self, started: _Started) -> None:
        """Let workers wait; others that waited end."""
        before = self._exchange(started)
        if before is not None:
            before.stack.close()

    def _exchange(self, started: _Started | None) -> _Started | None:
        with self._lock:
            before, self._waiting = self._waiting, started
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if started is not None:
                self._timer = threading.Timer(IDLE, self._end, (started,))
                self._timer.daemon = True
                self._timer.start()
            return before

    def _end(self, started: _Started) -> None:
        with self._lock:
            if self._waiting is not started:
                return
            self._waiting = self._timer = None
        started.stack.close()


@contextmanager
def reused(workers: int, target: str) -> Generator[ClusterPool]:
    """Use worker processes on this machine, which wait for the next call afterwards.

    Each call has its own while it runs. After an error nobody knows what they still do: they end.
    """
    idle = _idle(os.getpid())
    found = idle.take(workers, target)
    if found is None:
        stack = ExitStack()
        pool = stack.enter_context(start(workers, target))
        found = _Started(workers, target, pool, stack)
    try:
        yield found.pool
    except BaseException:
        found.stack.close()
        raise
    idle.leave(found)


@functools.cache
def _idle(process: int) -> _Idle:  # noqa: ARG001 - a fork of this process has its own
    return _Idle()
