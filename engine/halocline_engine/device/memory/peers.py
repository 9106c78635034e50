"""Memory of the current device that other processes of the host store into, from their devices."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import RawMemory, cupy
from halocline_engine.errors import CapacityError, DeviceError

__all__ = ["OpenedMemory", "SharedMemory", "SharedWord", "open_memory", "read_word", "write_word"]

_WORD = 8


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Bytes on the current device, 0 at first, and what others need to find them."""

    memory: RawMemory
    host: str
    process: int
    handle: bytes

    @classmethod
    def of(cls, size: int) -> SharedMemory:
        """Allocate; pools have no memory that others can open."""
        cuda = cupy().cuda
        try:
            memory = cuda.Memory(size)
        except cuda.memory.OutOfMemoryError as error:
            raise CapacityError(
                f"The device has no {size} bytes of free memory for halos.",
                hint="Use smaller blocks.",
                needed=size,
                available=cuda.runtime.memGetInfo()[0],
            ) from error
        runtime = cuda.runtime
        runtime.memset(memory.ptr, 0, size)
        handle = runtime.ipcGetMemHandle(memory.ptr)
        return cls(memory, platform.node(), os.getpid(), bytes(handle))

    @property
    def address(self) -> int:
        """Address of its first byte."""
        return self.memory.ptr


@dataclass(frozen=True, slots=True)
class OpenedMemory:
    """Memory of another rank, at an address of this process."""

    address: int

    def close(self) -> None:
        """Use it no more."""
        cupy().cuda.runtime.ipcCloseMemHandle(self.address)


class SharedWord:
    """A number in page-locked memory of the host, which kernels of this process look at."""

    def __init__(self) -> None:
        self._memory = cupy().cuda.alloc_pinned_memory(_WORD)
        self._values: NDArray[np.uint64] = np.frombuffer(cast(Any, self._memory), np.uint64, 1)
        self.set(0)

    @property
    def address(self) -> int:
        """Address of its first byte."""
        return self._memory.ptr

    def set(self, value: int) -> None:
        """Change it, at once."""
        self._values[0] = value


def open_memory(host: str, process: int, handle: bytes) -> OpenedMemory:
    """Return memory that another rank has allocated.

    Raises `DeviceError` where this device cannot store into it.
    """
    if host != platform.node():
        raise DeviceError(f"The memory of a device of '{host}' cannot be reached from here.")
    if process == os.getpid():
        # A kernel that waits for another rank keeps code of that rank from being loaded here.
        raise DeviceError("Ranks of one process share a context, whose kernels may not wait.")
    runtime = cupy().cuda.runtime
    try:
        return OpenedMemory(runtime.ipcOpenMemHandle(handle))
    except runtime.CUDARuntimeError as error:
        raise DeviceError(f"Memory of another device cannot be opened: {error}.") from error


def write_word(address: int, value: int) -> None:
    """Store a number in device memory, at once."""
    values = np.array([value], np.uint64)
    runtime = cupy().cuda.runtime
    runtime.memcpy(address, values.ctypes.data, _WORD, runtime.memcpyHostToDevice)


def read_word(address: int) -> int:
    """Return a number in device memory, when the work on the current stream is complete."""
    values = np.zeros(1, np.uint64)
    cuda = cupy().cuda
    cuda.get_current_stream().synchronize()
    runtime = cuda.runtime
    runtime.memcpy(values.ctypes.data, address, _WORD, runtime.memcpyDeviceToHost)
    return int(values[0])
