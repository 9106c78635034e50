"""Arrays in memory that processes of one machine share, without a file that could be left behind.

The memory belongs to the process that made it, which others reach under its number. It is free
again when none of them has it open any more, however they end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.source import InMemory, Region, copy_variable
from halocline_engine.errors import CapacityError

__all__ = ["SharedArray", "SharedArrays", "can_share", "share_results", "share_variables"]

#: Of the memory that is free, shared arrays take no more than this share.
_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array in shared memory, dense, the last dimension fastest."""

    place: str
    dtype: str
    shape: tuple[int, ...]

    def values(self, *, writable: bool) -> NDArray[Any]:
        """Return the array; what is written into it is seen by all."""
        return np.asarray(
            np.memmap(self.place, self.dtype, "r+" if writable else "r", 0, self.shape)
        )


@dataclass(frozen=True, slots=True)
class SharedArrays:
    """A source and a sink for processes of the machine."""

    arrays: Mapping[str, SharedArray]

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return a view of a region."""
        return self.arrays[name].values(writable=False)[region]

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Store the values of a region."""
        self.arrays[name].values(writable=True)[region] = values

    def values(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, which stay when everyone else has closed them."""
        return {name: one.values(writable=True) for name, one in self.arrays.items()}


def can_share(size: int) -> bool:
    """Say whether so many bytes may be shared by processes of this machine."""
    return hasattr(os, "memfd_create") and size <= _SHARE * psutil.virtual_memory().available


def share_variables(dataset: xr.Dataset, names: Sequence[str], stack: ExitStack) -> SharedArrays:
    """Copy variables of a dataset to shared memory, which is given back with the stack."""
    source = InMemory(dataset)
    made: dict[str, SharedArray] = {}
    for name in dict.fromkeys(names):
        first = source.read(name, (slice(0, 1),) * dataset[name].ndim)
        made[name] = _created(first.dtype, tuple(map(int, dataset[name].shape)), stack)
        copy_variable(source, name, made[name].values(writable=True))
    return SharedArrays(made)


def share_results(uses: Mapping[str, FieldUse], grid: Grid, stack: ExitStack) -> SharedArrays:
    """Return arrays for results, by name, whose memory is given back with the stack."""
    return SharedArrays(
        {
            name: _created(np.dtype(use.dtype), tuple(map(grid.size_of, use.dims)), stack)
            for name, use in uses.items()
        }
    )


def _created(dtype: np.dtype[Any], shape: tuple[int, ...], stack: ExitStack) -> SharedArray:
    size = max(1, math.prod(shape)) * dtype.itemsize
    number = os.memfd_create("halocline")
    stack.callback(os.close, number)
    try:
        # Pages that are not there when they are touched would end the process.
        os.posix_fallocate(number, 0, size)
    except OSError as error:
        raise CapacityError(
            f"The machine has no {size} bytes of memory that processes can share: {error}.",
            hint="Use fewer or larger workers, or give output=.",
            needed=size,
            available=0,
        ) from error
    return SharedArray(f"/proc/{os.getpid()}/fd/{number}", dtype.str, shape)
