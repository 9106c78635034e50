"""Processes that end with the one that started them, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["end_with"]

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Have the system end this process when `parent`, which started it, ends.

    By SIGKILL: a Dask worker that is asked to end waits for a scheduler that is gone as well, with
    its port open. What a killed process leaves is taken up at the next start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we asked
            os.kill(os.getpid(), signal.SIGKILL)
