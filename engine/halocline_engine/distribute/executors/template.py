"""A process that has loaded what workers need, and that new ones are forked from.

It is that of `multiprocessing`, which the first of whoever needs it starts and the others share.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Generator, Mapping
from multiprocessing import forkserver

__all__ = ["LOADED", "end_if_new", "start_template"]

#: The module that it imports.
LOADED = "halocline_engine.distribute.executors.loaded"


def start_template(environment: Mapping[str, str]) -> str:
    """Start it, unless it runs, and return the method by which Dask gets workers from it.

    It is told the `environment` that libraries read when they are loaded. Waits for nothing.
    """
    end_if_new()
    if sys.platform != "linux":  # elsewhere libraries do not survive a fork
        return "spawn"
    forkserver.set_forkserver_preload([LOADED])
    with _told(environment):
        forkserver.ensure_running()
    return "forkserver"


def end_if_new() -> None:
    """End this process if it is one that others start here.

    A new process runs the user's script to know what it defines: then it has come to the call that
    started it. The one that did says what is wrong.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


@contextlib.contextmanager
def _told(environment: Mapping[str, str]) -> Generator[None]:
    """Have an environment for a moment, where it says nothing yet."""
    added = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
