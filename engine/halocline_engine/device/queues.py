"""The queues of a pipeline on the current device, and buffers that are copied to and from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import DeviceArray, Event, MemoryPointer, Stream, cupy
from halocline_engine.device.io.files import Files
from halocline_engine.device.launch.capture import captured
from halocline_engine.device.memory.locking import DeviceLocking, Locking
from halocline_engine.device.memory.staging import copy_rows, page_locked, reserve
from halocline_engine.errors import CapacityError

__all__ = ["DeviceMoment", "DeviceQueue", "DeviceQueues"]


@dataclass(frozen=True, slots=True)
class _Place:
    event: Event

    def wait(self) -> None:
        """Return when all before it is complete."""
        self.event.synchronize()


@dataclass(frozen=True, slots=True)
class DeviceMoment:
    """When a stream came to a place, by the clock of the device."""

    event: Event

    def since(self, earlier: DeviceMoment) -> float:
        """Return the seconds from an earlier moment; the stream has come to both."""
        return cupy().cuda.get_elapsed_time(earlier.event, self.event) / 1e3


class _Memory:
    """Memory for what is made on the way in one queue, whose parts are used one after the other.

    Work that was recorded uses again what it had then, so nothing goes back to the device.
    """

    def __init__(self) -> None:
        self._pool = cupy().cuda.MemoryPool()

    def malloc(self, size: int) -> MemoryPointer:
        held = self._pool.total_bytes()
        found = self._pool.malloc(size)
        if self._pool.total_bytes() < held:
            raise CapacityError(
                f"The device had no room for {size} bytes more of what a program makes on the way.",
                hint="Use smaller blocks.",
                needed=size,
                available=0,
            )
        return found


class DeviceQueue:
    """A stream, and memory for what is made there on the way; any thread may use it."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._stream: Stream = cupy().cuda.Stream(non_blocking=True)
        self._memory = _Memory()

    def put(self, work: Callable[[], None]) -> None:
        """Queue what `work` queues on the current stream."""
        cuda = cupy().cuda
        cuda.runtime.setDevice(self._device)
        with self._stream, cuda.using_allocator(self._memory.malloc):
            work()

    def after(self, mark: Any) -> None:
        """Let what is put from now on wait for a place in another stream."""
        cupy().cuda.runtime.setDevice(self._device)
        self._stream.wait_event(mark.event)

    def mark(self) -> _Place:
        """Return the place behind what was put so far."""
        cupy().cuda.runtime.setDevice(self._device)
        event = cupy().cuda.Event(disable_timing=True)
        event.record(self._stream)
        return _Place(event)

    def synchronize(self) -> None:
        """Wait until the stream is empty."""
        cupy().cuda.runtime.setDevice(self._device)
        self._stream.synchronize()


class DeviceQueues:
    """Three streams of the device that is current where this is made."""

    def __init__(self) -> None:
        device = cupy().cuda.runtime.getDevice()
        self.sending = DeviceQueue(device)
        self.computing = DeviceQueue(device)
        self.fetching = DeviceQueue(device)

    def __enter__(self) -> DeviceQueues:
        """Begin."""
        return self

    def __exit__(self, *details: object) -> None:
        """Wait until the streams are empty."""
        self.synchronize()

    def synchronize(self) -> None:
        """Wait until nothing is under way any more; what failed was told before."""
        failure = cupy().cuda.runtime.CUDARuntimeError
        for queue in (self.sending, self.computing, self.fetching):
            try:
                queue.synchronize()
            except failure:
                continue

    def buffer(self, size: int) -> NDArray[np.uint8]:
        """Return page-locked memory; raises `CapacityError` where there is not so much."""
        return page_locked(size)

    def memory(self, size: int) -> DeviceArray:
        """Return bytes of the device; raises `CapacityError` where there are not so many."""
        return cupy().ndarray((size,), np.dtype(np.uint8), reserve(max(1, size)), (1,))

    def files(self, reading: int, writing: int) -> Files | None:
        """Return what reads files to such memory, and writes them, with so many threads each."""
        # Numba takes a second to import.
        from halocline_engine.device.io.threaded_files import ThreadedFiles

        return ThreadedFiles(reading, writing)

    def locking(self) -> Locking:
        """Return what locks pages, so that they are copied where they lie."""
        return DeviceLocking()

    def send(self, host: NDArray[Any], into: DeviceArray) -> None:
        """Queue the copy of an array in locked memory, dense along I, on the current stream."""
        copy_rows(into, host, to_device=True)

    def fetch(self, array: DeviceArray, into: NDArray[Any]) -> None:
        """Queue the copy to an array in locked memory, dense along I, on the current stream."""
        copy_rows(array, into, to_device=False)

    def moment(self) -> DeviceMoment:
        """Return when the current stream comes to here."""
        event = cupy().cuda.Event(disable_timing=False)
        event.record(cupy().cuda.get_current_stream())
        return DeviceMoment(event)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what queues, on what is now the current stream, what `work` queues there."""
        stream = cupy().cuda.get_current_stream()
        graph = captured(stream, work)
        return lambda: graph.launch(stream)
