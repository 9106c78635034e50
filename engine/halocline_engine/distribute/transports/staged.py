"""Fields that go through page-locked buffers of the host: the transport for any store.

Files, compressed or not, and arrays of this process are read and written by several threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array
from halocline_engine.datasets.chunk_files.packed import PackedArray, packed_array
from halocline_engine.datasets.chunk_files.raw import RawArray, raw_array
from halocline_engine.datasets.chunk_files.spread import spread
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import CachedSource, Tally, chunks_in, counted
from halocline_engine.datasets.stores.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import pieces_of, read_box, region_of, write_box
from halocline_engine.distribute.transports.base import (
    Copies,
    Part,
    TransferredBytes,
    box_bytes,
    shape_of,
)
from halocline_engine.distribute.transports.direct_file import by_dims
from halocline_engine.distribute.transports.stored import (
    held_values,
    is_whole,
    packed_files,
    raw_source,
)

__all__ = ["Buffer", "Reader", "StagedLoading", "StagedStoring", "Writer", "reader_of", "writer_of"]

#: Bytes that a thread copies at a time.
_PIECE = 8 << 20

#: Fills an array [i, j, k] with a field's values in a box, for a block of one point of the others.
Reader: TypeAlias = Callable[[Block, Box, NDArray[Any], Tally], None]
#: Stores a block's values, indexed [i, j, k]; returns how many bytes they have.
Writer: TypeAlias = Callable[[Block, NDArray[Any]], int]


def reader_of(source: Source, name: str, use: FieldUse, grid: Grid, threads: Executor) -> Reader:
    """Return what reads a field, in some threads where it is in plain files or in memory."""
    raw = raw_source(source, name, use, grid)
    held = held_values(source, name, use, grid)

    def general(block: Block, box: Box, into: NDArray[Any], tally: Tally) -> None:
        values = read_box(counted(source, tally), name, use, grid, block, box)
        np.copyto(into, values[(0,) * len(grid.extra)])

    if held is not None:

        def copied(block: Block, box: Box, into: NDArray[Any], _tally: Tally) -> None:
            view = by_dims(use, grid, into)
            for region, there in pieces_of(use, grid, block, box):
                _copy(held[region], view[there], threads)

        return copied
    files = raw or packed_files(source, use, grid)
    if files is None and isinstance(source, CachedSource) and use.dims and is_whole(use, grid):

        def cached(block: Block, box: Box, into: NDArray[Any], tally: Tally) -> None:
            view = by_dims(use, grid, into)
            for region, there in pieces_of(use, grid, block, box):
                if not source.fill(name, region, view[there], tally, threads):
                    general(block, box, into, tally)
                    return

        return cached
    if files is None:
        return general

    def direct(block: Block, box: Box, into: NDArray[Any], tally: Tally) -> None:
        view = by_dims(use, grid, into)
        for region, there in pieces_of(use, grid, block, box):
            if not files.read_into(region, view[there], threads):
                general(block, box, into, tally)
                return
            tally.fetches += sum(1 for _ in chunks_in(files.stored, region))

    return direct


def writer_of(sink: Sink, name: str, use: FieldUse, grid: Grid, threads: Executor) -> Writer:
    """Return what writes a field, in some threads where it is written to plain files."""
    files = _files_of(sink, name, use)

    def general(block: Block, values: NDArray[Any]) -> int:
        return write_box(sink, name, use, grid, block, values[(np.newaxis,) * len(grid.extra)])

    if isinstance(sink, ArraySink) and use.dims and is_whole(use, grid):

        def copied(block: Block, values: NDArray[Any]) -> int:
            region = region_of(use, grid, block)
            _copy(by_dims(use, grid, values), sink.arrays[name][region], threads)
            return values.nbytes

        return copied
    if files is None or not is_whole(use, grid):
        return general

    def direct(block: Block, values: NDArray[Any]) -> int:
        region = region_of(use, grid, block)
        written = files.write(region, by_dims(use, grid, values), threads)
        return values.nbytes if written else general(block, values)

    return direct


#: Returns the buffer of a slot.
Buffer: TypeAlias = Callable[[int], NDArray[np.uint8]]


class StagedLoading:
    """Reads into a buffer of the host, from where the device copies."""

    several = False

    def __init__(self, use: FieldUse, reader: Reader, buffer: Buffer, copies: Copies) -> None:
        self._use, self._reader, self._buffer, self._copies = use, reader, buffer, copies

    def read(self, part: Part, tally: Tally) -> TransferredBytes:
        """Fill the buffer."""
        self._reader(part.block, part.box, _array_in(self._buffer, self._use, part), tally)
        return TransferredBytes(box_bytes(self._use, part.box))

    def send(self, part: Part, into: Array) -> None:
        """Queue the copy of the buffer."""
        self._copies.send(_array_in(self._buffer, self._use, part), into)


class StagedStoring:
    """Writes from a buffer of the host, to which the device copies."""

    def __init__(self, use: FieldUse, writer: Writer, buffer: Buffer, copies: Copies) -> None:
        self._use, self._writer, self._buffer, self._copies = use, writer, buffer, copies

    def prepare(self, part: Part) -> None:
        """Do nothing: the buffer is there."""

    def fetch(self, part: Part, made: Array) -> None:
        """Queue the copy to the buffer."""
        self._copies.fetch(made, _array_in(self._buffer, self._use, part))

    def write(self, part: Part) -> TransferredBytes:
        """Write the buffer."""
        return TransferredBytes(self._writer(part.block, _array_in(self._buffer, self._use, part)))


def _array_in(buffer: Buffer, use: FieldUse, part: Part) -> NDArray[Any]:
    """Return the array of a buffer that holds a box: dense, indexed [i, j, k], I fastest."""
    values = buffer(part.slot)[: box_bytes(use, part.box)].view(use.dtype)
    return values.reshape(shape_of(part.box), order="F")


def _files_of(sink: Sink, name: str, use: FieldUse) -> RawArray | PackedArray | None:
    """Return the files that a field is written to, where that needs nothing but threads."""
    if not isinstance(sink, ZarrSink):
        return None
    return raw_array(sink.path, name, use.dtype) or packed_array(sink.path, name, use.dtype)


def _copy(values: NDArray[Any], into: NDArray[Any], threads: Executor) -> None:
    """Copy in several threads, each some rows of what lies farthest apart."""
    axis = max(range(into.ndim), key=lambda at: (into.shape[at] > 1, abs(into.strides[at])))
    step = max(1, into.shape[axis] * _PIECE // max(1, into.nbytes))

    def copy(start: int) -> None:
        part = (slice(None),) * axis + (slice(start, start + step),)
        np.copyto(into[part], values[part])

    spread(copy, range(0, into.shape[axis], step), threads)
