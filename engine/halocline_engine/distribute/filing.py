"""Fields that go between plain files and the memory of a device, without a stop on the host.

What a block has of a chunk's file is a stretch of it, read at once into a room of the device as the
file has it; from there the device copies to where the block needs it. Files are written the same
way: the device puts together in a room what belongs into each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.datasets.chunks import Tally, chunks_in
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.match import FieldUse, Grid
from halocline_engine.datasets.raw import RawArray, Stretch
from halocline_engine.datasets.source import Region
from halocline_engine.device.files import Files, Span
from halocline_engine.distribute.partition import Block, Box
from halocline_engine.distribute.rooms import ALIGNED, box_bytes, room_bytes
from halocline_engine.distribute.transfer import pieces_of

__all__ = ["Filing", "by_dims"]

#: Bytes that take as long as asking for a stretch, and how much more than needed may be read.
_CALL = 128 << 10
_MORE = 2


@dataclass(frozen=True, slots=True)
class _Placed:
    """A stretch of a file: the first byte in the room, and where its cells are in the box."""

    stretch: Stretch
    at: int
    there: Region

    def span(self, room: Array) -> Span:
        """Return the stretch as bytes of a file and of the room."""
        one = self.stretch
        return Span(one.path, one.offset, room[self.at : self.at + one.size])

    def array(self, room: Array, dtype: str) -> Array:
        """Return the cells that the stretch has in the room, the last dimension fastest."""
        return self.span(room).values.view(dtype).reshape(self.stretch.shape)


@dataclass(frozen=True, slots=True)
class Filing:
    """How a field goes between files and rooms of the device, which are bytes, `room` for a box.

    Arrays of the device are indexed [i, j, k].
    """

    raw: RawArray
    use: FieldUse
    grid: Grid
    files: Files
    room: int = 0

    def incoming(self, wanted: Sequence[tuple[Block, Box]]) -> Filing | None:
        """Return this with room to read any one of some boxes; None where that is no gain.

        Asking for many small pieces takes longer than copying them.
        """
        return self._with_room(wanted, self.raw.stretches)

    def outgoing(self, wanted: Sequence[tuple[Block, Box]]) -> Filing | None:
        """Return this with room to write any one of some boxes; None where that is no gain.

        Nor is it possible where chunks lie across the edges of a box.
        """
        return self._with_room(wanted, self.raw.files)

    def read(self, block: Block, box: Box, room: Array, tally: Tally) -> bool:
        """Fill a room; False where the file of a chunk is not there, or not whole."""
        if not self.files.read([placed.span(room) for placed in self._stretches(block, box)]):
            return False
        regions = [region for region, _ in pieces_of(self.use, self.grid, block, box)]
        tally.fetches += sum(1 for region in regions for _ in chunks_in(self.raw.stored, region))
        return True

    def send(self, block: Block, box: Box, room: Array, into: Array) -> None:
        """Queue the copies from a room that was filled to the array of a box."""
        view = by_dims(self.use, self.grid, into)
        for placed in self._stretches(block, box):
            view[placed.there] = placed.array(room, self.use.dtype)[placed.stretch.inside]

    def fetch(self, block: Block, box: Box, made: Array, room: Array) -> None:
        """Queue the copies from the array of a box to a room, as its files shall be."""
        view = by_dims(self.use, self.grid, made)
        for placed in self._files(block, box) or ():
            array = placed.array(room, self.use.dtype)
            if not placed.stretch.whole:
                # Cells behind the end of the data, which are in the file as well.
                array[...] = 0
            array[placed.stretch.inside] = view[placed.there]

    def write(self, block: Block, box: Box, room: Array) -> int:
        """Store what is in a room; return the bytes of the box.

        Raises `OutputError` where the disk is full.
        """
        placed = self._files(block, box) or []
        with full_disk(self.raw.path):
            self.raw.make_folders(one.stretch.path for one in placed)
            self.files.write([one.span(room) for one in placed], self.raw.file_size)
        return box_bytes(self.use, box)

    def _with_room(
        self,
        wanted: Sequence[tuple[Block, Box]],
        cut: Callable[[Region], Iterable[Stretch] | None],
    ) -> Filing | None:
        """Return this with room for any one of some boxes, if they are not cut too small."""
        known: dict[Hashable, tuple[int, int] | None] = {}
        most = largest = cost = size = 0
        for block, box in wanted:
            room = 0
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
                room, cost = room + found[0], cost + found[1]
            here = box_bytes(self.use, box)
            most, largest, size = max(most, room), max(largest, here), size + here
        fits = most <= room_bytes(largest) and cost <= _MORE * size
        return replace(self, room=most) if fits else None

    def _stretches(self, block: Block, box: Box) -> Iterator[_Placed]:
        """Yield what is to be read of a box, in the order in which it is in the room."""
        at = 0
        for region, where in pieces_of(self.use, self.grid, block, box):
            for one in self.raw.stretches(region):
                there = tuple(
                    slice(whole.start + part.start, whole.start + part.stop)
                    for whole, part in zip(where, one.there, strict=True)
                )
                yield _Placed(one, at, there)
                at += _aligned(one.size)

    def _files(self, block: Block, box: Box) -> list[_Placed] | None:
        """Return what is to be written of a box; None where chunks lie across its edges."""
        ((region, _),) = pieces_of(self.use, self.grid, block, box)
        stretches = self.raw.files(region)
        if stretches is None:
            return None
        starts = itertools.accumulate((_aligned(one.size) for one in stretches), initial=0)
        return [_Placed(one, at, one.there) for one, at in zip(stretches, starts, strict=False)]


def by_dims(use: FieldUse, grid: Grid, values: Array) -> Array:
    """Return the view of an array [i, j, k] with the dimensions of the variable, in its order."""
    axes = [grid.axis_of(dim) for dim in use.dims]
    own = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(3) if axis not in own]
    view = values.transpose([*own, *rest])[(..., *(0 for _ in rest))]
    return view[tuple(np.newaxis if axis is None else slice(None) for axis in axes)]


def _costs(stretches: Iterable[Stretch] | None) -> tuple[int, int] | None:
    """Return the bytes of room for some stretches, and those that moving them costs."""
    if stretches is None:
        return None
    sizes = [one.size for one in stretches]
    return sum(map(_aligned, sizes)), sum(sizes) + len(sizes) * _CALL


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
