"""Choice of a field's transport: direct if files and devices allow, else via the host."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array
from halocline_engine.datasets.chunk_files.raw import raw_array
from halocline_engine.datasets.chunk_files.spread import spread
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.device.io.files import Files
from halocline_engine.device.memory.locking import Pages
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import pieces_of
from halocline_engine.distribute.transports.base import Copies, Loading, Storing, box_bytes
from halocline_engine.distribute.transports.decoder import Decoder
from halocline_engine.distribute.transports.device_buffer import (
    DeviceLoading,
    DeviceReader,
    DeviceStoring,
)
from halocline_engine.distribute.transports.direct_file import DirectFiles
from halocline_engine.distribute.transports.staged import (
    StagedLoading,
    StagedStoring,
    reader_of,
    writer_of,
)
from halocline_engine.distribute.transports.stored import held_values, is_whole, raw_source
from halocline_engine.distribute.transports.zero_copy import (
    PinnedPart,
    PinParts,
    ZeroCopyLoading,
    ZeroCopyStoring,
    pin_parts,
)

__all__ = ["Channel", "FieldParts", "loading_of", "storing_of"]

#: Bytes that a thread writes to at a time.
_PIECE = 8 << 20


class Channel(Protocol):
    """Resources of a device that transports need: `pipeline.resources.PipelineResources`."""

    readers: Executor
    writers: Executor
    pages: Pages | None
    files: Files | None
    decoder: Decoder | None

    @property
    def queues(self) -> Copies:
        """Queues of copies to and from it."""
        ...

    def buffer(self, name: str, slot: int, size: int) -> NDArray[np.uint8]:
        """Return page-locked memory of the host under a name, of at least `size` bytes."""
        ...

    def memory(self, name: str, slot: int, size: int) -> Array:
        """Return memory of the device under a name, of at least `size` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class FieldParts:
    """A field, the boxes of it that are moved in a pass, and how many slots these go through."""

    use: FieldUse
    grid: Grid
    boxes: Sequence[tuple[Block, Box]]
    slots: int

    @property
    def largest(self) -> int:
        """The bytes of the largest box."""
        return max(box_bytes(self.use, box) for _, box in self.boxes)


def loading_of(channel: Channel, parts: FieldParts, source: Source, variable: str) -> Loading:
    """Return what brings a field to the device; its buffers are made."""
    use, grid = parts.use, parts.grid
    reader = reader_of(source, variable, use, grid, channel.readers)
    files = _device_reader(channel, parts, source, variable)
    if files is not None:
        otherwise = StagedLoading(use, reader, _pageable(parts), channel.queues)
        return DeviceLoading(use, files, _memory(channel, parts, "in", files), otherwise)
    held = held_values(source, variable, use, grid)
    staged = StagedLoading(use, reader, _buffer(channel, parts, "in", held is None), channel.queues)
    if channel.pages is None or held is None:
        return staged
    pin = pin_parts(held, use, grid, channel.pages, writes=False)
    return ZeroCopyLoading(use, pin, channel.queues, staged)


def storing_of(channel: Channel, parts: FieldParts, sink: Sink, variable: str) -> Storing:
    """Return what brings a field from the device; its buffers are made."""
    use, grid = parts.use, parts.grid
    files = _files_to_write(channel, parts, sink, variable)
    if files is not None:
        return DeviceStoring(files, _memory(channel, parts, "out", files))
    writer = writer_of(sink, variable, use, grid, channel.writers)
    pin = None
    if channel.pages is not None:
        pin = _pin_result(sink, variable, use, grid, channel.pages, channel.readers)
    staged = StagedStoring(use, writer, _buffer(channel, parts, "out", pin is None), channel.queues)
    return staged if pin is None else ZeroCopyStoring(use, pin, channel.queues, staged)


def _device_reader(
    channel: Channel, parts: FieldParts, source: Source, variable: str
) -> DeviceReader | None:
    """Return what reads files to the device, where that is possible and a gain."""
    use, grid = parts.use, parts.grid
    raw = raw_source(source, variable, use, grid) if channel.files is not None else None
    if channel.files is not None and raw is not None and use.dims:
        found = DirectFiles(raw, use, grid, channel.files).incoming(parts.boxes)
        if found is not None:
            return found
    if channel.decoder is None:
        return None
    boxes = [box for _, box in parts.boxes]
    return channel.decoder.reader_of(source, use, grid, channel.readers, boxes)


def _files_to_write(
    channel: Channel, parts: FieldParts, sink: Sink, variable: str
) -> DirectFiles | None:
    """Return what writes files from the device, where that is possible and a gain."""
    use, grid, files = parts.use, parts.grid, channel.files
    if files is None or not isinstance(sink, ZarrSink):
        return None
    raw = raw_array(sink.path, variable, use.dtype)
    if raw is None or not use.dims or not is_whole(use, grid):
        return None
    return DirectFiles(raw, use, grid, files).outgoing(parts.boxes)


def _buffer(
    channel: Channel, parts: FieldParts, side: str, made: bool
) -> Callable[[int], NDArray[np.uint8]]:
    """Return what gives the page-locked buffer of a slot; they are `made` at once, or when used."""
    name, size = f"{side} {parts.use.name}", max(1, parts.largest)
    for slot in range(parts.slots if made else 0):
        channel.buffer(name, slot, size)
    return lambda slot: channel.buffer(name, slot, size)


def _memory(
    channel: Channel, parts: FieldParts, side: str, files: DeviceReader | DirectFiles
) -> Callable[[int], Array]:
    """Return what gives the buffer of a slot on the device; they are made at once."""
    name, size = f"{side} {parts.use.name}", max(1, files.buffer_bytes)
    for slot in range(parts.slots):
        channel.memory(name, slot, size)
    return lambda slot: channel.memory(name, slot, size)


def _pageable(parts: FieldParts) -> Callable[[int], NDArray[np.uint8]]:
    """Return what gives the buffer of a slot, for values that are not in files as others are."""
    kept: dict[int, NDArray[np.uint8]] = {}

    def buffer(slot: int) -> NDArray[np.uint8]:
        if slot not in kept:
            kept[slot] = np.empty(parts.largest, np.uint8)
        return kept[slot]

    return buffer


def _pin_result(
    sink: Sink, name: str, use: FieldUse, grid: Grid, pages: Pages, threads: Executor
) -> PinParts | None:
    """Return what locks where a field's values belong, if that is in memory.

    Pages that are not there yet are made by some threads.
    """
    if not isinstance(sink, ArraySink) or not use.dims or not is_whole(use, grid):
        return None
    values = sink.arrays[name]
    pin = pin_parts(values, use, grid, pages, writes=True)

    def take(block: Block, box: Box) -> list[PinnedPart] | None:
        for region, _ in pieces_of(use, grid, block, box):
            if pages.refused is None and not pages.holds(values[region]):
                _touch(values[region], threads)
        return pin(block, box)

    return take


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
