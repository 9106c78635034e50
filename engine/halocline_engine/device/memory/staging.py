"""Device memory, and copies to and from it through page-locked host memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray, copy, in_threads, slabs_for
from halocline_engine.device.cupy_types import DeviceArray, Event, MemoryPointer, Pinned, cupy
from halocline_engine.errors import CapacityError

__all__ = [
    "Staging",
    "copy_rows",
    "download",
    "page_locked",
    "reserve",
    "size_class",
    "upload",
]

_SMALLEST_CLASS = 64 * 2**10


def reserve(size: int) -> MemoryPointer:
    """Allocate bytes on the current device; raises `CapacityError` where they do not fit."""
    cuda = cupy().cuda
    try:
        return cuda.alloc(size)
    except cuda.memory.OutOfMemoryError as error:
        free, _ = cuda.runtime.memGetInfo()
        raise CapacityError(
            f"The device has {free} bytes of free memory, but {size} are needed.",
            hint="Use smaller blocks.",
            needed=size,
            available=free,
        ) from error


def size_class(size: int) -> int:
    """Return the size of the staging buffer that serves `size` bytes: a power of two.

    >>> size_class(1), size_class(2**20), size_class(2**20 + 1)
    (65536, 1048576, 2097152)
    """
    return max(_SMALLEST_CLASS, 1 << (size - 1).bit_length())


@dataclass(slots=True)
class Staging:
    """Page-locked buffers that are kept for the next copy of their size class.

    A buffer comes back with the event of the copy that uses it, and is handed out again only when
    that copy is complete.
    """

    _free: dict[int, list[tuple[Pinned, Event]]] = field(
        default_factory=dict[int, list[tuple[Pinned, Event]]]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> Pinned:
        """Return a buffer of at least `size` bytes that nothing uses."""
        with self._lock:
            waiting = self._free.get(size_class(size))
            found = waiting.pop(0) if waiting and len(waiting) > 1 else None
        if found is None:
            return cupy().cuda.alloc_pinned_memory(size_class(size))
        buffer, event = found
        event.synchronize()
        return buffer

    def give(self, buffer: Pinned, size: int, event: Event) -> None:
        """Take a buffer back; `event` is complete when nothing uses it any more."""
        with self._lock:
            self._free.setdefault(size_class(size), []).append((buffer, event))


def upload(host: AnyArray, into: DeviceArray, staging: Staging, threads: int = 1) -> None:
    """Copy an array of the host into a 3-D device array of the same shape and type.

    The work is queued on the current stream; the host array may be changed at once. Several
    threads fill buffers while the device empties others.
    """
    if host.size == 0:
        return

    def send(rows: slice, levels: slice) -> None:
        part, target = host[:, rows, levels], into[:, rows, levels]
        buffer = staging.take(part.nbytes)
        staged = _staged(buffer, part.shape, host.dtype)
        copy(part, staged)
        if _has_rows(target):
            copy_rows(target, staged, to_device=True)
        else:
            target[...] = cupy().asarray(staged)
        event = cupy().cuda.Event(disable_timing=True)
        event.record(cupy().cuda.get_current_stream())
        staging.give(buffer, part.nbytes, event)

    _each(send, _three(host.shape), host.itemsize, threads)


def download(
    array: DeviceArray, staging: Staging, into: AnyArray | None = None, threads: int = 1
) -> AnyArray:
    """Copy a 3-D device array into one of the host of the same shape and type; return that.

    It is complete; without one, it is a new one, I fastest. The device fills some buffers while
    threads empty others.
    """
    shape = _three(array.shape)
    host: AnyArray = np.empty(shape, array.dtype, order="F") if into is None else into
    if host.size == 0:
        return host

    def fetch(rows: slice, levels: slice) -> None:
        source, part = array[:, rows, levels], host[:, rows, levels]
        if not _has_rows(source):
            copy(cupy().asnumpy(source), part)
            return
        buffer = staging.take(part.nbytes)
        staged = _staged(buffer, part.shape, host.dtype)
        copy_rows(source, staged, to_device=False)
        event = cupy().cuda.Event(disable_timing=True)
        event.record(cupy().cuda.get_current_stream())
        event.synchronize()
        copy(staged, part)
        staging.give(buffer, part.nbytes, event)

    _each(fetch, shape, host.itemsize, threads)
    return host


def _each(
    work: Callable[[slice, slice], None], shape: tuple[int, int, int], itemsize: int, threads: int
) -> None:
    """Do work on each slab, with the device and the stream that are current here."""
    parts = slabs_for(shape, itemsize, threads)
    if threads == 1 or len(parts) == 1:
        for part in parts:
            work(*part)
        return
    cuda = cupy().cuda
    device, stream = cuda.runtime.getDevice(), cuda.get_current_stream()

    def begin() -> None:
        cuda.runtime.setDevice(device)

    begin()  # this thread may launch kernels next, and have asked nothing of the device yet

    def one(part: tuple[slice, slice]) -> None:
        with stream:
            work(*part)

    in_threads(one, parts, threads, begin)


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    i, j, k = shape
    return i, j, k


def _staged(buffer: Pinned, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a dense array in a staging buffer, I fastest."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    # The stub asks for the buffer protocol, which CuPy's class has.
    data: Any = buffer
    return np.frombuffer(data, np.uint8, count).view(dtype).reshape(shape, order="F")


def _has_rows(array: DeviceArray) -> bool:
    """Whether points along I stand side by side and rows do not run backwards."""
    i, j, k = array.strides
    row = array.shape[0] * array.dtype.itemsize
    return i == array.dtype.itemsize and j >= row and k >= row


def copy_rows(array: DeviceArray, host: NDArray[Any], *, to_device: bool) -> None:
    """Queue the copy of a 3-D device array from or to one in page-locked memory.

    Points along I stand side by side in both; the work is queued on the current stream.
    """
    if host.size == 0:
        return
    address: int = host.__array_interface__["data"][0]
    runtime = cupy().cuda.runtime
    stream = cupy().cuda.get_current_stream().ptr
    kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
    width = host.shape[0] * host.itemsize
    pieces, rows = array.shape[2], array.shape[1]
    (pitch, plane), (far, sheet) = _apart(array, width), _apart(host, width)
    if plane == pitch * rows and sheet == far * rows:
        pieces, rows = 1, pieces * rows
    if pitch == far == width:
        # Rows of 8 bytes side by side move at 2.8 GB/s as rows, and at 21 as one piece (H200).
        pitch = far = width = width * rows
        rows = 1
    for piece in range(pieces):
        there, here = (array.data.ptr + piece * plane, pitch), (address + piece * sheet, far)
        ends = (*there, *here) if to_device else (*here, *there)
        runtime.memcpy2DAsync(*ends, width, rows, kind, stream)


def _apart(array: DeviceArray | NDArray[Any], row: int) -> tuple[int, int]:
    """Return the bytes from row to row and from plane to plane; where there is one, any will do."""
    _, rows, planes = array.shape
    plane = array.strides[2] if planes > 1 else row
    pitch = array.strides[1] if rows > 1 else plane
    return pitch, plane if planes > 1 else pitch * rows


def page_locked(size: int) -> NDArray[np.uint8]:
    """Return page-locked memory; raises `CapacityError` where there is not so much."""
    cuda = cupy().cuda
    try:
        memory = cuda.PinnedMemory(max(1, size))
    except cuda.runtime.CUDARuntimeError as error:
        raise CapacityError(
            f"{size} bytes of host memory cannot be page-locked: {error}.",
            hint="Use smaller blocks.",
            needed=size,
            available=0,
        ) from error
    # The stub asks for the buffer protocol, which CuPy's class has.
    data: Any = cuda.PinnedMemoryPointer(memory, 0)
    return np.frombuffer(data, np.uint8, size)
