"""Launches that overlap the end of the work before them, which CuPy has no call for.

A kernel that begins with `griddepcontrol.wait` may be brought to the processors before the one in
front of it is complete; recorded into a graph, the edge between both says the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

__all__ = ["Following"]

#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of the CUDA driver API.
_PROGRAMMATIC = 6


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute; the value is a union of 64 bytes."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_byte * 60),
    )


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class Following:
    """A launch of a kernel; `geometry` is grid, block and bytes of shared memory.

    `places` is where the addresses of its arguments lie, and `check` raises what a status of the
    driver means. A launch raises `OSError` where the driver cannot be loaded.
    """

    def __init__(
        self, function: int, geometry: Sequence[int], places: int, check: Callable[[int], None]
    ) -> None:
        self._function, self._places, self._check = function, places, check
        self.config = _Config()
        self.config.grid[:] = geometry[:3]
        self.config.block[:] = geometry[3:6]
        self.config.shared = geometry[6]
        self.config.attributes = ctypes.pointer(_Attribute(_PROGRAMMATIC, 0, 1))
        self.config.count = 1

    def launch(self, stream: int) -> None:
        """Queue the kernel on a stream; by one thread at a time."""
        self.config.stream = stream
        status = _launcher()(ctypes.byref(self.config), self._function, self._places, None)
        if status:
            self._check(status)


@cache
def _launcher() -> Callable[..., int]:
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    pointer = ctypes.c_void_p
    launch.argtypes = (pointer, pointer, pointer, pointer)
    return launch
