"""Executables on the host: their memory, NumPy arrays with aligned rows, and repeated calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from halocline_engine.backends.base import HostArray
from halocline_engine.copies import AnyArray, copy_slabs

__all__ = ["ALIGNMENT", "HostExecutable", "HostMemory", "repeat_work"]

#: Bytes: a cache line, and the widest vector register.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class HostMemory:
    """`backends.base.Memory` with NumPy arrays."""

    def empty(
        self, shape: tuple[int, int, int], dtype: np.dtype[Any], halo: tuple[int, int, int]
    ) -> HostArray:
        """Return an array indexed [i, j, k] whose element at `halo` is aligned in every row."""
        itemsize = dtype.itemsize
        ni, nj, nk = shape
        row = -(-ni * itemsize // ALIGNMENT) * ALIGNMENT
        strides = (itemsize, row, row * nj)
        raw = np.empty(row * nj * nk + ALIGNMENT, np.uint8)
        address: int = raw.__array_interface__["data"][0]
        lead = -(address + halo[0] * itemsize) % ALIGNMENT
        return np.ndarray(shape, dtype, raw.data, lead, strides)

    def shared_row(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> HostArray:
        """Return an array indexed [i, j, k] whose strides along J and K are zero."""
        row = np.empty(shape[0], dtype)
        return np.ndarray(shape, dtype, row.data, 0, (dtype.itemsize, 0, 0))

    def upload(self, host: AnyArray, into: HostArray, threads: int = 1) -> None:
        """Copy `host` into `into`, which has the same shape."""
        copy_slabs(host, into, threads)

    def download(self, array: HostArray, into: AnyArray | None = None, threads: int = 1) -> Any:
        """Copy into an array of the same shape, or a new one whose axes lie as those of `array`."""
        found = np.empty_like(array) if into is None else into
        copy_slabs(array, found, threads)
        return found


class HostExecutable:
    """Memory and repetition, which all `backends.base.Executable`s on the host share."""

    __slots__ = ()

    @property
    def memory(self) -> HostMemory:
        """NumPy arrays."""
        return HostMemory()

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do work again; a call costs little on the host."""
        repeat_work(work, times, look)


def repeat_work(
    work: Callable[[], None], times: int, look: Callable[[], None] | None = None
) -> None:
    """Do work several times, and look before each."""
    for _ in range(times):
        if look is not None:
            look()
        work()
