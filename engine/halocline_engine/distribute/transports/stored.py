"""Storage of a field's values: plain files, or an array of this process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import PackedArray, PackedSource
from halocline_engine.datasets.chunk_files.raw import RawArray, raw_array
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import CachedSource
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Source, ZarrStore, array_in
from halocline_engine.ir.types import Axis

__all__ = ["held_values", "is_raw", "is_whole", "packed_files", "raw_source"]


def is_raw(source: Source, name: str, use: FieldUse, grid: Grid) -> bool:
    """Whether a field is read from plain files."""
    return raw_source(source, name, use, grid) is not None


def raw_source(source: Source, name: str, use: FieldUse, grid: Grid) -> RawArray | None:
    """Return the plain files that a field is read from, if nothing is kept of them."""
    stored = _uncached(source)
    if not isinstance(stored, ZarrStore | ArrayStore) or not is_whole(use, grid):
        return None
    return raw_array(stored.path, name, use.dtype)


def packed_files(source: Source, use: FieldUse, grid: Grid) -> PackedArray | None:
    """Return the compressed files that a field is read from, if nothing is kept of them."""
    stored = _uncached(source)
    if not isinstance(stored, PackedSource) or not use.dims or not is_whole(use, grid):
        return None
    return stored.array


def _uncached(source: Source) -> Source | None:
    """Return a source without the cache around it; None where that keeps chunks."""
    if isinstance(source, CachedSource):
        return None if source.limit else source.source
    return source


def held_values(source: Source, name: str, use: FieldUse, grid: Grid) -> NDArray[Any] | None:
    """Return the array of this process that a field is read from as it is."""
    if not use.dims or not is_whole(use, grid):
        return None
    values = source.arrays[name] if isinstance(source, Arrays) else array_in(source, name)
    return values if values is not None and values.dtype == np.dtype(use.dtype) else None


def is_whole(use: FieldUse, grid: Grid) -> bool:
    """Whether a variable has all dimensions that there are of its field's axes."""
    several = zip(Axis, grid.dims_of(use.dims), strict=True)
    dims = [dim for axis, dim in several if axis in use.axes]
    return all(dim is None or dim in use.dims for dim in dims)
