"""Uncompressed Zarr arrays, whose chunks are read and written as plain files.

A general reader copies each chunk several times, most of it in one thread; here several threads
copy between the page cache and where the values are used, once.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.control.interruption import raise_if_interrupted
from halocline_engine.datasets.chunk_files.array_metadata import about_array
from halocline_engine.datasets.chunk_files.byte_ranges import ByteRanges, byte_ranges_of
from halocline_engine.datasets.chunk_files.spread import spread
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.regular import open_regular, refuse_special
from halocline_engine.datasets.stores.chunks import Chunk, Stored, chunks_in, common_cells
from halocline_engine.datasets.stores.source import Region

__all__ = ["RawArray", "raw_array"]

#: Bytes that a thread copies at a time, and below which a call of the system is too much for a run.
_PIECE = 16 << 20
_SHORT = 32 << 10
#: Bytes that take as long as asking for one more stretch of a file.
_CALL = 128 << 10

#: A file, and bytes that belong there behind some offsets.
_Runs: TypeAlias = tuple[Path, list[tuple[int, NDArray[np.uint8]]]]


@dataclass(frozen=True, slots=True)
class _Part:
    """The cells of a chunk that a region has: where in the chunk, and their values."""

    path: Path
    here: Region
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class RawArray:
    """An array whose chunks are files of plain numbers, the last dimension fastest.

    `key` is how the name of a file begins, and what is between the numbers of a chunk.
    """

    path: Path
    stored: Stored
    dtype: str
    key: tuple[str, str]

    def read_into(
        self, region: Region, into: NDArray[Any], executor: Executor | None = None
    ) -> bool:
        """Fill an array with a region; False where the file of a chunk is not there, or not whole.

        `into` has the array's type and dimensions. Without an executor this thread reads alone.
        """
        pieces = itertools.chain(*map(self._pieces, self._parts(region, into)))
        return all(spread(self._read, pieces, executor))

    def write(self, region: Region, values: NDArray[Any], executor: Executor | None = None) -> bool:
        """Store a region; False, and nothing is done, where chunks lie across its edges.

        Raises `OutputError` where the disk is full. Without an executor this thread writes alone.
        """
        parts = self._parts(region, values)
        whole = [chunk.region for chunk in chunks_in(self.stored, region)]
        if any(not _holds(region, cells) for cells in whole):
            return False
        # A file has one writer at a time: threads that shared one would wait for each other.
        with full_disk(self.path):
            spread(self._write, parts, executor)
        return True

    def make_folders(self, files: Iterable[str]) -> None:
        """Make the folders of some chunks; that of the array is there, or `OSError` is raised."""
        for folder in dict.fromkeys(map(os.path.dirname, files)):
            self._make(folder)

    def _make(self, folder: str) -> None:
        if folder == str(self.path):
            return
        with suppress(FileExistsError):
            try:
                os.mkdir(folder)
            except FileNotFoundError:
                self._make(os.path.dirname(folder))
                os.mkdir(folder)

    @property
    def file_size(self) -> int:
        """The bytes of the file of a chunk."""
        return math.prod(self.stored.chunks) * self.stored.itemsize

    def byte_ranges(self, region: Region) -> list[ByteRanges]:
        """Return what is to be read of a region, in as few large pieces as its chunks allow."""
        return byte_ranges_of(self.stored, region, _CALL)

    def files(self, region: Region) -> list[ByteRanges] | None:
        """Return what is to be written of a region, a file each; None if chunks lie across edges.

        Files have more cells than a stretch where the data end within a chunk.
        """
        sides = zip(region, self.stored.chunks, self.stored.sizes, strict=True)
        if any(one.start % step or (one.stop % step and one.stop != n) for one, step, n in sides):
            return None
        return [replace(one, level=0) for one in byte_ranges_of(self.stored, region, _CALL)]

    def names(self, byte_ranges: ByteRanges) -> Iterator[str]:
        """Yield the files of some chunks."""
        first, separator = self.key
        begin = os.path.join(self.path, first)
        for index in itertools.product(*byte_ranges.chunks):
            raise_if_interrupted()
            yield begin + separator.join(map(str, index))

    @property
    def _strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension in the file of a chunk."""
        chunks = self.stored.chunks
        return tuple(
            math.prod(chunks[at + 1 :]) * self.stored.itemsize for at in range(len(chunks))
        )

    def _parts(self, region: Region, values: NDArray[Any]) -> list[_Part]:
        found: list[_Part] = []
        for chunk in chunks_in(self.stored, region):
            there, here = common_cells(chunk.region, region)
            found.append(_Part(self._file(chunk), here, values[there]))
        return found

    def _file(self, chunk: Chunk) -> Path:
        first, separator = self.key
        return self.path / (first + separator.join(map(str, chunk.index)))

    def _pieces(self, part: _Part) -> Iterator[_Runs | _Part]:
        """Yield runs of bytes that lie together in the file and in memory, or the part as it is."""
        values, strides = part.values, self._strides
        first, together = values.ndim, values.itemsize
        while first and (
            values.shape[first - 1] == 1
            or strides[first - 1] == values.strides[first - 1] == together
        ):
            first -= 1
            together *= values.shape[first]
        if first and together < _SHORT:
            yield part
            return
        starts = [side.start for side in part.here]
        base = sum(start * stride for start, stride in zip(starts, strides, strict=True))
        runs: list[tuple[int, NDArray[np.uint8]]] = []
        size = 0
        for index in np.ndindex(*values.shape[:first]):
            offset = base + sum(at * stride for at, stride in zip(index, strides, strict=False))
            run = values[(*index, ...)].reshape(-1).view(np.uint8)
            for begin in range(0, run.size, _PIECE):
                runs.append((offset + begin, run[begin : begin + _PIECE]))
                size += runs[-1][1].size
                if size >= _PIECE:
                    yield part.path, runs
                    runs, size = [], 0
        if runs:
            yield part.path, runs

    def _read(self, piece: _Runs | _Part) -> bool:
        try:
            if isinstance(piece, _Part):
                refuse_special(piece.path)
                piece.values[...] = self._mapped(piece, "r")
                return True
            path, runs = piece
            with open_regular(path) as file:
                return all(_read_fully(file, offset, run) for offset, run in runs)
        except (OSError, ValueError):
            # Zarr then reads it, or fails in a way that names it.
            return False

    def _write(self, part: _Part) -> None:
        """Write the file of a chunk, with the cells behind the end of the data as well."""
        self.make_folders([str(part.path)])
        part.path.touch()
        with open(part.path, "r+b", buffering=0) as file:
            file.truncate(self.file_size)
            for piece in self._pieces(part):
                if isinstance(piece, _Part):
                    self._mapped(piece, "r+")[...] = piece.values
                    continue
                for offset, run in piece[1]:
                    _write_fully(file, offset, run)

    def _mapped(self, part: _Part, mode: Any) -> NDArray[Any]:
        whole = np.memmap(part.path, self.dtype, mode, shape=self.stored.chunks)
        return whole[part.here]


def raw_array(path: str | Path, name: str, dtype: str) -> RawArray | None:
    """Return an array of a store as files of plain numbers; None where it is anything else.

    Neither compressed nor otherwise encoded, and of the type that the caller wants.
    """
    folder = Path(path) / name
    if folder.name != name:
        return None
    about = about_array(folder, dtype)
    if about is None or about.codecs:
        return None
    stored = Stored(name, about.sizes, about.chunks, np.dtype(dtype).itemsize)
    return RawArray(folder, stored, dtype, about.key)


def _read_fully(file: FileIO, offset: int, run: NDArray[np.uint8]) -> bool:
    """Fill a run; False where the file ends before."""
    file.seek(offset)
    done = 0
    while done < run.size:
        count = file.readinto(run[done:].data)
        if not count:
            return False
        done += count
    return True


def _write_fully(file: FileIO, offset: int, run: NDArray[np.uint8]) -> None:
    file.seek(offset)
    done = 0
    while done < run.size:
        done += file.write(run[done:].data)


def _holds(region: Region, cells: Region) -> bool:
    pairs = zip(region, cells, strict=True)
    return all(whole.start <= part.start and part.stop <= whole.stop for whole, part in pairs)
