"""Copies of large arrays, slab by slab: several threads copy faster than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.far_memory import FarArray

__all__ = ["AnyArray", "copy", "copy_slabs", "in_threads", "slabs"]

#: An array of the host, of this process or of another one.
AnyArray: TypeAlias = NDArray[Any] | FarArray

#: Bytes that one copy moves at most, if a single row is not larger.
_SLAB = 8 << 20


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

    in_threads(one, list(slabs(source.shape, source.itemsize)), threads)


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
