"""Lifetime of processes: they end with the one that started them, and when stopped for long."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from dataclasses import dataclass

import psutil

__all__ = ["STOPPED_SECONDS", "Stoppage", "end_with", "is_stopped"]

#: Seconds for which a process may be stopped by a signal before it is given up.
STOPPED_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1
# However long ago the last look was, it adds no more than this: the observer was away itself.
_LONGEST_STEP = 1.0


def end_with(parent: int) -> None:
    """Have the system end this process when `parent`, which started it, ends.

    By SIGKILL: a Dask worker that is asked to end waits for a scheduler that is gone as well, with
    its port open. What a killed process leaves is taken up at the next start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we asked
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class Stoppage:
    """Seconds for which a process has been stopped, summed over looks at it.

    A process that is merely slow is never stopped: the system says so by its state, however little
    of a processor it gets.
    """

    seconds: float = 0.0
    looked: float | None = None

    def is_over(self, now: float, *, stopped: bool) -> bool:
        """Add a look at time `now`; return whether the process has been stopped for too long."""
        passed = 0.0 if self.looked is None else min(now - self.looked, _LONGEST_STEP)
        self.looked = now
        self.seconds = self.seconds + passed if stopped else 0.0
        return self.seconds >= STOPPED_SECONDS


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process; one that a debugger holds is not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False
