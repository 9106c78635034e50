"""Lifetime of processes: they end with their parent, and workers give it signs of life.

Signs are bytes in a pipe, written by the event loop of a worker. They go through no network and no
scheduler, so that only a worker which hangs gives none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import Any

__all__ = ["SIGN_VARIABLE", "dask_setup", "end_with", "open_pipe", "take_signs"]

#: Environment variable with the descriptor of the pipe.
SIGN_VARIABLE = "SUPERVISOR_SIGN_FD"
_MILLISECONDS = 5000
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


def open_pipe() -> tuple[int, int]:
    """Make a pipe, neither of whose ends ever waits: that of the supervisor and the worker's."""
    mine, theirs = os.pipe()
    os.set_blocking(mine, False)
    os.set_blocking(theirs, False)
    return mine, theirs


def take_signs(pipe: int) -> bool:
    """Return whether there were signs since this was asked last."""
    try:
        return bool(os.read(pipe, 65536))
    except BlockingIOError:
        return False


def dask_setup(worker: Any) -> None:  # noqa: ARG001 - Dask calls it so when a worker begins
    """Give signs from now on."""
    from tornado.ioloop import PeriodicCallback

    given = os.environ.get(SIGN_VARIABLE)
    if not given:  # nobody listens
        return
    pipe = int(given)

    def give_sign() -> None:
        with contextlib.suppress(BlockingIOError):  # the supervisor itself is stopped
            os.write(pipe, b".")

    PeriodicCallback(give_sign, _MILLISECONDS).start()
