"""Memory of targets that compute on the host: NumPy arrays with aligned rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from halocline_engine.backends.base import HostArray

__all__ = ["ALIGNMENT", "HostMemory"]

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

    def upload(self, host: HostArray, into: HostArray) -> None:
        """Copy `host` into `into`, which has the same shape."""
        np.copyto(into, host)

    def download(self, array: HostArray) -> HostArray:
        """Return a contiguous copy, whose axes lie as those of the array."""
        return np.array(array, order="K")
