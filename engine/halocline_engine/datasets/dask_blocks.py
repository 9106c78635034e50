"""Blocks of Dask arrays, each checked against its declared shape and type.

Dask believes what an array declares of its blocks. A function that gives others shifts all blocks
after them, and a reader that trusts the declared shape reads beyond the array. Values that the
declared type holds all are converted to it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.errors import DatasetError

__all__ = ["load_region", "with_checked_blocks"]

_Region = tuple[slice, ...]

#: Types of values of any length, which a block may have of another length than its array.
_TEXTS = "OSUT"


def load_region(name: str, data: Any, region: _Region) -> NDArray[Any]:
    """Compute a region of the Dask array of variable `name`, in this thread.

    Raises `DatasetError` where a block has another shape or type than the array declares. A block
    is checked whole, unless it is a part of a source: then Dask asks the source for the region
    alone, and what it gives for that is checked.
    """
    starts = [np.cumsum([0, *sizes]) for sizes in data.chunks]
    spans = [part.indices(size) for part, size in zip(region, data.shape, strict=True)]
    touched = [
        slice(int(np.searchsorted(ends, low, "right")) - 1, int(np.searchsorted(ends, high)))
        for ends, (low, high, _) in zip(starts, spans, strict=True)
    ]
    if any(low >= high for low, high, _ in spans) or not region:
        return np.asarray(_checked(name, data)[region].compute(scheduler="synchronous"))
    first = tuple(part.start for part in touched)
    if _is_part_of_source(data, touched):
        part = _checked(name, data[region], first)
    else:
        inside = tuple(
            slice(low - int(ends[at]), high - int(ends[at]))
            for ends, (low, high, _), at in zip(starts, spans, first, strict=True)
        )
        part = _checked(name, data.blocks[tuple(touched)], first)[inside]
    return cast("NDArray[Any]", part.compute(scheduler="synchronous"))


def with_checked_blocks(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset whose Dask arrays raise `DatasetError` for a block that is not as declared.

    Nothing is computed.
    """
    lazy = [name for name, item in dataset.variables.items() if item.chunks is not None]
    checked = dataset.copy() if lazy else dataset
    for name in lazy:
        array: Any = checked[name]
        array.data = _checked(str(name), array.data)
    return checked


def _checked(name: str, data: Any, first: tuple[int, ...] = ()) -> Any:
    """Return an array that checks each block; `first` is the index of its first one."""
    check = functools.partial(_check_block, variable=name, first=first or (0,) * data.ndim)
    meta = np.empty((0,) * data.ndim, data.dtype)
    return data.map_blocks(check, dtype=data.dtype, meta=meta)


def _check_block(
    block: Any, *, variable: str, first: tuple[int, ...], block_info: Any = None
) -> Any:
    info = block_info[0]
    shape = tuple(stop - start for start, stop in info["array-location"])
    dtype, got = block_info[None]["dtype"], getattr(block, "dtype", np.asarray(block).dtype)
    place = ", ".join(str(at + own) for at, own in zip(first, info["chunk-location"], strict=True))
    what = f"Block ({place}) of variable '{variable}'"
    if np.shape(block) != shape:
        raise DatasetError(
            f"{what} must have the declared shape {shape}, but Dask computed one of"
            f" {np.shape(block)}.",
            hint="Declare the shapes that blocks have, with 'chunks' of dask.array.map_blocks, or"
            " correct the function that makes them.",
        )
    if _is_same_type(np.dtype(dtype), got):
        return block
    if not np.can_cast(got, dtype, "safe"):
        raise DatasetError(
            f"{what} must have the declared type '{dtype}', but Dask computed '{got}'.",
            hint="Declare the type that blocks have, with 'dtype' of dask.array.map_blocks, or"
            " cast them with astype.",
        )
    return np.asarray(block, dtype)


def _is_same_type(declared: np.dtype[Any], got: np.dtype[Any]) -> bool:
    """Whether types are the same, in any order of bytes and for texts of any length."""
    if declared.kind in _TEXTS:
        return got.kind in _TEXTS
    return declared.newbyteorder("=") == got.newbyteorder("=")


def _is_part_of_source(data: Any, touched: Sequence[slice]) -> bool:
    """Whether blocks are parts of what `dask.array.from_array` was given, and nothing else."""
    indices = itertools.product(*(range(part.start, part.stop) for part in touched))
    graph = data.dask.cull({(data.name, *index) for index in indices})
    calls = {getattr(task, "func", None) for task in graph.values()} - {None}
    return all(_is_getter(call) for call in calls)


def _is_getter(call: Any) -> bool:
    """Whether a function is one by which Dask reads sources, and into which it moves slices."""
    module, name = getattr(call, "__module__", ""), getattr(call, "__name__", "")
    return module == "dask.array.core" and name.startswith("getter")
