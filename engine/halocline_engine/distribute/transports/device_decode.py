"""Compressed chunks of a store, decoded on a device into where a block's values are used.

The cores read files only, and what is sent are their bytes. Chunks come in batches: while one is
decoded, the files of the next are read. Some decoded chunks are kept for the next block, by the
rule and under the limit of the cache of `datasets.stores.chunks`, so that fetches are as predicted.

Every stream is checked: what the device cannot decode is decoded on the host, whose values or
errors are what counts, and what is not there is read by Zarr.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array
from halocline_engine.datasets.chunk_files.packed import CHECKED, DECODED_AT_ONCE, PackedArray
from halocline_engine.datasets.decoding.streams import Streams, streams_of
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import Chunk, Tally, chunks_in, common_cells
from halocline_engine.datasets.stores.source import Region, Source
from halocline_engine.device.decode.codecs import Table
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import pieces_of
from halocline_engine.distribute.transports.base import box_bytes, shape_of
from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.unpack.cpu import read_files
from halocline_engine.kernels.unpack.cuda import Checking, Placing
from halocline_engine.kernels.unpack.problem import WORDS, Piece, packed_pieces
from halocline_engine.schedule.traversal.lru import LRU

__all__ = ["DecodingDevice", "DeviceDecoding"]

#: Addresses of files and chunks on the device are multiples of this.
_ALIGNED = 256
#: Parts that the files of a batch are read in, side by side.
_PARTS = 16


class DecodingDevice(Protocol):
    """Decodes chunks; `device.decode.device_decoder.NvcompDevice` says what these methods do."""

    def room(self, codec: str, count: int, largest: int, total: int) -> int:
        """Return the bytes that decoding takes beside what it reads and makes."""
        ...

    def take(self, size: int) -> Any:
        """Return memory of the device, whose address is `ptr`."""
        ...

    def locked(self, name: str, size: int) -> NDArray[np.uint8]:
        """Return memory of the host under a name, which is kept and copied at the full rate."""
        ...

    def address(self, array: Any) -> int:
        """Return where an array of the device begins."""
        ...

    def send(self, host: NDArray[np.uint8], into: int) -> None:
        """Queue the copy of bytes to an address of the device."""
        ...

    def fetch(self, source: int, into: NDArray[np.uint8]) -> None:
        """Queue the copy of bytes from an address of the device."""
        ...

    def decode(self, codec: str, table: Table, room: tuple[int, int]) -> None:
        """Queue the decoding of streams; `room` is an address and the bytes there."""
        ...

    def queue(self, work: Callable[[], None]) -> None:
        """Queue what `work` queues."""
        ...

    def mark(self) -> Any:
        """Return what waits, by `synchronize`, until all that was queued so far is done."""
        ...

    def wait(self) -> None:
        """Return when all that was queued is done."""
        ...


@dataclass(slots=True, eq=False)
class _Held:
    """A chunk on the device: its memory, and where its bytes are, as `Piece` has it."""

    chunk: Chunk
    memory: Any = None
    planes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 1), np.uint64))
    block: int = 1
    spread: int = 1
    failed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Want:
    """Cells of a chunk, and where they go: an address, and bytes between neighbours."""

    held: _Held
    first: tuple[int, ...]
    size: tuple[int, ...]
    into: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """Results of decoding on the device: the bytes of each stream, and its status."""

    owners: Sequence[_Held]
    rooms: NDArray[np.int64]
    made: NDArray[np.uint8]

    def look(self) -> None:
        """Note which chunks failed."""
        count = self.rooms.size
        made = self.made[: 8 * count].view(np.int64)
        wrong = (made != self.rooms) | (self.made[8 * count :].view(np.int32) != 0)
        for number in np.flatnonzero(wrong).tolist():
            self.owners[number].failed = True


@dataclass(slots=True, eq=False)
class _Batch:
    """Chunks that are decoded together, and what is taken out of them and of others."""

    new: list[_Held] = field(default_factory=list[_Held])
    wants: list[_Want] = field(default_factory=list[_Want])
    kept: list[Any] = field(default_factory=list[Any])
    told: list[_Told] = field(default_factory=list[_Told])
    mark: Any = None


@dataclass(frozen=True, slots=True)
class _Side:
    """Page-locked memory for every other batch."""

    device: DecodingDevice
    number: int

    def room(self, name: str, size: int) -> NDArray[np.uint8]:
        """Return memory under a name, which nothing uses."""
        return self.device.locked(f"{name} {self.number}", size)

    def put(self, name: str, numbers: NDArray[Any]) -> NDArray[np.uint8]:
        """Return memory under a name with a copy of an array."""
        found = self.room(name, numbers.nbytes)
        found[:] = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8)
        return found


@dataclass(slots=True, eq=False)
class _Loaded:
    """A chunk's file in page-locked memory, and its streams; None where the host decodes it."""

    held: _Held
    file: NDArray[np.uint8]
    streams: Streams | None


