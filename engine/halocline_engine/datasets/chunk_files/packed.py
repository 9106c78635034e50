"""Compressed Zarr arrays whose chunks are files, read and written by several threads at once.

Zarr decodes in threads too, but copies each chunk several times, and a block is put together by one
thread. What a chunk's file is made of, for decoders elsewhere, is in `datasets.decoding.frames`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.array_metadata import Codec, about_array
from halocline_engine.datasets.decoding.bounds import decoded
from halocline_engine.datasets.decoding.corruption import broken_chunk
from halocline_engine.datasets.decoding.frames import Corrupt, decoded_size
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.regular import open_regular
from halocline_engine.datasets.stores.chunks import Chunk, Stored, chunks_in, common_cells
from halocline_engine.datasets.stores.source import ArrayStore, Region, Source, ZarrStore
from halocline_engine.datasets.untyped import NUMCODECS
from halocline_engine.kernels.unpack.problem import DIMENSIONS

__all__ = [
    "ALL",
    "CHECKED",
    "DECODED_AT_ONCE",
    "PackedArray",
    "PackedSource",
    "decoding_bytes",
    "packed_array",
    "packed_source",
]

#: Codecs of streams that are looked through on a device before it decodes them, and all that it
#: may decode: others must be known to be whole, as nvCOMP reads anywhere for damaged ones.
CHECKED = ("lz4",)
ALL = (*CHECKED, "zstd")
#: Bytes of decoded chunks that a device decodes at once, where a chunk is not larger.
DECODED_AT_ONCE = 128 << 20
_WIDTHS = (1, 2, 4, 8)
#: What a device has at most of a batch, by codec: files, chunks, and room to decode, twice.
_HELD = {"lz4": 5, "zstd": 11}

#: What makes the codec of numcodecs, given its settings where something is written.
_MADE: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "zstd": lambda given: NUMCODECS.Zstd(given.get("level", 0), bool(given.get("checksum"))),
    "lz4": lambda given: NUMCODECS.LZ4(given.get("acceleration", 1)),
    "gzip": lambda given: NUMCODECS.GZip(given.get("level", 1)),
    "zlib": lambda given: NUMCODECS.Zlib(given.get("level", 1)),
    "blosc": lambda _: NUMCODECS.Blosc(),
}
#: What is written as Zarr writes it; of the others only what reading needs is known here.
_WRITTEN = ("zstd",)


class _Scratch:
    """Memory of one thread at a time, whose pages are there for the next chunk."""

    def __init__(self) -> None:
        self._packed = np.empty(0, np.uint8)
        self._plain = np.empty(0, np.uint8)

    def room(self, size: int) -> NDArray[np.uint8]:
        """Return memory for so many bytes."""
        if self._plain.size != size:
            self._plain = np.empty(size, np.uint8)
        return self._plain

    def file(self, path: str) -> NDArray[np.uint8] | None:
        """Return the bytes of a file; None where it is not there, or not a file that can be read.

        Zarr then reads it, or fails in a way that names it.
        """
        try:
            return self._bytes(path)
        except OSError:
            return None

    def _bytes(self, path: str) -> NDArray[np.uint8]:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if self._packed.size < size:
                self._packed = np.empty(size * 5 // 4, np.uint8)
            found, done = self._packed[:size], 0
            while done < size:
                count = file.readinto(found[done:].data)
                if not count:
                    return found[:done]
                done += count
            return found


@dataclass(frozen=True, slots=True)
class PackedArray:
    """An array whose chunks are compressed files of numbers, the last dimension fastest.

    `store` and `stored.name` are what it is called; `key` is as `About` has it.
    """

    store: str
    path: Path
    stored: Stored
    dtype: str
    key: tuple[str, str]
    codec: Codec

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk when it is decoded, with the cells behind the end of the data."""
        return math.prod(self.stored.chunks) * self.stored.itemsize

    @property
    def inner(self) -> str:
        """The codec of its streams: the one within Blosc, or its own."""
        if self.codec.name != "blosc":
            return self.codec.name
        name = str(self.codec.settings.get("cname", "lz4"))
        return "lz4" if name == "lz4hc" else name

    def decodes(self, codecs: Sequence[str]) -> bool:
        """Whether a device may decode chunks, by some codecs."""
        fits = len(self.stored.chunks) <= DIMENSIONS and self.stored.itemsize in _WIDTHS
        return fits and self.inner in codecs and self.chunk_bytes < 1 << 31

    def file(self, chunk: Chunk) -> Path:
        """Return where a chunk is."""
        return Path(self.file_name(chunk))

    def read_into(
        self, region: Region, into: NDArray[Any], executor: Executor | None = None
    ) -> bool:
        """Fill an array with a region; False where the file of a chunk is not there.

        `into` has the array's type and dimensions. Without an executor this thread reads alone.
        Raises `DatasetError`, which names the chunk and its file, where one cannot be decoded.
        """

        def read(chunk: Chunk) -> bool:
            there, here = common_cells(chunk.region, region)
            return self._decode(chunk, here, into[there], scratch)

        scratch: SimpleQueue[_Scratch] = SimpleQueue()
        return all((executor.map if executor else map)(read, chunks_in(self.stored, region)))

    def write(self, region: Region, values: NDArray[Any], executor: Executor | None = None) -> bool:
        """Store a region; False, and nothing is done, where chunks lie across its edges.

        So it is where something else compresses. Raises `OutputError` where the disk is full.
        """
        chunks = list(chunks_in(self.stored, region))
        if self.codec.name not in _WRITTEN or not all(_holds(region, c.region) for c in chunks):
            return False

        def write(chunk: Chunk) -> None:
            there, here = common_cells(chunk.region, region)
            self._encode(chunk, here, values[there])

        with full_disk(self.path):
            for _ in (executor.map if executor else map)(write, chunks):
                pass
        return True

    def broken(self, chunk: Chunk, why: str) -> Exception:
        """Return the error for a chunk that cannot be decoded."""
        return broken_chunk(self.store, self.stored.name, chunk.index, self.file(chunk), why)

    def load(self, chunk: Chunk) -> NDArray[np.uint8] | None:
        """Return the bytes of a chunk's file; None where it is not there."""
        return _Scratch().file(self.file_name(chunk))

    def decode(self, chunk: Chunk, packed: NDArray[np.uint8], into: NDArray[np.uint8]) -> None:
        """Decode a chunk's file; raises `DatasetError` where that cannot be."""
        try:
            size = decoded_size(self.codec.name, packed)
            whole = into if size == into.size else None
            made = decoded(self.codec.name, packed, into.size)
            if made is None:
                made = _MADE[self.codec.name]({}).decode(packed, whole)
        except Corrupt as error:
            raise self.broken(chunk, str(error)) from error
        except Exception as error:  # codecs raise whatever their libraries do
            raise self.broken(chunk, f"{type(error).__name__}: {error}".rstrip(".: ")) from error
        if whole is None:
            plain = np.frombuffer(made, np.uint8)
            if plain.size != into.size:
                raise self.broken(chunk, f"it has {plain.size} bytes, and not {into.size}")
            into[:] = plain

    def _decode(
        self,
        chunk: Chunk,
        here: Region,
        values: NDArray[Any],
        scratch: SimpleQueue[_Scratch],
    ) -> bool:
        try:
            own = scratch.get_nowait()
        except Empty:
            own = _Scratch()
        packed = own.file(self.file_name(chunk))
        if packed is None:
            return False
        shape = self.stored.chunks
        if values.shape == shape and values.flags.c_contiguous:
            self.decode(chunk, packed, values.reshape(-1).view(np.uint8))
        else:
            plain = own.room(self.chunk_bytes)
            self.decode(chunk, packed, plain)
            values[...] = plain.view(self.dtype).reshape(shape)[here]
        scratch.put(own)
        return True

    def file_name(self, chunk: Chunk) -> str:
        """Return where a chunk is, as text."""
        first, separator = self.key
        return f"{self.path}/{first}{separator.join(map(str, chunk.index))}"

    def _encode(self, chunk: Chunk, here: Region, values: NDArray[Any]) -> None:
        shape = self.stored.chunks
        whole = np.ascontiguousarray(values)
        if values.shape != shape:
            whole = np.zeros(shape, self.dtype)
            whole[here] = values
        packed = _MADE[self.codec.name](self.codec.settings).encode(whole.reshape(-1))
        file = self.file(chunk)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(packed)


