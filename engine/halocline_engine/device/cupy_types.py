"""The one place that imports CuPy, and what is used of it.

CuPy has no type information, so what the engine uses stands here as Protocols, and the module is
cast once. Importing this module needs no CuPy; calling `cupy` does.
"""

# ruff: noqa: D102 - these are the methods of CuPy, which describes them

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from halocline_engine.errors import DeviceError

__all__ = [
    "Cublas",
    "Cupy",
    "DeviceArray",
    "Event",
    "Function",
    "MemoryPointer",
    "MemoryPool",
    "Module",
    "Pinned",
    "PinnedMemoryPool",
    "RawMemory",
    "Stream",
    "cublas",
    "cupy",
]


class MemoryPointer(Protocol):
    """Device memory; it goes back to CuPy's pool when nothing refers to it."""

    @property
    def ptr(self) -> int: ...

    def __add__(self, offset: int) -> MemoryPointer: ...


class RawMemory(Protocol):
    """A `cupy.cuda.Memory`: an allocation of the driver, freed when nothing refers to it."""

    @property
    def ptr(self) -> int: ...


class Pinned(Protocol):
    """Page-locked host memory, which has the buffer interface."""

    @property
    def ptr(self) -> int: ...


class DeviceArray(Protocol):
    """A `cupy.ndarray`."""

    @property
    def data(self) -> MemoryPointer: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, index: Any, /) -> DeviceArray: ...

    def __setitem__(self, index: Any, value: Any, /) -> None: ...


class Stream(Protocol):
    """A `cupy.cuda.Stream`; as a context it is the current one of the thread."""

    @property
    def ptr(self) -> int: ...

    def synchronize(self) -> None: ...

    def wait_event(self, event: Event) -> None: ...

    def __enter__(self) -> Stream: ...

    def __exit__(self, *details: object) -> None: ...


class MemoryPool(Protocol):
    """A `cupy.cuda.MemoryPool`, which keeps the memory that comes back to it."""

    def malloc(self, size: int) -> MemoryPointer: ...

    def total_bytes(self) -> int: ...

    def free_bytes(self) -> int: ...

    def free_all_blocks(self) -> None: ...


class PinnedMemoryPool(Protocol):
    """A `cupy.cuda.PinnedMemoryPool`, which keeps page-locked memory of the host."""

    def free_all_blocks(self) -> None: ...


class Event(Protocol):
    """A `cupy.cuda.Event`."""

    @property
    def ptr(self) -> int: ...

    def record(self, stream: Stream) -> None: ...

    def synchronize(self) -> None: ...


class Function(Protocol):
    """A kernel of a loaded module; launched on the current stream of the thread."""

    @property
    def ptr(self) -> int: ...

    def __call__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: tuple[np.generic, ...],
        shared_mem: int,
    ) -> None: ...


class Module(Protocol):
    """Device code that is loaded on the current device."""

    def load(self, cubin: bytes) -> None: ...

    def get_function(self, name: str) -> Function: ...


class _FunctionModule(Protocol):
    Module: type[Module]


class _Runtime(Protocol):
    CUDARuntimeError: type[Exception]
    memcpyHostToDevice: int
    memcpyDeviceToHost: int

    def getDevice(self) -> int: ...

    def deviceSynchronize(self) -> None: ...

    def getDeviceCount(self) -> int: ...

    def getDeviceProperties(self, device: int) -> Mapping[str, Any]: ...

    def setDevice(self, device: int) -> None: ...

    def memGetInfo(self) -> tuple[int, int]: ...

    def memset(self, ptr: int, value: int, size: int) -> None: ...

    def memcpy(self, dst: int, src: int, size: int, kind: int) -> None: ...

    def ipcGetMemHandle(self, devPtr: int) -> bytes: ...

    def ipcOpenMemHandle(self, handle: bytes) -> int: ...

    def ipcCloseMemHandle(self, devPtr: int) -> None: ...

    def memsetAsync(self, ptr: int, value: int, size: int, stream: int) -> None: ...

    def deviceGetAttribute(self, attrib: int, device: int) -> int: ...

    def hostRegister(self, ptr: int, size: int, flags: int) -> None: ...

    def hostUnregister(self, ptr: int) -> None: ...

    def memcpy2DAsync(
        self,
        dst: int,
        dpitch: int,
        src: int,
        spitch: int,
        width: int,
        height: int,
        kind: int,
        stream: int,
    ) -> None: ...