class DeviceDecoding:
    """Reads a field of a store into memory of a device; one thread at a time, which waits for it.

    `limit` are the bytes of decoded chunks that are kept; `source` reads those that are not there.
    """

    several: ClassVar[bool] = False

    def __init__(
        self,
        array: PackedArray,
        use: FieldUse,
        grid: Grid,
        device: DecodingDevice,
        library: Library,
        threads: Executor,
        source: Source,
        limit: int,
        *,
        codecs: Sequence[str] = CHECKED,
        buffer_bytes: int = 0,
    ) -> None:
        self._array, self._use, self._grid = array, use, grid
        self._device = device
        self._placing, self._checking = Placing(library), Checking(library)
        self._threads, self._source = threads, source
        self._recent = LRU[tuple[int, ...]](limit)
        self._here: dict[tuple[int, ...], _Held] = {}
        self._sides = [_Side(device, number) for number in range(2)]
        self._under_way: list[_Batch] = []
        self._flushed = 0
        self._turn = threading.Lock()
        self._codecs = codecs
        self.buffer_bytes = buffer_bytes

    def read(self, block: Block, box: Box, buffer: Array, tally: Tally) -> bool:
        """Fill a buffer of the device, bytes, with a box [i, j, k], I fastest; return True.

        Raises `DatasetError`, which names the chunk and its file, where one is broken.
        """
        into = self._array_in(buffer, box)
        with self._turn:
            try:
                self._read(block, box, into, tally)
            except BaseException:
                # Nothing is under way then, and nothing is kept whose status was not read.
                self._device.wait()
                self._under_way.clear()
                self._recent.clear()
                self._here.clear()
                raise
        return True

    def _read(self, block: Block, box: Box, into: Array, tally: Tally) -> None:
        wants = self._queue(block, box, into, tally)
        while self._under_way:
            self._finish(self._under_way.pop(0))
        self._mend(wants)

    def send(self, block: Block, box: Box, buffer: Array, into: Array) -> None:  # noqa: ARG002 - as others
        """Queue the copy from a buffer that was filled to the array of a box."""
        into[...] = self._array_in(buffer, box)

    def _array_in(self, buffer: Array, box: Box) -> Array:
        part = buffer[: box_bytes(self._use, box)]
        return part.view(self._use.dtype).reshape(shape_of(box), order="F")

    def _queue(self, block: Block, box: Box, into: Any, tally: Tally) -> list[_Want]:
        """Queue all that a box needs, and return what was wanted."""
        wants: list[_Want] = []
        batch, size = _Batch(), 0
        for chunk, there, here in self._cells(block, box):
            use = self._recent.use(chunk.index, chunk.nbytes)
            tally.hits += use.hit
            if not use.hit:
                if size and size + self._array.chunk_bytes > DECODED_AT_ONCE:
                    self._flush(batch)
                    batch, size = _Batch(), 0
                tally.fetches += 1
                size += self._array.chunk_bytes
                self._here[chunk.index] = _Held(chunk)
                batch.new.append(self._here[chunk.index])
            held = self._here[chunk.index]
            batch.wants.append(self._want(held, there, here, into))
            wants.append(batch.wants[-1])
            gone = (*use.forgotten, *(() if chunk.index in self._recent else (chunk.index,)))
            for old in gone:
                # What was asked of it is done before its memory is used again.
                late = self._here.pop(old, None)
                if late is not None:
                    batch.kept.append(late.memory)
                    late.memory = None
        self._flush(batch)
        return wants

    def _cells(self, block: Block, box: Box) -> Sequence[tuple[Chunk, Region, Region]]:
        """Return chunks, where their cells are in the box, and where in the chunk."""
        found: list[tuple[Chunk, Region, Region]] = []
        for region, there in pieces_of(self._use, self._grid, block, box):
            for chunk in chunks_in(self._array.stored, region):
                inside, here = common_cells(chunk.region, region)
                at = zip(there, inside, strict=True)
                place = tuple(slice(a.start + b.start, a.start + b.stop) for a, b in at)
                found.append((chunk, place, here))
        return found

    def _want(self, held: _Held, there: Region, here: Region, into: Any) -> _Want:
        axes = [self._grid.axis_of(dim) for dim in self._use.dims]
        steps = tuple(0 if axis is None else int(into.strides[axis]) for axis in axes)
        offset = sum(side.start * step for side, step in zip(there, steps, strict=True))
        return _Want(
            held,
            tuple(side.start for side in here),
            tuple(side.stop - side.start for side in here),
            self._device.address(into) + offset,
            steps,
        )

    def _flush(self, batch: _Batch) -> None:
        """Read the files of a batch, and queue all else; not more than two are under way."""
        if len(self._under_way) == len(self._sides):
            self._finish(self._under_way.pop(0))
        side = self._sides[self._flushed % len(self._sides)]
        self._flushed += 1
        loaded = self._load(batch.new, side)
        for one in loaded:
            if one.streams is None:
                one.held.failed = True
            else:
                self._send(one, one.streams)
        for codec in sorted({_codec(one) for one in loaded} - {""}):
            self._decode(codec, [one for one in loaded if _codec(one) == codec], batch, side)
        self._place([want for want in batch.wants if not want.held.failed], batch.kept, side)
        batch.mark = self._device.mark()
        self._under_way.append(batch)

    def _load(self, new: Sequence[_Held], side: _Side) -> list[_Loaded]:
        """Read files side by side into page-locked memory, and find their streams."""
        paths = [self._array.file_name(held.chunk) for held in new]
        sizes = list(map(_size, paths))
        starts = np.cumsum([0, *map(_aligned, sizes)]).tolist()
        buffer = side.room("files", starts[-1])

        def load(part: slice) -> list[_Loaded]:
            """Read some of the files in one thread, which does that without the interpreter."""
            whole = read_files(paths[part], sizes[part], starts[part], buffer).tolist()
            queues = zip(new[part], starts[part], sizes[part], whole, strict=False)
            return [
                self._loaded(held, buffer[start : start + size], whole=there)
                for held, start, size, there in queues
            ]

        step = max(1, -(-len(new) // _PARTS))
        parts = [slice(at, min(len(new), at + step)) for at in range(0, len(new), step)]
        return [one for several in self._threads.map(load, parts) for one in several]

    def _loaded(self, held: _Held, file: NDArray[np.uint8], *, whole: bool) -> _Loaded:
        room, codec = self._array.chunk_bytes, self._array.codec.name
        streams = streams_of(codec, file, room) if whole else None
        if streams is None or not self._may(streams):
            return _Loaded(held, file, None)
        return _Loaded(held, file, streams)

    def _may(self, streams: Streams) -> bool:
        """Whether the device may decode streams: a file may be of another codec than its array."""
        known = streams.codec in self._codecs or bool(np.all(streams.size == streams.room))
        return known and streams.width in (1, self._array.stored.itemsize)

    def _send(self, one: _Loaded, streams: Streams) -> None:
        """Queue the copy of a file, and note where its bytes will be."""
        begin = _aligned(one.file.size)
        memory = self._device.take(begin + self._array.chunk_bytes)
        self._device.send(one.file, memory.ptr)
        one.held.memory = memory
        self._note(one.held, streams, memory.ptr, memory.ptr + begin)

    def _note(self, held: _Held, streams: Streams, file: int, chunk: int) -> None:
        """Note where the bytes of a chunk's elements are: of streams in its file, and of others."""
        order = np.argsort(streams.at, kind="stable")
        at, plain = streams.at[order], (streams.size == streams.room)[order]
        base = np.where(plain, file + streams.start[order], chunk + at)
        item, room = self._array.stored.itemsize, self._array.chunk_bytes
        begin = np.arange(0, room, streams.block, dtype=np.int64)
        if streams.width > 1:
            far = np.minimum(streams.block, room - begin) // item
            places = begin[:, np.newaxis] + far[:, np.newaxis] * np.arange(item)
        else:
            places = begin[:, np.newaxis] + np.arange(item)
        number = np.searchsorted(at, places, "right") - 1
        held.planes = (base[number] + places - at[number]).astype(np.uint64)
        held.block = streams.block // item
        held.spread = 1 if streams.width > 1 else item

    def _decode(self, codec: str, loaded: Sequence[_Loaded], batch: _Batch, side: _Side) -> None:
        """Queue the decoding of all streams of a codec."""
        parts: list[NDArray[np.int64]] = []
        owners: list[_Held] = []
        for one in loaded:
            assert one.streams is not None
            streams, file = one.streams, one.held.memory.ptr
            packed = np.flatnonzero(streams.size != streams.room)
            places = file + _aligned(one.file.size) + streams.at[packed]
            begin = file + streams.start[packed]
            parts.append(np.stack((begin, streams.size[packed], streams.room[packed], places)))
            owners.extend([one.held] * packed.size)
        numbers = np.concatenate(parts, axis=1)
        count, line = len(owners), 8 * len(owners)
        if not count:
            return
        memory = self._device.take(5 * line + 8 + 4 * count)
        self._device.send(side.put(codec, np.append(numbers, 0)), memory.ptr)
        sources, sizes, rooms, places, nothing = (memory.ptr + line * n for n in range(5))
        made, statuses = nothing + 8, nothing + 8 + line
        table = Table(count, sources, sizes, rooms, made, places, statuses)
        if codec == "lz4":
            check = partial(self._checking.check_lz4, count, sources, sizes, rooms, nothing)
            self._device.queue(check)
        room = self._device.room(codec, count, int(numbers[2].max()), int(numbers[2].sum()))
        work = self._device.take(room)
        self._device.decode(codec, table, (work.ptr, room))
        told = side.room(f"{codec} told", 12 * count)
        self._device.fetch(made, told)
        batch.told.append(_Told(owners, numbers[2], told))
        batch.kept.extend((memory, work))

    def _place(self, wants: Sequence[_Want], kept: list[Any], side: _Side) -> None:
        """Queue what brings cells to where they are used."""
        if not wants:
            return
        several = list(dict.fromkeys(want.held for want in wants))
        starts = np.cumsum([0, *(held.planes.nbytes for held in several)])
        planes = np.concatenate([held.planes.reshape(-1) for held in several])
        words = WORDS * 8 * len(wants)
        memory = self._device.take(words + planes.nbytes)
        tables = {
            held: memory.ptr + words + int(start)
            for held, start in zip(several, starts, strict=False)
        }
        pieces = [
            Piece(
                table=tables[want.held],
                block=want.held.block,
                spread=want.held.spread,
                chunk=self._array.stored.chunks,
                first=want.first,
                size=want.size,
                into=want.into,
                steps=want.steps,
            )
            for want in wants
        ]
        packed = np.concatenate((packed_pieces(pieces).reshape(-1), planes.view(np.int64)))
        self._device.send(side.put("pieces", packed), memory.ptr)
        width = self._array.stored.itemsize
        self._device.queue(lambda: self._placing.place(pieces, memory.ptr, width))
        kept.extend((memory, *(held.memory for held in several)))

    def _finish(self, batch: _Batch) -> None:
        """Wait for a batch, and note which of its chunks failed."""
        batch.mark.synchronize()
        for told in batch.told:
            told.look()
        for held in batch.new:
            if self._here.get(held.chunk.index) is not held:
                held.memory = None

    def _mend(self, wants: Sequence[_Want]) -> None:
        """Let the host read what the device could not decode; what it raises is what is wrong."""
        late = [want for want in wants if want.held.failed]
        if not late:
            return
        kept: list[Any] = []
        for held in dict.fromkeys(want.held for want in late):
            plain = self._on_host(held.chunk)
            held.memory = self._device.take(plain.size)
            self._device.send(plain, held.memory.ptr)
            kept.append(plain)
            self._note(held, _copied(plain.size), held.memory.ptr, 0)
            held.failed = False
        self._place(late, kept, self._sides[0])
        self._device.wait()

    def _on_host(self, chunk: Chunk) -> NDArray[np.uint8]:
        """Return a chunk's bytes, with any behind the end of the data."""
        stored = self._array.stored
        whole: NDArray[Any] = np.zeros(stored.chunks, self._array.dtype)
        plain, packed = whole.reshape(-1).view(np.uint8), self._array.load(chunk)
        if packed is not None:
            self._array.decode(chunk, packed, plain)
        else:
            inside = tuple(slice(0, side.stop - side.start) for side in chunk.region)
            whole[inside] = self._source.read(stored.name, chunk.region)
        return plain


def _copied(size: int) -> Streams:
    """Return the stream of bytes that are there as they are."""
    start, room = np.zeros(1, np.int64), np.array([size], np.int64)
    return Streams("", start, room, start, room, size, 1)


def _codec(one: _Loaded) -> str:
    return "" if one.streams is None else one.streams.codec


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _size(path: str) -> int:
    """Return the bytes of a file; 0 where it is not there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
