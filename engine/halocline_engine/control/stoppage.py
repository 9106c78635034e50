"""Processes that a signal has stopped: they are ended by whoever started them, after a while.

A process that is merely slow is not among them: the system says by its state which one is stopped,
however little of a processor others get. What is ended closes its connections, so that everyone who
waits for it knows at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import psutil

__all__ = ["STOPPED_SECONDS", "Stoppage", "ending_stopped", "is_stopped"]

#: Seconds for which a process may be stopped before it is ended.
STOPPED_SECONDS = 20.0
# However long ago the last look was, it adds no more than this: the observer was away itself.
_LONGEST_STEP = 1.0
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Stoppage:
    """Seconds for which a process has been stopped or silent, summed over looks at it."""

    seconds: float = 0.0
    looked: float | None = None

    def is_over(self, now: float, *, stopped: bool, most: float | None = None) -> bool:
        """Add a look at time `now`; return whether it has been stopped for too long.

        That is `STOPPED_SECONDS`, unless `most` says otherwise.
        """
        passed = 0.0 if self.looked is None else min(now - self.looked, _LONGEST_STEP)
        self.looked = now
        self.seconds = self.seconds + passed if stopped else 0.0
        return self.seconds >= (STOPPED_SECONDS if most is None else most)


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process; one that a debugger holds is not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


@contextlib.contextmanager
def ending_stopped(pids: Callable[[], Iterable[int]]) -> Generator[None]:
    """Meanwhile, kill each process of those that `pids` lists which is stopped for too long."""
    over = threading.Event()

    def watch() -> None:
        stoppages: defaultdict[int, Stoppage] = defaultdict(Stoppage)
        while not over.wait(_LOOK_SECONDS):
            for pid in pids():
                if stoppages[pid].is_over(time.monotonic(), stopped=is_stopped(pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=watch, name="halocline-stopped", daemon=True).start()
    try:
        yield
    finally:
        over.set()
