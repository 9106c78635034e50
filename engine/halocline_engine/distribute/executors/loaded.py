"""What a worker that computes on processors needs, loaded before there is one.

New workers are forked from a process that has imported this module. What read its number of threads
when it was loaded is told that of each worker by `dask_setup`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import numba

__all__ = ["dask_setup"]

_NEEDED = (
    "distributed.nanny",
    "halocline_engine.distribute.communicators.dask",
    "halocline_engine.distribute.resident.work",
    "halocline_engine.backends.cpu.run",
    "numba.core.registry",
)
_numba: Any = cast("Any", numba)


def dask_setup(worker: Any) -> None:  # noqa: ARG001 - Dask calls it so when a worker begins
    """Have compiled code use as many threads as the environment says by now."""
    _numba.config.reload_config()


for _name in _NEEDED:
    import_module(_name)
# Before code is loaded from the disk, all functions that code may call are registered: a second.
_numba.core.registry.cpu_target.typing_context.refresh()
_numba.core.registry.cpu_target.target_context.refresh()