class _MemoryModule(Protocol):
    OutOfMemoryError: type[Exception]


class _Driver(Protocol):
    CUDADriverError: type[Exception]

    def funcSetAttribute(self, func: int, attribute: int, value: int) -> None: ...


class _StreamKind(Protocol):
    def __call__(self, *, non_blocking: bool, priority: int = 0) -> Stream: ...


class _EventKind(Protocol):
    def __call__(self, *, disable_timing: bool, block: bool = False) -> Event: ...


class _MemoryKind(Protocol):
    def __call__(self, size: int) -> RawMemory: ...


class _PinnedKind(Protocol):
    def __call__(self, size: int) -> object: ...


class _PinnedPointerKind(Protocol):
    def __call__(self, mem: object, offset: int) -> Pinned: ...


class _Cuda(Protocol):
    runtime: _Runtime
    memory: _MemoryModule
    driver: _Driver
    function: _FunctionModule
    Stream: _StreamKind
    Event: _EventKind
    MemoryPool: type[MemoryPool]
    Memory: _MemoryKind
    PinnedMemory: _PinnedKind
    PinnedMemoryPointer: _PinnedPointerKind

    def alloc(self, size: int) -> MemoryPointer: ...

    def alloc_pinned_memory(self, size: int) -> Pinned: ...

    def get_current_stream(self) -> Stream: ...

    def get_elapsed_time(self, start_event: Event, end_event: Event) -> float: ...

    def using_allocator(
        self, allocator: Callable[[int], MemoryPointer]
    ) -> AbstractContextManager[None]: ...


class Cublas(Protocol):
    """The module `cupy.cublas`."""

    def gemm(
        self,
        transa: str,
        transb: str,
        a: DeviceArray,
        b: DeviceArray,
        out: DeviceArray,
        alpha: float,
        beta: float,
    ) -> DeviceArray: ...


class Cupy(Protocol):
    """The module `cupy`."""

    cuda: _Cuda

    def ndarray(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        memptr: MemoryPointer,
        strides: tuple[int, ...],
    ) -> DeviceArray: ...

    def asarray(self, a: Any) -> DeviceArray: ...

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray: ...

    def asnumpy(self, a: DeviceArray) -> np.ndarray[Any, np.dtype[Any]]: ...

    def get_default_memory_pool(self) -> MemoryPool: ...

    def get_default_pinned_memory_pool(self) -> PinnedMemoryPool: ...


def cupy() -> Cupy:
    """Return the module `cupy`; raises `DeviceError` where it cannot be imported."""
    try:
        # This is called several times a launch; to silence takes longer than a launch.
        if "cupy" in sys.modules:
            return _imported()
        with warnings.catch_warnings():
            # CuPy warns on import where it finds no CUDA toolkit, which is not needed here.
            warnings.simplefilter("ignore")
            return _imported()
    except ImportError as error:
        raise DeviceError(
            "The target 'cuda' needs CuPy, which cannot be imported here.",
            hint="Install 'halocline[cuda13]' or 'halocline[cuda12]', or use target='cpu'.",
        ) from error


def _imported() -> Cupy:
    import cupy as module  # pyright: ignore[reportMissingImports, reportUnknownVariableType] # an optional library without types

    return cast("Cupy", module)


def cublas() -> Cublas:
    """Return the module `cupy.cublas`; raises `DeviceError` where CuPy cannot be imported."""
    cupy()
    return cast("Cublas", import_module("cupy.cublas"))
