"""What a worker with a device needs, loaded before there is one; see `loaded`.

Nothing here asks the driver for anything: processes that are forked later could not use it.
"""

from __future__ import annotations

import contextlib
import threading
from importlib import import_module
from typing import Any

from halocline_engine.device.cupy_types import cupy
from halocline_engine.errors import DeviceError

__all__ = ["dask_setup"]

_NEEDED = (
    "distributed.nanny",
    "halocline_engine.distribute.communicators.dask",
    "halocline_engine.distribute.resident.work",
    "halocline_engine.distribute.pipeline.runs",
    "halocline_engine.backends.cuda.build",
    "halocline_engine.backends.cuda.runtime.executable",
)


def dask_setup(worker: Any) -> None:  # noqa: ARG001 - Dask calls it so when a worker begins
    """Have the driver get the device ready while the worker connects."""
    threading.Thread(target=_get_ready, name="halocline-device", daemon=True).start()


def _get_ready() -> None:
    """Make the context of the device; whoever uses it says what is wrong."""
    with contextlib.suppress(Exception):
        cupy().cuda.runtime.memGetInfo()


for _name in _NEEDED:
    import_module(_name)
with contextlib.suppress(DeviceError):
    cupy()
