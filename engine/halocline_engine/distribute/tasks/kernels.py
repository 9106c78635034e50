"""Kernel libraries of the current device, with cached machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable

from halocline_engine.backends.targets import DEVICE_TARGET, TARGETS
from halocline_engine.cache import Cache, code_folder, key_of
from halocline_engine.kernels.machine import Library, Machine, most_shared

__all__ = ["current", "device_index", "device_library"]


def device_library() -> Library:
    """Return the kernel library of the current device, with cached machine code."""
    return current(device_index(DEVICE_TARGET))[1]


def device_index(target: str) -> int:
    """Return the number of the current device, or -1 if the target needs none."""
    if not TARGETS[target].on_device:
        return -1
    from halocline_engine.device.probe import device_number

    return device_number()


@functools.lru_cache(maxsize=8)
def current(device: int) -> tuple[Machine, Library, int]:
    """Return machine, kernel library and largest shared memory of the current device."""
    from halocline_engine.device.machine import current_machine

    machine = current_machine()
    assert machine.facts.index == device
    cache = Cache(code_folder("cuda"))

    def keep(name: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        return cache.get(key_of(*name), make)

    return machine, Library(machine, keep), most_shared(machine.facts.capability)
