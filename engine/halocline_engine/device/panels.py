"""Tiles of a matrix product on the current device: copies there and back beside products.

There are three queues: copies to the device, products, copies back. They wait for each other by
events, and the host waits only for page-locked buffers, of which there is a fixed number, to be
free again, and for results. So copies hide behind products where they are shorter. Large products
are copied by compiled loops where values lie in files or in memory as rows; see
`device.io.copy_threads`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import LifoQueue
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import (
    DeviceArray,
    Event,
    MemoryPointer,
    Pinned,
    Stream,
    cublas,
    cupy,
)
from halocline_engine.device.memory.staging import reserve
from halocline_engine.device.memory.zero_copy import PinnedRows

if TYPE_CHECKING:
    from halocline_engine.device.io.copy_threads import Batch, CopyThreads

__all__ = ["DeviceWorkspace", "Part", "Place", "ProductShape"]

#: Bytes between whose multiples memory of a device begins; libraries look at that.
_ALIGNED = 512


class Part(Protocol):
    """Rows of elements in a place, all counted in elements."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def width(self) -> int:
        """Length of a row."""
        ...

    @property
    def offset(self) -> int:
        """Position of the first row."""
        ...

    @property
    def pitch(self) -> int:
        """Distance between the beginnings of rows."""
        ...


class ProductShape(Protocol):
    """Sizes of a product of tiles, and whether an operand lies the other way round."""

    @property
    def batch(self) -> int:
        """Number of products."""
        ...

    @property
    def rows(self) -> int:
        """Rows of left."""
        ...

    @property
    def columns(self) -> int:
        """Columns of right."""
        ...

    @property
    def inner(self) -> int:
        """Length of the dimension that is summed."""
        ...

    @property
    def left_turned(self) -> bool:
        """Whether left lies [batch, inner, row]."""
        ...

    @property
    def right_turned(self) -> bool:
        """Whether right lies [batch, column, inner]."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Device memory for a tile; `written` and `read` follow what was last queued for it."""

    memory: MemoryPointer
    nbytes: int
    written: Event
    read: Event


@dataclass(frozen=True, slots=True, eq=False)
class _Buffer:
    """A page-locked buffer; `used` is complete when nothing uses it."""

    memory: Pinned
    used: Event


class _Buffers:
    """A fixed number of buffers of some bytes, made when they are needed first."""

    def __init__(self, count: int, size: int) -> None:
        self._size = size
        self._free: LifoQueue[_Buffer | None] = LifoQueue()
        for _ in range(count):
            self._free.put(None)

    def get(self) -> _Buffer:
        """Return a buffer, once one is free."""
        found = self._free.get()
        return found or _Buffer(cupy().cuda.alloc_pinned_memory(self._size), _event())

    def put(self, buffer: _Buffer | None) -> None:
        """Take a buffer back, or the place of one that could not be made."""
        self._free.put(buffer)


