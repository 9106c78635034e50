"""Tiles of operands and of a product, in the pieces in which they are read and written.

A tile lies densely where it is computed, its dimensions in the order of the variable where that
is an order for a product, else in one that is. A piece is some rows of it: `rows` of `width`
elements, which begin `pitch` elements apart, the first `offset` elements behind the tile's start.

Chunks of plain, uncompressed Zarr arrays of two dimensions are read from and written to their files
directly, each a piece; whatever else there is goes through the source and the sink.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.sink import Sink, ZarrSink
from halocline_engine.datasets.source import Source, ZarrStore
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.distribute.partition import Span
from halocline_engine.distribute.solving import region_of

__all__ = [
    "PIECE",
    "Made",
    "Operand",
    "Piece",
    "fill",
    "largest_piece",
    "lies_plainly",
    "pieces_of",
    "store",
]

#: Bytes of a piece at most, if a chunk or a row is not larger.
PIECE = 16 << 20

#: Dimensions of an array whose chunks are read and written directly.
_DIRECT = 2
_ZARR_2 = 2

_Spans = Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class Operand:
    """A variable that is multiplied: its dimensions in its own order, and in that of its tiles.

    `chunks` are sizes in its store, or nothing. `plain` says that its values are stored as they
    are. `dtype` is that of the product.
    """

    name: str
    own: tuple[str, ...]
    order: tuple[str, ...]
    chunks: tuple[int, ...]
    plain: bool
    dtype: str


@dataclass(frozen=True, slots=True)
class Made:
    """The variable that is made: its dimensions, and in the order of its tiles; its chunks."""

    name: str
    dims: tuple[str, ...]
    order: tuple[str, ...]
    chunks: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a tile; `spans` are its cells, `chunk` the chunk that has all of them."""

    rows: int
    width: int
    offset: int
    pitch: int
    spans: _Spans
    chunk: tuple[int, ...] | None = None


