"""Decoder of compressed chunks on the current device, with its own queue and memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import DeviceArray, Event, MemoryPointer, Stream, cupy
from halocline_engine.device.decode.codecs import Codecs, NvComp, Table, find_nvcomp
from halocline_engine.device.memory.staging import page_locked
from halocline_engine.errors import CapacityError

__all__ = ["NvcompDevice", "open_nvcomp"]


class NvcompDevice:
    """A stream, and memory of the device that is kept for the next chunk; for one thread."""

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._stream: Stream = cupy().cuda.Stream(non_blocking=True)
        self._pool = cupy().cuda.MemoryPool()
        self._locked: dict[str, NDArray[np.uint8]] = {}

    def room(self, codec: str, count: int, largest: int, total: int) -> int:
        """Return the bytes that decoding takes beside what it reads and makes."""
        return self._codecs.room(codec, count, largest, total)

    def take(self, size: int) -> MemoryPointer:
        """Return device memory, which goes back when nothing refers to it."""
        cuda = cupy().cuda
        try:
            return self._pool.malloc(max(1, size))
        except cuda.memory.OutOfMemoryError as error:
            free, _ = cuda.runtime.memGetInfo()
            raise CapacityError(
                f"The device has {free} bytes of free memory, but {size} are needed to decode.",
                hint="Use smaller blocks.",
                needed=size,
                available=free,
            ) from error

    def locked(self, name: str, size: int) -> NDArray[np.uint8]:
        """Return page-locked memory under a name, where it is kept for the next time.

        Raises `CapacityError` where there is not so much.
        """
        found = self._locked.get(name)
        if found is None or found.size < size:
            self._locked.pop(name, None)
            found = self._locked[name] = page_locked(size * 9 // 8)
        return found[:size]

    def address(self, array: DeviceArray) -> int:
        """Return where an array of the device begins."""
        return array.data.ptr

    def send(self, host: NDArray[np.uint8], into: int) -> None:
        """Queue the copy of bytes to an address of the device."""
        self._copy(into, _address(host), host.size, to_device=True)

    def fetch(self, source: int, into: NDArray[np.uint8]) -> None:
        """Queue the copy of bytes from an address of the device."""
        self._copy(_address(into), source, into.size, to_device=False)

    def decode(self, codec: str, table: Table, room: tuple[int, int]) -> None:
        """Queue the decoding of streams."""
        self._codecs.decode(codec, table, room, self._stream.ptr)

    def queue(self, work: Callable[[], None]) -> None:
        """Queue what `work` queues on the current stream."""
        with self._stream:
            work()

    def mark(self) -> Event:
        """Return what waits, by `synchronize`, until all that was queued so far is done."""
        event = cupy().cuda.Event(disable_timing=True)
        event.record(self._stream)
        return event

    def wait(self) -> None:
        """Return when all that was queued is done."""
        self._stream.synchronize()

    def _copy(self, into: int, source: int, size: int, *, to_device: bool) -> None:
        if not size:
            return
        runtime = cupy().cuda.runtime
        kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
        runtime.memcpy2DAsync(into, size, source, size, size, 1, kind, self._stream.ptr)


def open_nvcomp() -> NvcompDevice | None:
    """Return what decodes on the current device where nvCOMP is installed."""
    codecs: NvComp | None = find_nvcomp()
    return None if codecs is None else NvcompDevice(codecs)


def _address(host: NDArray[np.uint8]) -> int:
    return int(host.__array_interface__["data"][0])
