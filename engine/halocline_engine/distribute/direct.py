"""Between stores and buffers of a pipeline: as plain files where that is what chunks are.

Plain files, and arrays of this process, are read and written by several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunks import CachedSource, Tally, chunks_in, counted
from halocline_engine.datasets.match import FieldUse, Grid
from halocline_engine.datasets.raw import RawArray, raw_array
from halocline_engine.datasets.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.source import Arrays, ArrayStore, Source, ZarrStore
from halocline_engine.distribute.partition import Block, Box
from halocline_engine.distribute.transfer import pieces_of, read_box, write_box
from halocline_engine.ir.types import Axis

__all__ = ["Reader", "Writer", "is_raw", "reader_of", "writer_of"]

#: Bytes that a thread copies at a time.
_PIECE = 8 << 20

#: Fills an array [i, j, k] with a field's values in a box, for a block of one point of the others.
Reader: TypeAlias = Callable[[Block, Box, NDArray[Any], Tally], None]
#: Stores a block's values, indexed [i, j, k]; returns how many bytes they have.
Writer: TypeAlias = Callable[[Block, NDArray[Any]], int]


def is_raw(source: Source, name: str, use: FieldUse, grid: Grid) -> bool:
    """Whether a field is read from plain files."""
    return _raw_source(source, name, use, grid) is not None


def reader_of(source: Source, name: str, use: FieldUse, grid: Grid, threads: Executor) -> Reader:
    """Return what reads a field, in some threads where it is in plain files or in memory."""
    raw = _raw_source(source, name, use, grid)
    held = _held(source, name, use, grid)

    def general(block: Block, box: Box, into: NDArray[Any], tally: Tally) -> None:
        values = read_box(counted(source, tally), name, use, grid, block, box)
        np.copyto(into, values[(0,) * len(grid.extra)])

    if held is not None:

        def copied(block: Block, box: Box, into: NDArray[Any], _tally: Tally) -> None:
            view = _by_dims(use, grid, into)
            for region, there in pieces_of(use, grid, block, box):
                _copy(held[region], view[there], threads)

        return copied
    if raw is None:
        return general

    def direct(block: Block, box: Box, into: NDArray[Any], tally: Tally) -> None:
        view = _by_dims(use, grid, into)
        for region, there in pieces_of(use, grid, block, box):
            if not raw.read_into(region, view[there], threads):
                general(block, box, into, tally)
                return
            tally.fetches += sum(1 for _ in chunks_in(raw.stored, region))

    return direct


def writer_of(sink: Sink, name: str, use: FieldUse, grid: Grid, threads: Executor) -> Writer:
    """Return what writes a field, in some threads where it is written to plain files."""
    raw = raw_array(sink.path, name, use.dtype) if isinstance(sink, ZarrSink) else None

    def general(block: Block, values: NDArray[Any]) -> int:
        return write_box(sink, name, use, grid, block, values[(np.newaxis,) * len(grid.extra)])

    if isinstance(sink, ArraySink) and use.dims and _whole(use, grid):

        def copied(block: Block, values: NDArray[Any]) -> int:
            ((region, _),) = pieces_of(use, grid, block, block.box)
            _copy(_by_dims(use, grid, values), sink.arrays[name][region], threads)
            return values.nbytes

        return copied
    if raw is None or not _whole(use, grid):
        return general

    def direct(block: Block, values: NDArray[Any]) -> int:
        ((region, _),) = pieces_of(use, grid, block, block.box)
        written = raw.write(region, _by_dims(use, grid, values), threads)
        return values.nbytes if written else general(block, values)

    return direct


def _raw_source(source: Source, name: str, use: FieldUse, grid: Grid) -> RawArray | None:
    """Return the files that a field is read from, if nothing is kept of them."""
    if isinstance(source, CachedSource):
        if source.limit:
            return None
        source = source.source
    if not isinstance(source, ZarrStore | ArrayStore) or not _whole(use, grid):
        return None
    return raw_array(source.path, name, use.dtype)


def _held(source: Source, name: str, use: FieldUse, grid: Grid) -> NDArray[Any] | None:
    """Return the array of this process that a field is read from as it is."""
    if not isinstance(source, Arrays) or not use.dims or not _whole(use, grid):
        return None
    values = source.arrays[name]
    return values if values.dtype == np.dtype(use.dtype) else None


def _copy(values: NDArray[Any], into: NDArray[Any], threads: Executor) -> None:
    """Copy in several threads, each some rows of what lies farthest apart."""
    axis = max(range(into.ndim), key=lambda at: (into.shape[at] > 1, abs(into.strides[at])))
    step = max(1, into.shape[axis] * _PIECE // max(1, into.nbytes))

    def copy(start: int) -> None:
        part = (slice(None),) * axis + (slice(start, start + step),)
        np.copyto(into[part], values[part])

    for _ in threads.map(copy, range(0, into.shape[axis], step)):
        pass


def _whole(use: FieldUse, grid: Grid) -> bool:
    """Whether a variable has all dimensions that there are of its field's axes."""
    dims = [grid.dims[at] for at, axis in enumerate(Axis) if axis in use.axes]
    return all(dim is None or dim in use.dims for dim in dims)


def _by_dims(use: FieldUse, grid: Grid, values: NDArray[Any]) -> NDArray[Any]:
    """Return the view of an array [i, j, k] with the dimensions of the variable, in its order."""
    axes = [grid.axis_of(dim) for dim in use.dims]
    own = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(3) if axis not in own]
    view = values.transpose([*own, *rest])[(..., *(0 for _ in rest))]
    return view[tuple(np.newaxis if axis is None else slice(None) for axis in axes)]
