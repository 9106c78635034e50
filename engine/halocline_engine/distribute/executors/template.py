"""A process that has loaded what workers need, and that new ones are forked from.

It is that of `multiprocessing`, which the first of whoever needs it starts and the others share.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Generator, Mapping
from importlib.util import find_spec
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

from halocline_engine.backends.registry import AUTO
from halocline_engine.backends.targets import HOST_TARGET

__all__ = ["LOADED", "LOADED_DEVICE", "end_if_new", "start_template", "start_template_early"]

#: What libraries that compute with threads read when they are loaded: workers have their own later.
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}

#: The module that it imports, and the one for workers with a device.
LOADED = "halocline_engine.distribute.executors.loaded"
LOADED_DEVICE = "halocline_engine.distribute.executors.loaded_device"


def start_template(environment: Mapping[str, str], loaded: str = LOADED) -> str:
    """Start it, unless it runs, and return the method by which Dask gets workers from it.

    It is told the `environment` that libraries read when they are loaded. Waits for nothing. One
    that runs already may have loaded other things; then workers load the rest themselves.
    """
    end_if_new()
    if sys.platform != "linux":  # elsewhere libraries do not survive a fork
        return "spawn"
    forkserver.set_forkserver_preload([loaded])
    with _told(environment), _holding_interrupts():
        forkserver.ensure_running()
    return "forkserver"


def start_template_early(target: str) -> None:
    """Start it before this process has loaded what it needs itself, which takes as long.

    Does nothing where it is not known yet whether workers will have devices.
    """
    devices = _has_devices()
    if target == HOST_TARGET or (target == AUTO and not devices):
        start_template(_ONE_THREAD, LOADED)
    elif devices:
        start_template(_ONE_THREAD, LOADED_DEVICE)


def _has_devices() -> bool:
    """Whether it looks as if CUDA devices can be used here, without the driver being asked."""
    return find_spec("cupy") is not None and any(Path("/dev").glob("nvidia[0-9]*"))


def end_if_new() -> None:
    """End this process if it is one that others start here.

    A new process runs the user's script to know what it defines: then it has come to the call that
    started it. The one that did says what is wrong.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


@contextlib.contextmanager
def _holding_interrupts() -> Generator[None]:
    """Hold back Ctrl-C until the end, and from new processes for good.

    This process ends them, and they would print tracebacks. They have the signals that this thread
    blocks; a signal that another thread gets is noted here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    resource_tracker.ensure_running()  # its start lets interrupts through again
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)


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
