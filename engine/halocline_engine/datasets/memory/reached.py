"""Arrays of this process that other processes of the machine read and write where they lie."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.sink import create_arrays
from halocline_engine.datasets.stores.source import InMemory, Region, array_in, copy_variable
from halocline_engine.far_memory import FarArray, MemoryPlace, place_of

__all__ = ["ReachedArrays", "reach_results", "reach_variables"]

#: Memory that nobody may write any more, in whose place there must be nothing else.
_SHUT: list[mmap.mmap] = []


@dataclass(frozen=True, slots=True)
class ReachedArrays:
    """A source and a sink for other processes, while this one keeps the arrays."""

    places: Mapping[str, MemoryPlace]

    def part(self, name: str, region: Region) -> FarArray:
        """Return a view of a region."""
        return self.places[name].open()[region]

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return a copy of a region."""
        part = self.part(name, region)
        values = np.empty(part.shape, part.dtype)
        part.fetch(values)
        return values

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Store the values of a region."""
        part = self.part(name, region)
        part.store(values.astype(part.dtype, copy=False))


def reach_variables(dataset: xr.Dataset, names: Sequence[str], stack: ExitStack) -> ReachedArrays:
    """Return variables of a dataset, which stay where they are until the stack ends.

    What is computed, does not lie row by row, or is memory of a device's driver, is copied.
    """
    source = InMemory(dataset)
    kept: dict[str, NDArray[Any]] = {}
    stack.callback(kept.clear)
    for name in dict.fromkeys(names):
        found = array_in(source, name)
        if found is None or not _in_rows(found) or not _can_be_read(found):
            first = source.read(name, (slice(0, 1),) * dataset[name].ndim)
            made = np.empty(tuple(map(int, dataset[name].shape)), first.dtype)
            copy_variable(source, name, made)
            found = made
        kept[name] = found
    return ReachedArrays({name: place_of(values) for name, values in kept.items()})


def reach_results(
    uses: Mapping[str, FieldUse], grid: Grid, stack: ExitStack
) -> tuple[ReachedArrays, dict[str, NDArray[Any]]]:
    """Return a sink for results, and their arrays.

    Where the stack ends with an error, some process may write later still: the arrays are empty
    then, and their addresses are not used again.
    """
    made: list[mmap.mmap] = []

    def end(kind: type[BaseException] | None, *_: object) -> None:
        for memory in made if kind is not None else ():
            _shut(memory)

    def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        size = max(1, math.prod(shape)) * dtype.itemsize
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a system may have none
            memory.madvise(mmap.MADV_HUGEPAGE)
        made.append(memory)
        return np.ndarray(shape, dtype, memory)

    stack.push(end)
    arrays = create_arrays(uses, grid, make=new)
    return ReachedArrays({name: place_of(values) for name, values in arrays.items()}), arrays


def _in_rows(values: NDArray[Any]) -> bool:
    """Whether elements along the last dimension lie side by side."""
    return not values.ndim or values.shape[-1] == 1 or values.strides[-1] == values.itemsize


def _can_be_read(values: NDArray[Any]) -> bool:
    """Whether the system reads memory for others: not what drivers map, as page-locked arrays."""
    if not values.size:
        return True
    part = values[(slice(0, 1),) * values.ndim]
    try:
        place_of(part).open().fetch(np.empty(part.shape, part.dtype))
    except OSError:
        return False
    return True


def _shut(memory: mmap.mmap) -> None:
    """Give pages back, and refuse whoever writes there."""
    _SHUT.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc: Any = ctypes.CDLL(None)
    libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), mmap.PROT_READ)
    memory.madvise(mmap.MADV_DONTNEED)
