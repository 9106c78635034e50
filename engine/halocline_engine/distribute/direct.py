"""Between stores and buffers of a pipeline: as plain files where that is what chunks are."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunks import CachedSource, Tally, chunks_in, counted
from halocline_engine.datasets.match import FieldUse, Grid
from halocline_engine.datasets.raw import RawArray, raw_array
from halocline_engine.datasets.sink import Sink, ZarrSink
from halocline_engine.datasets.source import ArrayStore, Source, ZarrStore
from halocline_engine.distribute.partition import Block, Box
from halocline_engine.distribute.transfer import pieces_of, read_box, write_box
from halocline_engine.ir.types import Axis

__all__ = ["Reader", "Writer", "is_raw", "reader_of", "writer_of"]

#: Fills an array [i, j, k] with a field's values in a box, for a block of one point of the others.
Reader: TypeAlias = Callable[[Block, Box, NDArray[Any], Tally], None]
#: Stores a block's values, indexed [i, j, k]; returns how many bytes they have.
Writer: TypeAlias = Callable[[Block, NDArray[Any]], int]


def is_raw(source: Source, name: str, use: FieldUse, grid: Grid) -> bool:
    """Whether a field is read from plain files."""
    return _raw_source(source, name, use, grid) is not None


def reader_of(source: Source, name: str, use: FieldUse, grid: Grid, threads: Executor) -> Reader:
    """Return what reads a field, in some threads where it is read from plain files."""
    raw = _raw_source(source, name, use, grid)

    def general(block: Block, box: Box, into: NDArray[Any], tally: Tally) -> None:
        values = read_box(counted(source, tally), name, use, grid, block, box)
        np.copyto(into, values[(0,) * len(grid.extra)])

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
