"""Memory that CuPy keeps for later, and that goes back to the device after a while."""

from __future__ import annotations

import sys
import threading

from halocline_engine.device.cupy_types import cupy

__all__ = ["DEVICE_USE", "KEPT_SECONDS", "DeviceUse", "release_idle_memory"]

#: Seconds from the end of a job until memory that nothing uses goes back. Taking a gigabyte from
#: the device again costs a millisecond, and page-locked memory of the host half a second.
KEPT_SECONDS = 10.0


def release_idle_memory(device: int) -> None:
    """Give back what nothing in this process uses, on a device and page-locked on the host."""
    cupy().cuda.runtime.setDevice(device)
    cupy().get_default_memory_pool().free_all_blocks()
    cupy().get_default_pinned_memory_pool().free_all_blocks()


def _device_in_use() -> int | None:
    """Return the current device; None where this process keeps no memory there."""
    if "cupy" not in sys.modules:
        return None
    runtime = cupy().cuda.runtime
    try:
        kept = cupy().get_default_memory_pool().total_bytes()
        return runtime.getDevice() if kept else None
    except runtime.CUDARuntimeError:  # there is no driver
        return None


class DeviceUse:
    """Context of the jobs of a process: `seconds` after the last one, idle memory goes back."""

    def __init__(self, seconds: float = KEPT_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._jobs = 0
        self._devices: set[int] = set()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        """Begin a job, which has what earlier ones kept."""
        with self._lock:
            self._jobs += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def __exit__(self, *details: object) -> None:
        """End a job."""
        device = _device_in_use()
        with self._lock:
            self._jobs -= 1
            if device is not None:
                self._devices.add(device)
            if self._jobs == 0 and self._devices:
                self._timer = threading.Timer(self._seconds, self._release)
                self._timer.daemon = True
                self._timer.start()

    def _release(self) -> None:
        with self._lock:  # a job that begins meanwhile waits
            while self._jobs == 0 and self._devices:
                release_idle_memory(self._devices.pop())


#: The use of devices by the jobs of this process.
DEVICE_USE = DeviceUse()