def packed_array(store: str, name: str, dtype: str) -> PackedArray | None:
    """Return an array of a store whose chunks are compressed files; None where it is anything else.

    It is of the type that the caller wants, and compressed once, by a codec that is known here.
    """
    folder = Path(store) / name
    if folder.name != name:
        return None
    about = about_array(folder, dtype)
    if about is None or len(about.codecs) != 1 or about.codecs[0].name not in _MADE:
        return None
    stored = Stored(name, about.sizes, about.chunks, np.dtype(dtype).itemsize)
    return PackedArray(store, folder, stored, dtype, about.key, about.codecs[0])


@dataclass(frozen=True, slots=True)
class PackedSource:
    """A store, one of whose arrays is read without Zarr where all of its files are there."""

    store: ZarrStore | ArrayStore
    array: PackedArray

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region; raises `DatasetError` where a chunk is broken."""
        if name == self.array.stored.name:
            sizes = [side.stop - side.start for side in region]
            values: NDArray[Any] = np.empty(sizes, self.array.dtype)
            if self.array.read_into(region, values):
                return values
        return self.store.read(name, region)


def packed_source(source: Source, name: str, dtype: str) -> Source:
    """Return what reads a variable of a source as fast as it can be."""
    if not isinstance(source, ZarrStore | ArrayStore):
        return source
    array = packed_array(source.path, name, dtype)
    return source if array is None else PackedSource(source, array)


def decoding_bytes(arrays: Sequence[PackedArray]) -> int:
    """Return the bytes of a device that decoding chunks of some arrays in turn takes."""
    return max(
        (_HELD[one.inner] * max(DECODED_AT_ONCE, one.chunk_bytes) for one in arrays), default=0
    )


def _holds(region: Region, cells: Region) -> bool:
    pairs = zip(region, cells, strict=True)
    return all(whole.start <= part.start and part.stop <= whole.stop for whole, part in pairs)
