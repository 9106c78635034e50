"""Bytes of plain chunks' files that a region has, those of chunks that are cut alike together.

Most chunks of a region are cut alike: all that lie inside, those along one of its faces, and so on.
So what there is to be known, and to be copied, grows with the number of kinds and not of chunks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from halocline_engine.datasets.stores.chunks import Stored
from halocline_engine.datasets.stores.source import Region

__all__ = ["ByteRanges", "byte_ranges_of"]


@dataclass(frozen=True, slots=True)
class ByteRanges:
    """Chunks that a region cuts alike, and the bytes that are taken of each.

    `chunks` are their places in the grid of chunks, for each dimension. The region has the cells
    `here` of each, and those of all, side by side, are `there` in the region. Cells that differ in
    dimensions before `level` lie apart in a file: each has a range of bytes that lie together,
    which holds all cells of the dimensions behind `level`, those that are not wanted as well.
    """

    stored: Stored
    chunks: tuple[range, ...]
    here: Region
    there: Region
    level: int

    @property
    def files(self) -> int:
        """Number of chunks."""
        return math.prod(map(len, self.chunks))

    @property
    def count(self) -> int:
        """Number of ranges in all files."""
        return self.files * math.prod(self._sides[: self.level])

    @property
    def size(self) -> int:
        """The bytes of a range of bytes."""
        return self._sides[self.level] * _stride(self.stored, self.level)

    @property
    def whole(self) -> bool:
        """Whether ranges have no other cells than those that are wanted."""
        behind = self.level + 1
        return self._sides[behind:] == self.stored.chunks[behind:]

    def offsets(self) -> Iterator[int]:
        """Yield where the ranges of a chunk begin in its file, the last dimension fastest."""
        starts = [side.start for side in self.here[: self.level + 1]]
        strides = [_stride(self.stored, at) for at in range(self.level + 1)]
        base = sum(start * stride for start, stride in zip(starts, strides, strict=True))
        for index in itertools.product(*map(range, self._sides[: self.level])):
            yield base + sum(at * stride for at, stride in zip(index, strides, strict=False))

    def cells(self, buffer: Any, step: int, dtype: str) -> Any:
        """Return the wanted cells of ranges that lie in a buffer one after the other.

        The buffer is an array of bytes [count * step], of any library, those of a file together and
        in the order of `offsets`. The result is a view, [chunks..., cells of each...].
        """
        sides, shape = self._sides, self.stored.chunks
        files = tuple(map(len, self.chunks))
        item = self.stored.itemsize
        values = buffer.view(dtype).reshape(*files, *sides[: self.level], step // item)
        values = values[..., : self.size // item]
        behind = self.level + 1
        values = values.reshape(*files, *sides[:behind], *shape[behind:])
        return values[(..., *self.here[behind:])] if shape[behind:] else values

    def places(self, values: Any) -> Any:
        """Return the view of a region's array, of any library, that has these cells.

        Its dimensions are those of `cells`.
        """
        lanes = itertools.chain(*zip(map(len, self.chunks), self._sides, strict=True))
        count = len(self.chunks)
        apart = values[self.there].reshape(tuple(lanes))
        return apart.transpose(*range(0, 2 * count, 2), *range(1, 2 * count, 2))

    @property
    def _sides(self) -> tuple[int, ...]:
        """Number of cells of a chunk along each dimension."""
        return tuple(side.stop - side.start for side in self.here)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Chunks along a dimension that are cut alike: see `ByteRanges`."""

    chunks: range
    here: slice
    there: slice


def byte_ranges_of(stored: Stored, region: Region, call: int) -> list[ByteRanges]:
    """Return what is to be read of a region's chunks, in as few large ranges as they allow.

    Asking for one more range of bytes costs as much as `call` bytes.

    >>> stored = Stored("t", (10, 10), (4, 5), 8)
    >>> [one.chunks for one in byte_ranges_of(stored, (slice(3, 8), slice(0, 10)), 0)]
    [(range(0, 1), range(0, 2)), (range(1, 2), range(0, 2))]
    """
    lanes = zip(region, stored.chunks, strict=True)
    found: list[ByteRanges] = []
    for cuts in itertools.product(*(_cuts(side, step) for side, step in lanes)):
        chunks, here = tuple(cut.chunks for cut in cuts), tuple(cut.here for cut in cuts)
        level = _level(stored, here, call)
        found.append(ByteRanges(stored, chunks, here, tuple(cut.there for cut in cuts), level))
    return found


def _level(stored: Stored, here: Region, call: int) -> int:
    """Return before which dimension cells of a chunk are asked for apart, at the least cost."""
    sides = [side.stop - side.start for side in here]

    def cost(level: int) -> int:
        return math.prod(sides[:level]) * (sides[level] * _stride(stored, level) + call)

    return min(range(len(sides)), key=cost)


def _cuts(side: slice, step: int) -> list[_Cut]:
    """Return the chunks of a dimension that a region touches, those that are whole together."""
    found: list[_Cut] = []
    at = side.start
    while at < side.stop:
        chunk, first = divmod(at, step)
        last = min(step, side.stop - chunk * step)
        count = (side.stop - at) // step if first == 0 and last == step else 1
        stop = at + count * (last - first)
        place = slice(at - side.start, stop - side.start)
        found.append(_Cut(range(chunk, chunk + count), slice(first, last), place))
        at = stop
    return found


def _stride(stored: Stored, level: int) -> int:
    """Return the bytes between neighbours along a dimension in the file of a chunk."""
    return math.prod(stored.chunks[level + 1 :]) * stored.itemsize