def pieces_of(
    order: Sequence[str],
    chunks: Mapping[str, int],
    spans: _Spans,
    itemsize: int,
    *,
    direct: bool,
) -> Iterator[Piece]:
    """Yield the pieces of a tile whose dimensions lie in an order; `chunks` are those of a store.

    If `direct`, each lies in one chunk of an array of two dimensions.

    >>> spans = {"y": Span(2, 6), "x": Span(0, 4)}
    >>> [(p.rows, p.width, p.offset, p.chunk)
    ...  for p in pieces_of(("y", "x"), {"y": 4, "x": 4}, spans, 8, direct=True)]
    [(2, 4, 0, (0, 0)), (2, 4, 8, (1, 0))]
    """
    if direct:
        yield from _chunked(order, chunks, spans, itemsize)
        return
    sizes = [spans[dim].size for dim in order]
    at = next((n for n, size in enumerate(sizes) if size > 1), max(0, len(order) - 1))
    width = math.prod(sizes[at + 1 :])
    if math.prod(sizes[: at + 1]) * width == 0:
        return
    if not order:
        yield Piece(1, 1, 0, 1, spans)
        return
    dim, whole = order[at], spans[order[at]]
    chunk = max(1, chunks.get(dim, 1))
    step = max(1, PIECE // (itemsize * width * chunk)) * chunk
    first = whole.start // chunk * chunk
    for start in range(first, whole.stop, step):
        part = Span(max(start, whole.start), min(start + step, whole.stop))
        offset = (part.start - whole.start) * width
        yield Piece(1, part.size * width, offset, part.size * width, {**spans, dim: part})


def _chunked(
    order: Sequence[str], chunks: Mapping[str, int], spans: _Spans, itemsize: int
) -> Iterator[Piece]:
    """Yield pieces of which each lies in one chunk of an array of two dimensions."""
    (down, across), (tall, wide) = order, [chunks[dim] for dim in order]
    rows, columns = spans[down], spans[across]
    most = max(1, PIECE // (min(wide, columns.size) * itemsize))
    for column in range(columns.start // wide, -(-columns.stop // wide)):
        side = columns.meet(Span(column * wide, (column + 1) * wide))
        for row in range(rows.start // tall, -(-rows.stop // tall)):
            whole = rows.meet(Span(row * tall, (row + 1) * tall))
            for start in range(whole.start, whole.stop, most):
                part = Span(start, min(start + most, whole.stop))
                offset = (part.start - rows.start) * columns.size + side.start - columns.start
                cells = {down: part, across: side}
                yield Piece(part.size, side.size, offset, columns.size, cells, (row, column))


def largest_piece(
    order: Sequence[str],
    chunks: Mapping[str, int],
    sizes: Mapping[str, int],
    itemsize: int,
    *,
    direct: bool,
) -> int:
    """Return the bytes of the largest piece of a tile of some sizes, wherever it lies."""
    if direct:
        return max(PIECE, min(chunks[order[1]], sizes[order[1]]) * itemsize)
    lengths = [sizes[dim] for dim in order]
    at = next((n for n, size in enumerate(lengths) if size > 1), max(0, len(order) - 1))
    row = math.prod(lengths[at + 1 :]) * itemsize
    return max(PIECE, row * min(lengths[at], max(1, chunks.get(order[at], 1))) if order else 0)


def fill(operand: Operand, source: Source, piece: Piece, into: NDArray[Any]) -> None:
    """Read a piece into an array [row, element] of its shape and of the product's type."""
    if piece.chunk is not None and isinstance(source, ZarrStore):
        file = _files(source.path, source.stamp, operand.name).file(piece.chunk)
        starts = [
            piece.spans[dim].start % n for dim, n in zip(operand.own, operand.chunks, strict=True)
        ]
        if _read_file(file, starts[0], starts[1], operand.chunks[1], into):
            return
    values = source.read(operand.name, region_of(operand.own, piece.spans))
    turned = values.transpose([operand.own.index(dim) for dim in operand.order])
    np.copyto(into.reshape(turned.shape), turned, casting="same_kind")


def _read_file(file: Path, row: int, column: int, wide: int, into: NDArray[Any]) -> bool:
    """Read cells of a chunk of rows of `wide` elements; False where it was never written."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        item = into.itemsize
        whole = into.shape[1] == wide and into.flags.c_contiguous
        lines = [into.reshape(-1)] if whole else list(into)
        for number, line in enumerate(lines):
            _read_fully(descriptor, line, ((row + number) * wide + column) * item)
    finally:
        os.close(descriptor)
    return True


def _read_fully(descriptor: int, line: NDArray[Any], offset: int) -> None:
    view = line.view(np.uint8).data
    done = 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], offset + done)
        if count == 0:
            raise OSError(f"A chunk ends after {offset + done} bytes, in the middle of its rows.")
        done += count


def store(made: Made, sink: Sink, piece: Piece, values: NDArray[Any]) -> None:
    """Write a piece of a tile of the product, as an array [row, element]."""
    if piece.chunk is not None and isinstance(sink, ZarrSink):
        with full_disk(sink.path):
            _write_file(_files(sink.path, "", made.name).file(piece.chunk), made.chunks, values)
        return
    shape = [piece.spans[dim].size for dim in made.order]
    whole = values.reshape(shape).transpose([made.order.index(dim) for dim in made.dims])
    sink.write(made.name, region_of(made.dims, piece.spans), whole)


def _write_file(file: Path, chunk: tuple[int, ...], values: NDArray[Any]) -> None:
    """Write a chunk, of which the cells behind the end of the array are zero."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if values.shape != chunk:
        padded = np.zeros(chunk, values.dtype)
        padded[: values.shape[0], : values.shape[1]] = values
        values = padded
    with file.open("wb", buffering=0) as out:
        view, done = values.reshape(-1).view(np.uint8).data, 0
        while done < len(view):
            done += out.write(view[done:]) or 0


def lies_plainly(path: str, stamp: str, name: str, chunks: tuple[int, ...], dtype: str) -> bool:
    """Whether an array lies in files of such chunks with its values of a type, row by row."""
    files = _files(path, stamp, name)
    metadata = files.metadata
    if len(metadata.shape) != _DIRECT or files.chunks != chunks:
        return False
    if metadata.zarr_format == _ZARR_2:
        plain = metadata.compressor is None and not metadata.filters and metadata.order == "C"
        return plain and metadata.dtype.to_native_dtype() == np.dtype(dtype)
    codecs = [codec.to_dict() for codec in metadata.codecs]
    usual = [codec["name"] for codec in codecs] == ["bytes"]
    endian = codecs[0].get("configuration", {}).get("endian") if usual else None
    own = {"<": "little", ">": "big"}[np.dtype(dtype).newbyteorder("=").str[0]]
    return endian == own and metadata.data_type.to_native_dtype() == np.dtype(dtype)


@dataclass(frozen=True, slots=True)
class _Files:
    """Where the chunks of an array lie."""

    folder: Path
    chunks: tuple[int, ...]
    metadata: Any

    def file(self, chunk: tuple[int, ...]) -> Path:
        """Return the file of a chunk."""
        return self.folder / self.metadata.encode_chunk_key(chunk)


@functools.lru_cache(maxsize=16)
def _files(path: str, stamp: str, name: str) -> _Files:  # noqa: ARG001 - part of the cache's key
    array = ZARR.open_array(path, path=name, mode="r")
    return _Files(Path(path) / name, tuple(array.chunks), array.metadata)
