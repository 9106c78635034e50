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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.raw import RawArray, raw_array
from halocline_engine.datasets.stores.sink import Sink, ZarrSink
from halocline_engine.datasets.stores.source import Source, ZarrStore
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.jobs.blocking import region_of

__all__ = [
    "PIECE",
    "Made",
    "Operand",
    "Piece",
    "fill",
    "largest_piece",
    "pieces_of",
    "plain_files",
    "reach_of",
    "store",
]

#: Bytes of a piece at most, if a chunk or a row is not larger.
PIECE = 16 << 20

#: Dimensions of an array whose chunks are read and written directly.
_DIRECT = 2

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
    most: int = PIECE,
) -> Iterator[Piece]:
    """Yield the pieces of a tile whose dimensions lie in an order; `chunks` are those of a store.

    Each has `most` bytes if a chunk, or a row, is not larger. If `direct`, each lies in one chunk
    of an array of two dimensions.

    >>> spans = {"y": Span(2, 6), "x": Span(0, 4)}
    >>> [(p.rows, p.width, p.offset, p.chunk)
    ...  for p in pieces_of(("y", "x"), {"y": 4, "x": 4}, spans, 8, direct=True)]
    [(2, 4, 0, (0, 0)), (2, 4, 8, (1, 0))]
    """
    if direct:
        yield from _chunked(order, chunks, spans, itemsize, most)
        return
    sizes = {dim: spans[dim].size for dim in order}
    if 0 in sizes.values():
        return
    if not order:
        yield Piece(1, 1, 0, 1, spans)
        return
    dim, step = _divided(order, chunks, sizes, itemsize, most)
    width = math.prod(sizes[other] for other in order[order.index(dim) + 1 :])
    whole, chunk = spans[dim], max(1, chunks.get(dim, 1))
    first = whole.start // chunk * chunk
    for start in range(first, whole.stop, step):
        part = Span(max(start, whole.start), min(start + step, whole.stop))
        offset = (part.start - whole.start) * width
        yield Piece(1, part.size * width, offset, part.size * width, {**spans, dim: part})


def reach_of(
    order: Sequence[str], chunks: Mapping[str, int], sizes: Mapping[str, int], itemsize: int
) -> dict[str, int]:
    """Return how far a piece that is not direct reaches along each dimension, at most.

    >>> reach_of(("b", "y", "x"), {"y": 500}, {"b": 1, "y": 2000, "x": 2000}, 8)
    {'b': 1, 'y': 1000, 'x': 2000}
    """
    if not order:
        return {}
    dim, step = _divided(order, chunks, sizes, itemsize, PIECE)
    return {other: min(step, sizes[dim]) if other == dim else sizes[other] for other in order}


def _divided(
    order: Sequence[str],
    chunks: Mapping[str, int],
    sizes: Mapping[str, int],
    itemsize: int,
    most: int,
) -> tuple[str, int]:
    """Return along which dimension a tile is cut into pieces, and how long these are."""
    at = next((n for n, dim in enumerate(order) if sizes[dim] > 1), len(order) - 1)
    width = math.prod(sizes[dim] for dim in order[at + 1 :])
    chunk = max(1, chunks.get(order[at], 1))
    return order[at], max(1, most // max(1, itemsize * width * chunk)) * chunk


def _chunked(
    order: Sequence[str], chunks: Mapping[str, int], spans: _Spans, itemsize: int, most: int
) -> Iterator[Piece]:
    """Yield pieces of which each lies in one chunk of an array of two dimensions."""
    (down, across), (tall, wide) = order, [chunks[dim] for dim in order]
    rows, columns = spans[down], spans[across]
    high = max(1, most // (min(wide, columns.size) * itemsize))
    for column in range(columns.start // wide, -(-columns.stop // wide)):
        side = columns.meet(Span(column * wide, (column + 1) * wide))
        for row in range(rows.start // tall, -(-rows.stop // tall)):
            whole = rows.meet(Span(row * tall, (row + 1) * tall))
            for start in range(whole.start, whole.stop, high):
                part = Span(start, min(start + high, whole.stop))
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
    region = region_of(operand.own, piece.spans)
    if piece.chunk is not None and isinstance(source, ZarrStore):
        files = plain_files(source.path, source.stamp, operand.name, operand.dtype)
        if files is not None and files.read_into(region, into):
            return
    values = source.read(operand.name, region)
    turned = values.transpose([operand.own.index(dim) for dim in operand.order])
    np.copyto(into.reshape(turned.shape), turned, casting="same_kind")


def store(made: Made, sink: Sink, piece: Piece, values: NDArray[Any]) -> None:
    """Write a piece of a tile of the product, as an array [row, element]."""
    region = region_of(made.dims, piece.spans)
    if piece.chunk is not None and isinstance(sink, ZarrSink):
        files = plain_files(sink.path, "", made.name, made.dtype)
        if files is not None and files.write(region, values):
            return
    shape = [piece.spans[dim].size for dim in made.order]
    whole = values.reshape(shape).transpose([made.order.index(dim) for dim in made.dims])
    sink.write(made.name, region, whole)


@functools.lru_cache(maxsize=16)
def plain_files(
    path: str,
    stamp: str,  # noqa: ARG001 - part of the cache's key
    name: str,
    dtype: str,
) -> RawArray | None:
    """Return a matrix of a store as files of its values row by row, of a type; else None."""
    found = raw_array(path, name, dtype)
    return found if found is not None and len(found.stored.sizes) == _DIRECT else None
