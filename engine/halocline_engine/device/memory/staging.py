"""Device memory, and copies to and from it through page-locked host memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import DeviceArray, Event, MemoryPointer, Pinned, cupy
from halocline_engine.errors import CapacityError

__all__ = [
    "Staging",
    "copy_rows",
    "download",
    "page_locked",
    "reserve",
    "size_class",
    "slabs",
    "upload",
]

#: Bytes that one staging copy moves at most, if a single plane is not larger.
_SLAB = 32 * 2**20
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


def slabs(
    shape: tuple[int, int, int], itemsize: int, most: int = _SLAB
) -> Iterator[tuple[slice, slice]]:
    """Yield ranges along J and K so that each pair holds at most `most` bytes, or else one row.

    >>> [levels for _, levels in slabs((4, 4, 5), 8, most=300)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> [rows for rows, _ in slabs((4, 5, 1), 8, most=64)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    row = max(1, shape[0] * itemsize)
    planes = max(1, most // (row * max(1, shape[1])))
    rows = shape[1] if planes > 1 else max(1, most // row)
    for level in range(0, shape[2], planes):
        for first in range(0, shape[1], max(1, rows)):
            yield (
                slice(first, min(first + rows, shape[1])),
                slice(level, min(level + planes, shape[2])),
            )


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


def upload(host: NDArray[Any], into: DeviceArray, staging: Staging) -> None:
    """Copy a host array into a 3-D device array of the same shape and type.

    The work is queued on the current stream; the host array may be changed at once.
    """
    if host.size == 0:
        return
    cuda = cupy().cuda
    for rows, levels in slabs(_three(host.shape), host.itemsize):
        part, target = host[:, rows, levels], into[:, rows, levels]
        buffer = staging.take(part.nbytes)
        staged = _staged(buffer, part.shape, host.dtype)
        np.copyto(staged, part, casting="no")
        if _has_rows(target):
            copy_rows(target, staged, to_device=True)
        else:
            target[...] = cupy().asarray(staged)
        event = cuda.Event(disable_timing=True)
        event.record(cuda.get_current_stream())
        staging.give(buffer, part.nbytes, event)


def download(array: DeviceArray, staging: Staging) -> NDArray[Any]:
    """Return the contents of a 3-D device array in host memory, complete, I fastest."""
    shape = _three(array.shape)
    host: NDArray[Any] = np.empty(shape, array.dtype, order="F")
    if host.size == 0:
        return host
    cuda = cupy().cuda
    for rows, levels in slabs(shape, host.itemsize):
        source, part = array[:, rows, levels], host[:, rows, levels]
        if not _has_rows(source):
            np.copyto(part, cupy().asnumpy(source))
            continue
        buffer = staging.take(part.nbytes)
        staged = _staged(buffer, part.shape, host.dtype)
        copy_rows(source, staged, to_device=False)
        event = cuda.Event(disable_timing=True)
        event.record(cuda.get_current_stream())
        event.synchronize()
        np.copyto(part, staged)
        staging.give(buffer, part.nbytes, event)
    return host


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
