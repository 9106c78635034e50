"""Compiled code that is loaded on the current device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Protocol, TypeAlias, cast

import numpy as np

from halocline_engine.device.cupy_types import Function, Module, cupy
from halocline_engine.device.launch.dependent import Following
from halocline_engine.errors import DeviceError

__all__ = ["DeviceKernels"]

_Size: TypeAlias = tuple[int, int, int]

#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the CUDA driver API.
_MAX_DYNAMIC_SHARED = 8
#: Bytes that each argument has for itself where arguments are packed, and what packs one.
_PLACE = 8
_CODES = {
    "b1": "?",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
}


class _Driver(Protocol):
    """The part in use of the module `cupy.cuda.driver`."""

    CUDADriverError: type[Exception]

    def funcSetAttribute(self, func: int, attribute: int, value: int) -> None: ...

    def launchKernel(self, *given: int) -> None:
        """Launch a function: grid, block, shared memory, stream, arguments, and a 0."""
        ...

    def check_status(self, status: int) -> None:
        """Raise what a status means."""
        ...


class DeviceKernels:
    """The kernels of one translation unit, loaded on the device that was current at its making."""

    def __init__(self, cubin: bytes) -> None:
        cuda = cupy().cuda
        self._failure = cuda.driver.CUDADriverError
        self._module = cuda.function.Module()
        try:
            self._module.load(cubin)
        except self._failure as error:
            raise DeviceError(f"The device did not load compiled code: {error}.") from error
        self._driver = cast("_Driver", cuda.driver)
        self._functions: dict[str, Function] = {}
        self._shared: dict[str, int] = {}

    def launch(
        self,
        name: str,
        grid: _Size,
        block: _Size,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
    ) -> None:
        """Queue a kernel on the current stream; raises `DeviceError` if that fails.

        `shared` is how many bytes of dynamic shared memory a block has.
        """
        try:
            self._function(name, shared)(grid, block, arguments, shared)
        except self._failure as error:
            raise _not_launched(name, error) from error

    def ready(
        self,
        name: str,
        grid: _Size,
        block: _Size,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
        changing: Sequence[int] = (),
        *,
        follows: bool = False,
    ) -> Callable[..., None]:
        """Return what queues a kernel on the current stream, given the arguments that change.

        The others, and the types of all, are those of `arguments`; `changing` says which places
        are given at each call, in that order. Any thread may call it. It and the call raise
        `DeviceError` where the device refuses. With `follows`, the kernel may be brought to the
        processors while the one before it ends: it waits by itself before it touches memory.
        """
        try:
            function = self._function(name, shared)
        except self._failure as error:
            raise _not_launched(name, error) from error
        packed = _Packed(arguments, changing)
        geometry = (*grid, *block, shared)
        if follows:
            launch = Following(function.ptr, geometry, packed.places, self._driver.check_status)
            return _Ready(name, packed, launch.launch, self._failure, self._module)

        def queue(stream: int) -> None:
            self._driver.launchKernel(function.ptr, *geometry, stream, packed.places, 0)

        return _Ready(name, packed, queue, self._failure, self._module)

    def _function(self, name: str, shared: int) -> Function:
        """Return a kernel that may have so many bytes of shared memory."""
        function = self._functions.get(name)
        if function is None:
            function = self._module.get_function(name)
            self._functions[name] = function
        # Unasked it may have 48 KiB, of which what its code declares takes a part.
        if shared > self._shared.get(name, 0):
            self._driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared)
            self._shared[name] = shared
        return function


class _Packed:
    """Arguments as the driver reads them; `places` is where their addresses lie.

    Those that change come first.
    """

    def __init__(self, arguments: tuple[np.generic, ...], changing: Sequence[int]) -> None:
        fixed = [n for n in range(len(arguments)) if n not in set(changing)]
        first = _packer([arguments[n] for n in changing])
        rest = _packer([arguments[n] for n in fixed])
        room = np.zeros(max(1, first.size + rest.size), np.uint8)
        rest.pack_into(room.data, first.size, *(arguments[n] for n in fixed))
        self._room, self._pack = room.data, first.pack_into
        self._addresses = np.zeros(max(1, len(arguments)), np.uint64)
        base: int = room.__array_interface__["data"][0]
        for place, number in enumerate((*changing, *fixed)):
            self._addresses[number] = base + _PLACE * place
        self.places: int = self._addresses.__array_interface__["data"][0]

    def change(self, values: Sequence[object]) -> None:
        """Put the arguments that change in their places."""
        self._pack(self._room, 0, *values)


class _Ready:
    """A launch of packed arguments; the driver has copied them when it returns.

    Code is unloaded when nothing refers to its module, and a launch may outlive whoever made it.
    """

    def __init__(
        self,
        name: str,
        packed: _Packed,
        launch: Callable[[int], None],
        failure: type[Exception],
        module: Module,
    ) -> None:
        self._module = module
        self._name = name
        self._packed = packed
        self._launch = launch
        self._failure = failure
        self._lock = threading.Lock()

    def __call__(self, *values: object) -> None:
        stream = cupy().cuda.get_current_stream().ptr
        try:
            with self._lock:
                self._packed.change(values)
                self._launch(stream)
        except self._failure as error:
            raise _not_launched(self._name, error) from error


def _packer(arguments: Sequence[np.generic]) -> Struct:
    """Return what packs arguments of these types, each at a place of its own."""
    codes = [f"{_CODES[one.dtype.str[1:]]}{_PLACE - one.dtype.itemsize}x" for one in arguments]
    return Struct(f"<{''.join(codes)}")


def _not_launched(name: str, error: Exception) -> DeviceError:
    return DeviceError(f"Kernel '{name}' could not be launched: {error}.")
