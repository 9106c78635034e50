"""Pieces of tiles that lie as rows in files or arrays: a device copies from and to them directly.

What lies otherwise, or has another type, or is encoded, goes through `matmul_read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.raw import RawArray
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.stores.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.stores.source import Source, ZarrStore, array_in
from halocline_engine.device.memory.zero_copy import PinnedRows
from halocline_engine.distribute.executors.base import POLL
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.products.reading import Made, Operand, Piece, plain_files
from halocline_engine.kernels.matmul.workspace import Rectangle

__all__ = [
    "Copied",
    "ResultFiles",
    "Stored",
    "held_array",
    "rectangle",
    "rows_of",
    "rows_of_pieces",
]

#: Bytes of a row below which rows are not copied one by one.
_SHORT = 2 << 10


class Copied(Protocol):
    """Common interface of a future and a batch of copies."""

    def done(self) -> bool:
        """Whether nothing is under way any more."""
        ...

    def result(self, timeout: float, /) -> int:
        """Return the bytes that were copied; raises `TimeoutError` where that takes longer."""
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """Copies to files in a folder, which is named where the disk is full."""

    copies: Copied
    folder: Path

    def done(self) -> bool:
        """Whether all files are written."""
        return self.copies.done()

    def result(self, timeout: float = POLL, /) -> int:
        """Return the bytes; raises `OutputError` where the disk is full."""
        with full_disk(self.folder):
            return self.copies.result(timeout)


def rectangle(piece: Piece) -> Rectangle:
    """Return where a piece lies in its tile."""
    return Rectangle(piece.rows, piece.width, piece.offset, piece.pitch)


def rows_of_pieces(
    operand: Operand, source: Source, held: NDArray[Any] | None, pieces: Sequence[Piece]
) -> list[PinnedRows] | None:
    """Return pieces of an operand as rows; None where one of them is none.

    `held` is the array that the operand is in memory, if it is one.
    """
    copies: list[PinnedRows] = []
    for piece in pieces:
        if held is not None:
            pinned = _rows_in_array(operand, held, piece)
        else:
            pinned = _rows_in_file(operand, source, piece)
        if pinned is None:
            return None
        copies.append(pinned)
    return copies


@dataclass(slots=True)
class ResultFiles:
    """Files of the pieces of a product; their folders are made."""

    made: Made
    _folders: set[Path] = field(default_factory=set[Path])

    def pinned(self, sink: Sink, pieces: Sequence[Piece]) -> list[PinnedRows] | None:
        """Return where pieces belong, as rows; None where one of them has no such place."""
        copies: list[PinnedRows] = []
        for piece in pieces:
            pinned = _rows_to_make(self.made, sink, piece)
            if pinned is None:
                return None
            folder = None if pinned.path is None else Path(pinned.path).parent
            if folder is not None and folder not in self._folders:
                folder.mkdir(parents=True, exist_ok=True)
                self._folders.add(folder)
            copies.append(pinned)
        return copies

    def folder(self, sink: Sink) -> Path:
        """Return what is named where a disk is full."""
        return Path(sink.path if isinstance(sink, ZarrSink) else "") / self.made.name


def rows_of(values: NDArray[Any], dtype: str, count: int) -> PinnedRows | None:
    """Return an array as rows in memory that lie equally far apart; None where there are none.

    If `count` is not 1, there are as many; else as few as possible.
    """
    if values.dtype != np.dtype(dtype) or not values.size or not values.ndim:
        return None
    item = values.itemsize
    width, rows, pitch = item, 1, 0
    for size, stride in zip(reversed(values.shape), reversed(values.strides), strict=True):
        if size == 1:
            continue
        if rows == 1 and stride == width:
            width *= size
        elif rows == 1 and stride > width:
            rows, pitch = size, stride
        elif rows > 1 and stride == rows * pitch:
            rows *= size
        else:
            return None
    if rows == 1:
        rows, width, pitch = count, width // count, width // count
    if rows > 1 and (width < _SHORT or count not in (1, rows)):
        return None
    address: int = values.__array_interface__["data"][0]
    return PinnedRows(rows, width, address, pitch or width, keeps=values)


def held_array(operand: Operand, source: Source) -> NDArray[Any] | None:
    """Return the array that an operand is in memory, as it is."""
    return array_in(source, operand.name) if operand.own else None


def _rows_in_array(operand: Operand, values: NDArray[Any], piece: Piece) -> PinnedRows | None:
    """Return a piece as rows of the array that an operand is; None where it is no rows."""
    part = values[region_of(operand.own, piece.spans)]
    turned = part.transpose([operand.own.index(dim) for dim in operand.order])
    return rows_of(turned, operand.dtype, piece.rows)


def _rows_in_file(operand: Operand, source: Source, piece: Piece) -> PinnedRows | None:
    """Return a piece as rows of a file; None where its chunk is not one that is plain."""
    if piece.chunk is None or not isinstance(source, ZarrStore):
        return None
    files = plain_files(source.path, source.stamp, operand.name, operand.dtype)
    return None if files is None else _in_file(files, piece, operand.own)


def _rows_to_make(made: Made, sink: Sink, piece: Piece) -> PinnedRows | None:
    """Return where a piece of the product belongs, as rows; None where that is no place."""
    if isinstance(sink, ArraySink):
        values = sink.arrays[made.name][region_of(made.dims, piece.spans)]
        turned = values.transpose([made.dims.index(dim) for dim in made.order])
        return rows_of(turned, made.dtype, piece.rows)
    if piece.chunk is None or not isinstance(sink, ZarrSink):
        return None
    files = plain_files(sink.path, "", made.name, made.dtype)
    if files is None or not _is_all_of(files, piece, made.dims):
        return None
    return _in_file(files, piece, made.dims)


def _in_file(files: RawArray, piece: Piece, dims: Sequence[str]) -> PinnedRows | None:
    """Return a piece as rows of the file of its chunk."""
    assert piece.chunk is not None
    (tall, wide), item = files.stored.chunks, files.stored.itemsize
    down, across = (
        piece.spans[dim].start - at * step
        for dim, at, step in zip(dims, piece.chunk, (tall, wide), strict=True)
    )
    if piece.rows > 1 and piece.width * item < _SHORT:
        return None
    first, separator = files.key
    return PinnedRows(
        rows=piece.rows,
        width=piece.width * item,
        start=(down * wide + across) * item,
        pitch=wide * item,
        path=files.path / (first + separator.join(map(str, piece.chunk))),
        size=tall * wide * item,
    )


def _is_all_of(files: RawArray, piece: Piece, dims: Sequence[str]) -> bool:
    """Whether a piece is all that the data have of its chunk."""
    assert piece.chunk is not None
    each = zip(dims, piece.chunk, files.stored.chunks, files.stored.sizes, strict=True)
    return all(
        piece.spans[dim].start == at * step and piece.spans[dim].stop == min(size, (at + 1) * step)
        for dim, at, step, size in each
    )
