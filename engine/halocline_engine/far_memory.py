"""Arrays in the memory of another process of this machine, read and written where they lie.

The system copies between the memory of two processes of one user (`process_vm_readv`) as fast as
within one of them, where it lets the one trace the other.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FarArray", "MemoryPlace", "has_at", "let_descendants_in", "place_of"]

#: Pieces that the system copies at once, and bytes of one of them and of all.
_PIECES, _BYTES = 1024, 64 << 20
#: Bytes side by side below which cells are brought together before they are copied to elsewhere.
_SHORT = 256
#: Of <sys/prctl.h>: who may trace this process, beside those who may anyway.
_SET_TRACER = 0x59616D61

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Address of an array in the memory of a process, which keeps it there."""

    process: int
    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def open(self) -> FarArray:
        """Return the array."""
        one = np.empty(1, self.dtype)
        layout = np.lib.stride_tricks.as_strided(one, self.shape, self.strides)
        return FarArray(self.process, self.address - _address(one), layout)


def place_of(values: NDArray[Any]) -> MemoryPlace:
    """Return where an array of this process is."""
    return MemoryPlace(
        os.getpid(), _address(values), values.dtype.str, values.shape, values.strides
    )


@dataclass(frozen=True, slots=True, eq=False)
class FarArray:
    """An array of another process; parts of it are views, as those of NumPy.

    `layout` has its shape and strides; its own elements do not exist. `far` is the distance from
    them to those of the other process.
    """

    process: int
    far: int
    layout: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The size along each axis."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""
        return self.layout.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.layout.itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.layout.nbytes

    def __getitem__(self, key: tuple[Any, ...]) -> FarArray:
        """Return a part, which has all axes that the key names no number for."""
        # With an ellipsis it is a view even where no axis is left.
        whole = key if Ellipsis in key else (*key, Ellipsis)
        return replace(self, layout=self.layout[whole])

    def transpose(self, axes: list[int]) -> FarArray:
        """Return it with its axes in another order."""
        return replace(self, layout=self.layout.transpose(axes))

    def fetch(self, into: NDArray[Any]) -> None:
        """Copy it into an array of the same shape and type; raises `OSError` where it is gone."""
        self._move(into, out=False)

    def store(self, values: NDArray[Any]) -> None:
        """Overwrite it with an array of the same shape and type; raises `OSError` as `fetch`."""
        self._move(values, out=True)

    def _move(self, near: NDArray[Any], *, out: bool) -> None:
        if (near.shape, near.dtype) != (self.shape, self.dtype):
            raise ValueError(f"{near.dtype}{near.shape} is no {self.dtype}{self.shape}.")
        if not self.size:
            return
        order = sorted(range(near.ndim), key=lambda axis: -abs(self.layout.strides[axis]))
        there, here = self.layout.transpose(order), near.transpose(order)
        run, _ = _run(there, here)
        if run < _SHORT and _run(there, there)[0] > run:
            dense = np.empty(there.shape, there.dtype)
            if out:
                np.copyto(dense, here)
            _copy(self.process, _pieces(there, dense, self.far), out=out)
            if not out:
                np.copyto(here, dense)
            return
        _copy(self.process, _pieces(there, here, self.far), out=out)


def has_at(place: MemoryPlace, expected: bytes) -> bool:
    """Whether this process reads bytes at a place; another one than meant may be there."""
    values = np.empty(place.shape, place.dtype)
    try:
        place.open().fetch(values)
    except OSError:
        return False
    return values.tobytes() == expected


def let_descendants_in() -> None:
    """Let processes that this one started, and those started by them, reach its memory.

    Where Yama guards processes, only those may trace another one that it descends from, or that it
    names.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SET_TRACER, ctypes.c_ulong(os.getpid()), 0, 0, 0)


def _run(there: NDArray[Any], here: NDArray[Any]) -> tuple[int, int]:
    """Return the bytes that lie side by side in both arrays, and over how many of the last axes."""
    run, axes = there.itemsize, 0
    for axis in reversed(range(there.ndim)):
        if there.shape[axis] > 1:
            if there.strides[axis] != run or here.strides[axis] != run:
                break
            run *= there.shape[axis]
        axes += 1
    return run, axes


def _pieces(there: NDArray[Any], here: NDArray[Any], far: int) -> tuple[_Numbers, _Numbers, int]:
    """Return the addresses of pieces in the other process, those here, and bytes of a piece."""
    run, axes = _run(there, here)
    outer = there.ndim - axes
    starts = [
        _address(one) + more + _offsets(one.strides[:outer], one.shape[:outer])
        for one, more in ((there, far), (here, 0))
    ]
    return starts[0], starts[1], run


def _offsets(strides: tuple[int, ...], shape: tuple[int, ...]) -> _Numbers:
    total: _Numbers = np.zeros(1, np.int64)
    for stride, size in zip(strides, shape, strict=True):
        total = (total[:, None] + stride * np.arange(size, dtype=np.int64)).reshape(-1)
    return total


def _copy(process: int, pieces: tuple[_Numbers, _Numbers, int], *, out: bool) -> None:
    """Copy pieces, some of them at once and long ones part by part."""
    there, here, size = pieces
    count = min(_PIECES, max(1, _BYTES // size))
    for start in range(0, len(there), count):
        several = slice(start, start + count)
        for at in range(0, size, _BYTES):
            most = min(_BYTES, size - at)
            _call(process, there[several] + at, here[several] + at, most, out=out)


def _call(process: int, there: _Numbers, here: _Numbers, size: int, *, out: bool) -> None:
    """Let the system copy pieces of one size."""
    ends = [np.stack([at, np.full_like(at, size)], axis=1) for at in (here, there)]
    near, far = (ctypes.c_void_p(_address(one)) for one in ends)
    count = ctypes.c_ulong(len(there))
    moved = _function(out)(process, near, count, far, count, ctypes.c_ulong(0))
    if moved != size * len(there):
        number = ctypes.get_errno() if moved < 0 else errno.EFAULT
        raise OSError(number, f"Memory of process {process}: {os.strerror(number)}")


@functools.cache
def _function(out: bool) -> Any:
    name = "process_vm_writev" if out else "process_vm_readv"
    found: Any = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if found is None:
        raise OSError(errno.ENOSYS, f"The system has no {name}")
    found.restype = ctypes.c_ssize_t
    return found


def _address(values: NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])
