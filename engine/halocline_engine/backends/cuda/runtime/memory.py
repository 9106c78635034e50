"""Device arrays whose rows begin on a cache line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.model.layout import (
    DEVICE_ALIGNMENT,
    DEVICE_LAYOUT,
    StorageInfo,
    alignment_unit,
)
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.copies import AnyArray

__all__ = ["PitchedMemory"]


@dataclass(frozen=True, slots=True)
class PitchedMemory:
    """`backends.base.Memory` on a machine: the first non-halo point of every row is aligned."""

    machine: Machine

    def empty(
        self, shape: tuple[int, int, int], dtype: np.dtype[Any], halo: tuple[int, int, int]
    ) -> Array:
        """Return an array indexed [i, j, k], unit stride along I; contents are not defined."""
        info = self.info(shape, dtype, halo)
        return self.machine.allocate(
            info.allocation * dtype.itemsize,
            lambda address: info.shift(address, dtype.itemsize, DEVICE_ALIGNMENT),
            shape,
            dtype,
            self.strides(shape, dtype, halo),
        )

    def shared_row(self, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Array:
        """Return an array indexed [i, j, k] whose strides along J and K are zero."""
        size = shape[0] * dtype.itemsize
        return self.machine.allocate(size, lambda _: 0, shape, dtype, (dtype.itemsize, 0, 0))

    def strides(
        self, shape: tuple[int, int, int], dtype: np.dtype[Any], halo: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        """Return the strides in bytes that such an array has."""
        i, j, k = self.info(shape, dtype, halo).strides
        return i * dtype.itemsize, j * dtype.itemsize, k * dtype.itemsize

    def info(
        self,
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        halo: tuple[int, int, int],
        layout: tuple[int, int, int] = DEVICE_LAYOUT,
    ) -> StorageInfo:
        """Return how such an array lies, with its axes in some order (see `model.layout`)."""
        unit = alignment_unit(dtype.itemsize, DEVICE_ALIGNMENT)
        return StorageInfo(shape, layout, unit, halo)

    def upload(self, host: AnyArray, into: Array, threads: int = 1) -> None:
        """Copy a host array into a device array of the same shape and type."""
        self.machine.upload(host, into, threads)

    def download(self, array: Array, into: AnyArray | None = None, threads: int = 1) -> Any:
        """Return the contents in host memory, complete: a new array, or `into`."""
        return self.machine.download(array, into, threads)
