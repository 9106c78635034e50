"""Fields that go between plain files and the memory of a device, without a stop on the host.

What a block has of a chunk's file is a range of it, read at once into a buffer of the device as the
file has it; from there the device copies to where the block needs it, all chunks that are cut alike
at once. Files are written the same way: the device puts together in a buffer what goes into each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.datasets.chunk_files.byte_ranges import ByteRanges
from halocline_engine.datasets.chunk_files.raw import RawArray
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import Tally
from halocline_engine.datasets.stores.source import Region
from halocline_engine.device.io.files import Files, Span
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import pieces_of
from halocline_engine.distribute.transports.base import box_bytes, staging_bytes

__all__ = ["DirectFiles", "by_dims"]

#: Bytes that what a range has in a buffer begins at a multiple of.
_ALIGNED = 256
#: Bytes that take as long as asking for a range, and how much more than needed may be read.
_CALL = 128 << 10
_MORE = 2


@dataclass(frozen=True, slots=True)
class _Placed:
    """Ranges of files: their first byte in the buffer, and where their region is in the box."""

    byte_ranges: ByteRanges
    at: int
    region: Region

    @property
    def step(self) -> int:
        """The bytes from one range to the next in the buffer."""
        return _aligned(self.byte_ranges.size)

    def spans(self, raw: RawArray, buffer: Array) -> Iterator[Span]:
        """Yield the ranges as bytes of files and of the buffer."""
        some, at = self.byte_ranges, self.at
        offsets = list(some.offsets())
        for path in raw.names(some):
            for offset in offsets:
                yield Span(path, offset, buffer[at : at + some.size])
                at += self.step

    def part(self, buffer: Array) -> Array:
        """Return the bytes that the ranges have in the buffer."""
        return buffer[self.at : self.at + self.byte_ranges.count * self.step]

    def cells(self, buffer: Array, dtype: str) -> Array:
        """Return the cells that the ranges have in the buffer, as those of `places`."""
        return self.byte_ranges.cells(self.part(buffer), self.step, dtype)

    def places(self, view: Array) -> Array:
        """Return where those cells belong in the box, whose dimensions are the variable's."""
        return self.byte_ranges.places(view[self.region])


@dataclass(frozen=True, slots=True)
class DirectFiles:
    """Moves a field between files and buffers of the device: `buffer_bytes` for a box.

    Arrays of the device are indexed [i, j, k].
    """

    raw: RawArray
    use: FieldUse
    grid: Grid
    files: Files
    buffer_bytes: int = 0
    several: ClassVar[bool] = True

    def incoming(self, wanted: Sequence[tuple[Block, Box]]) -> DirectFiles | None:
        """Return this with a buffer to read any one of some boxes; None where that is no gain.

        Asking for many small pieces takes longer than copying them.
        """
        return self._with_buffer(wanted, self.raw.byte_ranges)

    def outgoing(self, wanted: Sequence[tuple[Block, Box]]) -> DirectFiles | None:
        """Return this with a buffer to write any one of some boxes; None where that is no gain.

        Nor is it possible where chunks lie across the edges of a box.
        """
        return self._with_buffer(wanted, self.raw.files)

    def read(self, block: Block, box: Box, buffer: Array, tally: Tally) -> bool:
        """Fill a buffer; False where the file of a chunk is not there, or not whole."""
        placed = self._placed(block, box, self.raw.byte_ranges) or []
        if not self.files.read([span for one in placed for span in one.spans(self.raw, buffer)]):
            return False
        tally.fetches += sum(one.byte_ranges.files for one in placed)
        return True

    def send(self, block: Block, box: Box, buffer: Array, into: Array) -> None:
        """Queue the copies from a buffer that was filled to the array of a box."""
        view = by_dims(self.use, self.grid, into)
        for one in self._placed(block, box, self.raw.byte_ranges) or ():
            one.places(view)[...] = one.cells(buffer, self.use.dtype)

    def fetch(self, block: Block, box: Box, made: Array, buffer: Array) -> None:
        """Queue the copies from the array of a box to a buffer, as its files shall be."""
        view = by_dims(self.use, self.grid, made)
        for one in self._placed(block, box, self.raw.files) or ():
            if not one.byte_ranges.whole:
                # Cells behind the end of the data, which are in the file as well.
                one.part(buffer)[...] = 0
            one.cells(buffer, self.use.dtype)[...] = one.places(view)

    def write(self, block: Block, box: Box, buffer: Array) -> int:
        """Store what is in a buffer; return the bytes of the box.

        Raises `OutputError` where the disk is full.
        """
        placed = self._placed(block, box, self.raw.files) or []
        with full_disk(self.raw.path):
            self.raw.make_folders(
                name for one in placed for name in self.raw.names(one.byte_ranges)
            )
            spans = [span for one in placed for span in one.spans(self.raw, buffer)]
            self.files.write(spans, self.raw.file_size)
        return box_bytes(self.use, box)

    def _with_buffer(
        self,
        wanted: Sequence[tuple[Block, Box]],
        cut: Callable[[Region], list[ByteRanges] | None],
    ) -> DirectFiles | None:
        """Return this with a buffer for any one of some boxes, if they are not cut too small."""
        known: dict[Hashable, tuple[int, int] | None] = {}
        most = largest = cost = size = 0
        for block, box in wanted:
            buffer = 0
            for region, _ in pieces_of(self.use, self.grid, block, box):
                # Regions that lie alike in the chunks are cut alike.
                stored = self.raw.stored
                sides = zip(region, stored.chunks, stored.sizes, strict=True)
                alike = tuple((a.start % n, a.stop - a.start, a.stop == end) for a, n, end in sides)
                if alike not in known:
                    known[alike] = _costs(cut(region))
                found = known[alike]
                if found is None:
                    return None
                buffer, cost = buffer + found[0], cost + found[1]
            here = box_bytes(self.use, box)
            most, largest, size = max(most, buffer), max(largest, here), size + here
        fits = most <= staging_bytes(largest) and cost <= _MORE * size
        return replace(self, buffer_bytes=most) if fits else None

    def _placed(
        self, block: Block, box: Box, cut: Callable[[Region], list[ByteRanges] | None]
    ) -> list[_Placed] | None:
        """Return what is moved of a box, in the order in which it is in the buffer.

        None where chunks lie across its edges.
        """
        found: list[_Placed] = []
        at = 0
        for region, where in pieces_of(self.use, self.grid, block, box):
            several = cut(region)
            if several is None:
                return None
            for some in several:
                found.append(_Placed(some, at, where))
                at += some.count * _aligned(some.size)
        return found


def by_dims(use: FieldUse, grid: Grid, values: Array) -> Array:
    """Return the view of an array [i, j, k] with the dimensions of the variable, in its order."""
    axes = [grid.axis_of(dim) for dim in use.dims]
    own = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(3) if axis not in own]
    view = values.transpose([*own, *rest])[(..., *(0 for _ in rest))]
    return view[tuple(np.newaxis if axis is None else slice(None) for axis in axes)]


def _costs(several: Sequence[ByteRanges] | None) -> tuple[int, int] | None:
    """Return the bytes of buffer for some ranges, and those that moving them costs."""
    if several is None:
        return None
    buffer = sum(some.count * _aligned(some.size) for some in several)
    return buffer, sum(some.count * (some.size + _CALL) for some in several)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