class DeviceWorkspace:
    """See the head of this module; `threads` each load and take pieces of at most `piece` bytes.

    `copies_rows` says that rows on the host may be sent and fetched without such a piece.
    """

    def __init__(self, dtype: str, threads: int, piece: int, *, copies_rows: bool = False) -> None:
        cuda = cupy().cuda
        self._dtype = np.dtype(dtype)
        self._device = cuda.runtime.getDevice()
        self._up, self._work, self._down = (cuda.Stream(non_blocking=True) for _ in range(3))
        # Two more than there are threads, so that a thread can read while its last copy runs.
        self._filled = _Buffers(threads + 2, piece)
        self._fetched = _Buffers(threads, piece)
        self._piece = piece
        self._lock = threading.Lock()
        self._threads = threads
        self._senders = _copy_threads(threads, out=False) if copies_rows else None
        self._fetchers: CopyThreads | None = None

    @property
    def row_copies(self) -> DeviceWorkspace | None:
        """The workspace itself, if `send`, `fetch` and `split` may be called."""
        return None if self._senders is None else self

    def place(self, elements: int, *, total: bool) -> Place:
        """Return device memory."""
        nbytes = max(1, elements) * self._dtype.itemsize
        # Threads sleep until a tile is multiplied, so that others have the cores.
        written, read = _event(block=total), _event(block=not total)
        return Place(reserve(nbytes), nbytes, written, read)

    def send(self, place: Place, parts: Sequence[tuple[Part, PinnedRows]]) -> Batch:
        """Let rows be sent to parts of a place, when all that reads it is done."""
        assert self._senders is not None
        copies = [(rows, *self._ends(place, where, rows)) for where, rows in parts]
        return self._senders.put(copies, self._up, place.read, place.written)

    def fetch(self, total: Place, parts: Sequence[tuple[Part, PinnedRows]]) -> Batch:
        """Let parts of a place be copied to rows, when all that writes it is done."""
        if self._fetchers is None:
            self._fetchers = _copy_threads(self._threads, out=True)
        copies = [(rows, *self._ends(total, where, rows)) for where, rows in parts]
        return self._fetchers.put(copies, self._down, total.written)

    def finish(self, *, out: bool) -> None:
        """Let threads that fetch, if `out`, or send end when they have done what was asked."""
        copy_threads = self._fetchers if out else self._senders
        if copy_threads is not None:
            copy_threads.finish()

    def split(self, total: Place, elements: int) -> list[Place]:
        """Return places for tiles of operands in one of the product that is used no more."""
        size = elements * self._dtype.itemsize
        step = -(-size // _ALIGNED) * _ALIGNED
        return [
            Place(total.memory + start, size, _event(), _event(block=True))
            for start in range(0, total.nbytes - size + 1, step)
        ]

    def _ends(self, place: Place, where: Part, rows: PinnedRows) -> tuple[int, int]:
        """Return where the rows begin on the device, and how many bytes they are apart."""
        item = self._dtype.itemsize
        assert rows.rows * rows.width == where.rows * where.width * item
        assert where.rows in (1, rows.rows)
        far = rows.width if where.rows == 1 else where.pitch * item
        return place.memory.ptr + where.offset * item, far

    def load(self, place: Place, where: Part, fill: Callable[[NDArray[Any]], None]) -> None:
        """Let `fill` write a page-locked buffer, and queue its copy to the device."""
        buffer: _Buffer | None = None
        try:
            buffer = self._filled.get()
            buffer.used.synchronize()
            fill(self._host(buffer, where))
            cuda = cupy().cuda
            with self._lock:
                cuda.runtime.setDevice(self._device)
                self._up.wait_event(place.read)
                self._copy(place, where, buffer, self._up, to_device=True)
                buffer.used.record(self._up)
                place.written.record(self._up)
        finally:
            self._filled.put(buffer)

    def multiply(
        self, left: Place, right: Place, total: Place, shape: ProductShape, *, new: bool
    ) -> float:
        """Queue a product by cuBLAS, in full precision of the type; takes no time that counts."""
        with self._work:
            self._work.wait_event(left.written)
            self._work.wait_event(right.written)
            if new:
                self._work.wait_event(total.read)
            self._multiply(left, right, total, shape, new=new)
            for place in (left, right):
                place.read.record(self._work)
            total.written.record(self._work)
        return 0.0

    def _multiply(
        self, left: Place, right: Place, total: Place, shape: ProductShape, *, new: bool
    ) -> None:
        count, rows, columns, inner = shape.batch, shape.rows, shape.columns, shape.inner
        one = self._tile(left, (count, inner, rows) if shape.left_turned else (count, rows, inner))
        other = self._tile(
            right, (count, columns, inner) if shape.right_turned else (count, inner, columns)
        )
        into = self._tile(total, (count, rows, columns))
        turns = ("T" if shape.left_turned else "N", "T" if shape.right_turned else "N")
        gemm, beta = cublas().gemm, 0.0 if new else 1.0
        for member in range(count):
            gemm(*turns, one[member], other[member], out=into[member], alpha=1.0, beta=beta)

    def clear(self, total: Place) -> None:
        """Queue zeros."""
        self._work.wait_event(total.read)
        pointer, stream = total.memory.ptr, self._work.ptr
        cupy().cuda.runtime.memsetAsync(pointer, 0, total.nbytes, stream)
        total.written.record(self._work)

    def take(self, total: Place, where: Part, use: Callable[[NDArray[Any]], None]) -> None:
        """Queue the copy back to a page-locked buffer, wait for it, and let `use` read that."""
        buffer: _Buffer | None = None
        try:
            buffer = self._fetched.get()
            with self._lock:
                cupy().cuda.runtime.setDevice(self._device)
                self._down.wait_event(total.written)
                self._copy(total, where, buffer, self._down, to_device=False)
                buffer.used.record(self._down)
                total.read.record(self._down)
            buffer.used.synchronize()
            use(self._host(buffer, where))
        finally:
            self._fetched.put(buffer)

    def close(self) -> None:
        """Wait until the device has done everything."""
        for copy_threads in (self._senders, self._fetchers):
            if copy_threads is not None:
                copy_threads.close()
        for stream in (self._up, self._work, self._down):
            stream.synchronize()

    def _tile(self, place: Place, shape: tuple[int, int, int]) -> DeviceArray:
        item = self._dtype.itemsize
        strides = (shape[1] * shape[2] * item, shape[2] * item, item)
        return cupy().ndarray(shape, self._dtype, place.memory, strides)

    def _host(self, buffer: _Buffer, where: Part) -> NDArray[Any]:
        """Return an array [row, element] in a buffer."""
        count = where.rows * where.width
        assert count * self._dtype.itemsize <= self._piece
        data: Any = buffer.memory
        return np.frombuffer(data, self._dtype, count).reshape(where.rows, where.width)

    def _copy(
        self, place: Place, where: Part, buffer: _Buffer, stream: Stream, *, to_device: bool
    ) -> None:
        """Queue the copy of rows from or to a dense buffer."""
        runtime, item = cupy().cuda.runtime, self._dtype.itemsize
        device, pitch = place.memory.ptr + where.offset * item, where.pitch * item
        host, width = buffer.memory.ptr, where.width * item
        if to_device:
            kind = runtime.memcpyHostToDevice
            ends = (device, pitch, host, width)
        else:
            kind = runtime.memcpyDeviceToHost
            ends = (host, width, device, pitch)
        runtime.memcpy2DAsync(*ends, width, where.rows, kind, stream.ptr)


def _copy_threads(threads: int, *, out: bool) -> CopyThreads:
    """Return threads that fetch, or send; importing what they do takes a moment.

    A few threads are enough to send at the device's rate, and more of them take the cores from
    those that write.
    """
    from halocline_engine.device.io.copy_threads import CopyThreads
    from halocline_engine.device.launch.calls import system_calls

    if out:
        return CopyThreads(max(2, threads), system_calls(), out=True, name="halocline-fetch")
    return CopyThreads(max(2, threads // 2), system_calls(), out=False, name="halocline-send")


def _event(*, block: bool = False) -> Event:
    """Return an event that is complete until it is recorded; who waits for it sleeps if `block`."""
    return cupy().cuda.Event(disable_timing=True, block=block)
