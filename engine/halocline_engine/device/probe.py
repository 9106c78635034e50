"""CUDA devices of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.device.cupy_types import cupy
from halocline_engine.errors import DeviceError

__all__ = ["DeviceFacts", "device_bytes", "device_count", "device_facts", "device_number"]

#: Attributes as the driver numbers them: two in thousands of cycles a second, and bits.
_CLOCK, _MEMORY_CLOCK, _BUS_WIDTH = 13, 36, 37


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device: `capability` is such as "90", `memory` and `cache` are bytes, `cache` is L2's.

    `clock` is cycles a second of its processors at most, `pins` the bytes a second that the pins of
    its memory could move; 0 where the driver does not tell.
    """

    index: int
    name: str
    capability: str
    multiprocessors: int
    memory: int
    cache: int
    clock: float = 0.0
    pins: float = 0.0


def device_count() -> int:
    """Return how many CUDA devices can be used here; 0 where CuPy or a driver is missing."""
    try:
        runtime = cupy().cuda.runtime
    except DeviceError:
        return 0
    try:
        return runtime.getDeviceCount()
    except runtime.CUDARuntimeError:
        return 0


def device_number() -> int:
    """Return the number of the current device; raises `DeviceError` where there is none."""
    if device_count() == 0:
        cupy()
        raise DeviceError(
            "No usable CUDA device was found.",
            hint="Check the driver with nvidia-smi, or use target='cpu'.",
        )
    return cupy().cuda.runtime.getDevice()


def device_bytes() -> int:
    """Return the bytes of the current device that this process can still get.

    Those that it keeps and does not use are among them. Raises `DeviceError` without a device.
    """
    device_number()
    free, _ = cupy().cuda.runtime.memGetInfo()
    return int(free + cupy().get_default_memory_pool().free_bytes())


def device_facts() -> DeviceFacts:
    """Return the facts of the current device; raises `DeviceError` where there is none."""
    number, runtime = device_number(), cupy().cuda.runtime
    facts = runtime.getDeviceProperties(number)

    def attribute(what: int) -> int:
        try:
            return runtime.deviceGetAttribute(what, number)
        except runtime.CUDARuntimeError:
            return 0

    name = facts["name"]
    return DeviceFacts(
        index=number,
        name=name.decode() if isinstance(name, bytes) else str(name),
        capability=f"{facts['major']}{facts['minor']}",
        multiprocessors=int(facts["multiProcessorCount"]),
        memory=int(facts["totalGlobalMem"]),
        cache=int(facts["l2CacheSize"]),
        clock=1e3 * attribute(_CLOCK),
        # Each cycle moves two bits at a pin.
        pins=1e3 * attribute(_MEMORY_CLOCK) * 2 * attribute(_BUS_WIDTH) / 8,
    )
