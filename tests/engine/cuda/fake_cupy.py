"""What the engine uses of CuPy, in host memory: sizes, strides and order of work are the real ones.

Copies happen when they are queued, unless `late` holds them back until something waits for them,
which is as late as a device may run them.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FakeArray", "FakeCupy"]


class RuntimeFailure(Exception):
    pass


class DriverFailure(Exception):
    pass


class NoMemory(Exception):
    pass


@dataclass(frozen=True)
class FakePointer:
    owner: NDArray[np.uint8]
    offset: int = 0

    @property
    def ptr(self) -> int:
        return int(self.owner.__array_interface__["data"][0]) + self.offset

    def __add__(self, offset: int) -> FakePointer:
        return FakePointer(self.owner, self.offset + offset)


@dataclass(frozen=True)
class FakeArray:
    array: NDArray[Any]

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=int(self.array.__array_interface__["data"][0]))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def __getitem__(self, index: Any) -> FakeArray:
        return FakeArray(self.array[index])

    def __setitem__(self, index: Any, value: FakeArray) -> None:
        self.array[index] = value.array


class FakePinned(np.ndarray[Any, np.dtype[np.uint8]]):
    @property
    def ptr(self) -> int:
        return int(self.__array_interface__["data"][0])


@dataclass
class FakeStream:
    cupy: FakeCupy
    ptr: int = 7

    def synchronize(self) -> None:
        self.cupy.catch_up()

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        return None


@dataclass
class FakeEvent:
    cupy: FakeCupy
    recorded: int = 0

    def record(self, stream: FakeStream) -> None:
        self.recorded = len(self.cupy.waiting)

    def synchronize(self) -> None:
        self.cupy.catch_up()


@dataclass
class FakePool:
    cupy: FakeCupy

    def total_bytes(self) -> int:
        return self.cupy.kept

    def free_bytes(self) -> int:
        return self.cupy.kept

    def free_all_blocks(self) -> None:
        self.cupy.kept = 0


@dataclass
class FakeCupy:
    """Stands for the module; `devices` and `memory` are what it has, `kept` what its pools keep."""

    devices: int = 1
    memory: int = 2**40
    late: bool = False
    tells: bool = True
    kept: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    pinned: list[int] = field(default_factory=list[int])
    copies: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def _attribute(self, attribute: int, _device: int) -> int:
        """Return what an H100's driver says of clocks and pins, unless it does not tell."""
        if not self.tells:
            raise RuntimeFailure
        return {13: 1_980_000, 36: 2_619_000, 37: 5120}[attribute]

    def __post_init__(self) -> None:
        properties = {
            "name": b"Fake 1",
            "major": 9,
            "minor": 0,
            "multiProcessorCount": 132,
            "totalGlobalMem": self.memory,
            "l2CacheSize": 50 * 2**20,
        }

        def properties_of(_index: int) -> dict[str, Any]:
            return properties

        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeFailure,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            getDevice=lambda: min(0, self._count()),
            setDevice=self._set_device,
            getDeviceCount=self._count,
            getDeviceProperties=properties_of,
            deviceGetAttribute=self._attribute,
            memGetInfo=lambda: (self.memory, self.memory),
            memcpy2DAsync=self._copy,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            memory=SimpleNamespace(OutOfMemoryError=NoMemory),
            driver=SimpleNamespace(CUDADriverError=DriverFailure),
            alloc=self._alloc,
            alloc_pinned_memory=self._alloc_pinned,
            get_current_stream=lambda: FakeStream(self),
            Stream=self._stream,
            Event=self._event,
        )

    def get_default_memory_pool(self) -> FakePool:
        return FakePool(self)

    def get_default_pinned_memory_pool(self) -> FakePool:
        return FakePool(self)

    def ndarray(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        memptr: FakePointer,
        strides: tuple[int, ...],
    ) -> FakeArray:
        return FakeArray(np.ndarray(shape, dtype, memptr.owner.data, memptr.offset, strides))

    def asarray(self, a: NDArray[Any]) -> FakeArray:
        return FakeArray(a.copy())

    def asnumpy(self, a: FakeArray) -> NDArray[Any]:
        self.catch_up()
        return a.array.copy()

    def catch_up(self) -> None:
        with self.lock:
            while self.waiting:
                self.waiting.pop(0)()

    def _stream(self, *, non_blocking: bool) -> FakeStream:
        assert non_blocking
        return FakeStream(self)

    def _event(self, *, disable_timing: bool) -> FakeEvent:
        assert disable_timing
        return FakeEvent(self)

    def _set_device(self, device: int) -> None:
        assert device == 0

    def _count(self) -> int:
        if self.devices < 0:
            raise RuntimeFailure
        return self.devices

    def _alloc(self, size: int) -> FakePointer:
        if size > self.memory:
            raise NoMemory
        return FakePointer(np.full(size, 0xFF, np.uint8))

    def _alloc_pinned(self, size: int) -> FakePinned:
        self.pinned.append(size)
        return np.full(size, 0xFF, np.uint8).view(FakePinned)

    def _copy(
        self,
        to: int,
        to_pitch: int,
        source: int,
        pitch: int,
        width: int,
        rows: int,
        kind: int,
        stream: int,
    ) -> None:
        assert kind in (1, 2)
        assert stream == 7
        assert width <= to_pitch
        assert width <= pitch
        self.copies.append((width, rows))

        def move() -> None:
            for row in range(rows):
                ctypes.memmove(to + row * to_pitch, source + row * pitch, width)

        self.waiting.append(move)
        if not self.late:
            self.catch_up()
