"""Copies of large arrays, slab by slab: several threads copy faster than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.far_memory import FarArray
from halocline_engine.processors import usable_processors

__all__ = [
    "AnyArray",
    "copy",
    "copy_slabs",
    "copying_threads",
    "dense",
    "in_threads",
    "near",
    "of_device",
    "reshaped",
    "slabs",
    "slabs_for",
]

#: An array of the host, of this process or of another one.
AnyArray: TypeAlias = NDArray[Any] | FarArray

#: Bytes that one copy moves at most, if a single row is not larger. They are more where each thread
#: has several copies to make: only one thread at a time prepares its next one.
_SLAB, _LARGE_SLAB = 8 << 20, 16 << 20
_SEVERAL = 2
#: A few threads have the memory's bandwidth, or that of the way to a device.
_COPYING = 8


def slabs(
    shape: tuple[int, ...], itemsize: int, most: int = _SLAB
) -> Iterator[tuple[slice, slice]]:
    """Yield ranges along J and K so that each pair holds at most `most` bytes, or else one row.

    >>> [levels for _, levels in slabs((4, 4, 5), 8, most=300)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> [rows for rows, _ in slabs((4, 5, 1), 8, most=64)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    row = max(1, shape[0] * itemsize)
    planes = max(1, most // (row * max(1, shape[1])))
    rows = shape[1] if planes > 1 else max(1, most // row)
    for level in range(0, shape[2], planes):
        for first in range(0, shape[1], max(1, rows)):
            yield (
                slice(first, min(first + rows, shape[1])),
                slice(level, min(level + planes, shape[2])),
            )


def slabs_for(shape: tuple[int, ...], itemsize: int, threads: int) -> list[tuple[slice, slice]]:
    """Return the slabs of an array that so many threads share.

    >>> len(slabs_for((1024, 1024, 31), 8, 8)), len(slabs_for((1024, 1024, 32), 8, 8))
    (31, 16)
    """
    size = int(np.prod(shape, dtype=np.int64)) * itemsize
    large = size >= _SEVERAL * threads * _LARGE_SLAB
    return list(slabs(shape, itemsize, _LARGE_SLAB if large else _SLAB))


def copying_threads(sharing: int) -> int:
    """Return how many threads a process copies with, if so many share the processors."""
    return max(1, min(_COPYING, usable_processors() // sharing))


def reshaped(array: AnyArray, shape: tuple[int, ...]) -> AnyArray | None:
    """Return the same elements in another shape; None where they would have to be copied."""
    try:
        if isinstance(array, FarArray):
            return replace(array, layout=np.reshape(array.layout, shape, copy=False))
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return None


def of_device(values: Any) -> bool:
    """Say whether an array lies in the memory of a device, as those of CuPy."""
    return hasattr(values, "__cuda_array_interface__")


def dense(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in C order: itself, or else a copy, on the device if it is there."""
    if of_device(array):
        return array if array.flags.c_contiguous else array.copy()
    return np.ascontiguousarray(array)


def near(array: AnyArray) -> NDArray[Any]:
    """Return an array of this process, which is a copy of one of another process."""
    if not isinstance(array, FarArray):
        return array
    values: NDArray[Any] = np.empty(array.shape, array.dtype)
    array.fetch(values)
    return values


def copy(source: AnyArray, target: AnyArray) -> None:
    """Copy an array to another one of the same shape and type, one of which is of this process."""
    if isinstance(source, FarArray):
        assert not isinstance(target, FarArray)
        source.fetch(target)
    elif isinstance(target, FarArray):
        target.store(source)
    else:
        np.copyto(target, source)


def copy_slabs(source: AnyArray, target: AnyArray, threads: int) -> None:
    """Copy an array indexed [i, j, k] with so many threads; see `copy`."""
    if threads == 1:
        copy(source, target)
        return

    def one(part: tuple[slice, slice]) -> None:
        copy(source[:, part[0], part[1]], target[:, part[0], part[1]])

    in_threads(one, slabs_for(source.shape, source.itemsize, threads), threads)


def in_threads(
    work: Callable[[Any], None],
    parts: list[Any],
    threads: int,
    begin: Callable[[], None] | None = None,
) -> None:
    """Do work on each part, with at most so many threads, which each call `begin` first."""
    count = min(threads, len(parts))
    if count <= 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(count, "halocline-copy", begin) as pool:
        for _ in pool.map(work, parts):
            pass
