"""Between stores and buffers of a pipeline: as files where that is what chunks are.

Files, compressed or not, and arrays of this process are read and written by several threads.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunks import CachedSource, Tally, chunks_in, counted
from halocline_engine.datasets.match import FieldUse, Grid
from halocline_engine.datasets.packed import PackedArray, PackedSource, packed_array
from halocline_engine.datasets.raw import RawArray, raw_array
from halocline_engine.datasets.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.source import Arrays, ArrayStore, Source, ZarrStore, array_in
from halocline_engine.datasets.spread import spread
from halocline_engine.device.io.files import Files
from halocline_engine.device.memory.locking import Pages
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import pieces_of, read_box, write_box
from halocline_engine.distribute.transports.direct_file import DirectFiles, by_dims
from halocline_engine.distribute.transports.zero_copy import PinnedPart, PinParts, pin_parts
from halocline_engine.ir.types import Axis

__all__ = [
    "Reader",
    "Writer",
    "direct_result",
    "direct_source",
    "is_raw",
    "pin_result",
    "pin_source",
    "reader_of",
    "writer_of",
]

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
            view = by_dims(use, grid, into)
            for region, there in pieces_of(use, grid, block, box):
                _copy(held[region], view[there], threads)

        return copied
    files = raw or _packed_source(source, use, grid)
    if files is None and isinstance(source, CachedSource) and use.dims and _whole(use, grid):

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

    if isinstance(sink, ArraySink) and use.dims and _whole(use, grid):

        def copied(block: Block, values: NDArray[Any]) -> int:
            ((region, _),) = pieces_of(use, grid, block, block.box)
            _copy(by_dims(use, grid, values), sink.arrays[name][region], threads)
            return values.nbytes

        return copied
    if files is None or not _whole(use, grid):
        return general

    def direct(block: Block, values: NDArray[Any]) -> int:
        ((region, _),) = pieces_of(use, grid, block, block.box)
        written = files.write(region, by_dims(use, grid, values), threads)
        return values.nbytes if written else general(block, values)

    return direct


def direct_source(
    source: Source,
    name: str,
    use: FieldUse,
    grid: Grid,
    files: Files,
    boxes: Sequence[tuple[Block, Box]],
) -> DirectFiles | None:
    """Return what reads boxes of a field to a device, if that is in files and they are large."""
    raw = _raw_source(source, name, use, grid)
    if raw is None or not use.dims:
        return None
    return DirectFiles(raw, use, grid, files).incoming(boxes)


def direct_result(
    sink: Sink,
    name: str,
    use: FieldUse,
    grid: Grid,
    files: Files,
    boxes: Sequence[tuple[Block, Box]],
) -> DirectFiles | None:
    """Return what writes boxes of a field from a device, if that makes large files."""
    raw = raw_array(sink.path, name, use.dtype) if isinstance(sink, ZarrSink) else None
    if raw is None or not use.dims or not _whole(use, grid):
        return None
    return DirectFiles(raw, use, grid, files).outgoing(boxes)


def pin_source(
    source: Source, name: str, use: FieldUse, grid: Grid, pages: Pages
) -> PinParts | None:
    """Return what finds a field's values where they lie, if that is in memory."""
    held = _held(source, name, use, grid)
    return None if held is None else pin_parts(held, use, grid, pages, writes=False)


def pin_result(
    sink: Sink, name: str, use: FieldUse, grid: Grid, pages: Pages, threads: Executor
) -> PinParts | None:
    """Return what finds where a field's values belong, if that is in memory.

    Pages that are not there yet are made by some threads.
    """
    if not isinstance(sink, ArraySink) or not use.dims or not _whole(use, grid):
        return None
    values = sink.arrays[name]
    pin = pin_parts(values, use, grid, pages, writes=True)

    def take(block: Block, box: Box) -> list[PinnedPart] | None:
        for region, _ in pieces_of(use, grid, block, box):
            if pages.refused is None and not pages.holds(values[region]):
                _touch(values[region], threads)
        return pin(block, box)

    return take


def _raw_source(source: Source, name: str, use: FieldUse, grid: Grid) -> RawArray | None:
    """Return the files that a field is read from, if nothing is kept of them."""
    if isinstance(source, CachedSource):
        if source.limit:
            return None
        source = source.source
    if not isinstance(source, ZarrStore | ArrayStore) or not _whole(use, grid):
        return None
    return raw_array(source.path, name, use.dtype)


def _packed_source(source: Source, use: FieldUse, grid: Grid) -> PackedArray | None:
    """Return the compressed files that a field is read from, if nothing is kept of them."""
    if isinstance(source, CachedSource):
        if source.limit:
            return None
        source = source.source
    if not isinstance(source, PackedSource) or not use.dims or not _whole(use, grid):
        return None
    return source.array


def _files_of(sink: Sink, name: str, use: FieldUse) -> RawArray | PackedArray | None:
    """Return the files that a field is written to, where that needs nothing but threads."""
    if not isinstance(sink, ZarrSink):
        return None
    return raw_array(sink.path, name, use.dtype) or packed_array(sink.path, name, use.dtype)


def _held(source: Source, name: str, use: FieldUse, grid: Grid) -> NDArray[Any] | None:
    """Return the array of this process that a field is read from as it is."""
    if not use.dims or not _whole(use, grid):
        return None
    values = source.arrays[name] if isinstance(source, Arrays) else array_in(source, name)
    return values if values is not None and values.dtype == np.dtype(use.dtype) else None


def _copy(values: NDArray[Any], into: NDArray[Any], threads: Executor) -> None:
    """Copy in several threads, each some rows of what lies farthest apart."""
    axis = max(range(into.ndim), key=lambda at: (into.shape[at] > 1, abs(into.strides[at])))
    step = max(1, into.shape[axis] * _PIECE // max(1, into.nbytes))

    def copy(start: int) -> None:
        part = (slice(None),) * axis + (slice(start, start + step),)
        np.copyto(into[part], values[part])

    spread(copy, range(0, into.shape[axis], step), threads)


def _touch(values: NDArray[Any], threads: Executor) -> None:
    """Write to every page, whose values do not matter."""
    step = max(1, mmap.PAGESIZE // values.itemsize)

    def touch(part: NDArray[Any]) -> None:
        part[..., ::step] = 0

    spread(touch, _parts(values), threads)


def _parts(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield some rows at a time of what lies farthest apart."""
    axis = max(range(values.ndim), key=lambda at: (values.shape[at] > 1, abs(values.strides[at])))
    step = max(1, values.shape[axis] * _PIECE // max(1, values.nbytes))
    for start in range(0, values.shape[axis], step):
        yield values[(slice(None),) * axis + (slice(start, start + step),)]


def _whole(use: FieldUse, grid: Grid) -> bool:
    """Whether a variable has all dimensions that there are of its field's axes."""
    dims = [grid.dims[at] for at, axis in enumerate(Axis) if axis in use.axes]
    return all(dim is None or dim in use.dims for dim in dims)
