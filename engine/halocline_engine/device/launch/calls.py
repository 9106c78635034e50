"""Functions of the driver and the system, called from compiled loops at their addresses."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs] # it has none
from numba import types
from numba.extending import intrinsic as _numba_intrinsic
from numpy.typing import NDArray

from halocline_engine.errors import DeviceError

__all__ = [
    "CALLS",
    "call_int",
    "call_word",
    "calls_with",
    "compiled",
    "peek",
    "peek_int",
    "poke",
    "system_calls",
]

_DRIVER = ("cuMemcpy2DAsync_v2", "cuEventRecord", "cuEventSynchronize")
_SYSTEM = (
    "pread",
    "pwrite",
    "memcpy",
    "__errno_location",
    "open",
    "close",
    "ftruncate",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_broadcast",
    "clock_gettime",
)
#: What is called, in the order of the addresses.
CALLS = (*_DRIVER, *_SYSTEM)

_Function = Callable[..., Any]
#: Numba and llvmlite have no types of their own.
_intrinsic = cast("Callable[[_Function], _Function]", _numba_intrinsic)
_types, _ir = cast("Any", types), cast("Any", ir)


@functools.cache
def system_calls() -> NDArray[np.int64]:
    """Return the addresses of `CALLS`; raises `DeviceError` where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(
            "The driver's library 'libcuda.so.1' cannot be loaded.",
            hint="Install the driver, or use target='cpu'.",
        ) from error
    return calls_with([getattr(driver, name) for name in _DRIVER])


def calls_with(driver: Sequence[Any]) -> NDArray[np.int64]:
    """Return the addresses of `CALLS`, with some functions for those of the driver."""
    system = ctypes.CDLL(None)
    functions = [*driver, *(getattr(system, name) for name in _SYSTEM)]
    addresses = [ctypes.cast(one, ctypes.c_void_p).value for one in functions]
    return np.array(addresses, np.int64)


def compiled(function: _Function) -> _Function:
    """Compile a function; what is compiled is kept for the next process, where there is a place."""
    decorate = cast("Any", numba).njit
    try:
        return decorate(nogil=True, cache=True)(function)
    except RuntimeError:
        return decorate(nogil=True)(function)


def _caller(bits: int) -> _Function:
    """Return what calls a function of C at an address with four integers; it returns `bits`."""

    @_intrinsic
    def call(_typing: Any, _address: Any, _one: Any, _two: Any, _three: Any, _four: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word = _ir.IntType(64)
            kind = _ir.FunctionType(_ir.IntType(bits), [word] * 4)
            function = builder.inttoptr(arguments[0], kind.as_pointer())
            return builder.sext(builder.call(function, arguments[1:]), word)

        whole = _types.int64
        return whole(whole, whole, whole, whole, whole), generate

    return call


def _reader(bits: int) -> _Function:
    """Return what reads an integer at an address."""

    @_intrinsic
    def read(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], _ir.IntType(bits).as_pointer())
            return builder.sext(builder.load(place), _ir.IntType(64))

        return _types.int64(_types.int64), generate

    return read


@_intrinsic
def _poke(_typing: Any, _address: Any, _value: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _ir.IntType(64).as_pointer())
        builder.store(arguments[1], place)
        return context.get_dummy_value()

    return _types.void(_types.int64, _types.int64), generate


#: Call a function that returns an int, or a long; read one at an address, or write a long there.
call_int, call_word = _caller(32), _caller(64)
peek_int, peek = _reader(32), _reader(64)
poke = _poke
