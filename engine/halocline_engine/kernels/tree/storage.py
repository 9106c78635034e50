"""Layouts of many small vectors of different lengths in one array.

Flat: one vector behind the other, with `offsets`, their prefix sums::

    index(i, m) = offsets[m] + i

Interleaved: `width` vectors a block, the same element of all of them side by side, each block as
long as its longest vector; padding belongs to nobody. Vectors are sorted by descending length
first (stably, so `order` and its inverse `place` are defined), which keeps padding small and puts
a block's longest vector into its first lane::

    index(i, m) = starts[m // width] + m % width + i * width        m counts sorted vectors

`starts` allows a length for each block; with one length N for all it is block * width * N, the
layout of Arbor's documentation. Parent indices are packed in the same way, and are absolute::

    flat         offsets[m] + parent          interleaved    index(0, m) + width * parent

The third layout, by the levels of a tree's branches, is in `levels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError, FieldError

__all__ = ["Flat", "Index", "Interleaved", "Values", "flat", "interleaved", "pack_parents"]

Index: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[Any]

#: Where padding of a packed parent index points: nowhere.
_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """One vector behind the other; `offsets` has one element more than there are vectors."""

    offsets: Index

    @property
    def count(self) -> int:
        """Number of vectors."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Index:
        """Length of each vector."""
        return np.diff(self.offsets)

    @property
    def total(self) -> int:
        """Number of elements."""
        return int(self.offsets[-1])

    def index(self, i: int, m: int) -> int:
        """Return where element `i` of vector `m` is."""
        return int(self.offsets[m]) + i

    def owners(self) -> Index:
        """Return the vector that each element belongs to."""
        return np.repeat(np.arange(self.count, dtype=np.int64), self.sizes)

    def local(self) -> Index:
        """Return the place of each element in its vector."""
        return np.arange(self.total, dtype=np.int64) - self.offsets[self.owners()]


@dataclass(frozen=True, slots=True, eq=False)
class Interleaved:
    """Blocks of `width` vectors.

    `sizes` are those of the sorted vectors: vector m here is vector `order[m]` of the flat layout,
    and vector k there is `place[k]` here. `starts` and `lengths` are those of the blocks.
    """

    width: int
    sizes: Index
    order: Index
    place: Index
    starts: Index
    lengths: Index

    @property
    def total(self) -> int:
        """Number of elements, padding included."""
        return int(self.width * self.lengths.sum())

    def index(self, i: int, m: int) -> int:
        """Return where element `i` of sorted vector `m` is."""
        block, lane = divmod(m, self.width)
        return int(self.starts[block]) + lane + i * self.width

    def bases(self) -> Index:
        """Return where the first element of each sorted vector is, or would be."""
        sorted_ = np.arange(len(self.sizes), dtype=np.int64)
        return self.starts[sorted_ // self.width] + sorted_ % self.width

    def positions(self, source: Flat) -> Index:
        """Return where each element of the flat layout is."""
        return self.bases()[self.place[source.owners()]] + self.width * source.local()

    def pack(self, source: Flat, values: Values, padding: float = 0) -> Values:
        """Return values of the flat layout in this one, padding filled."""
        _check(source, values)
        packed = np.full(self.total, padding, values.dtype)
        packed[self.positions(source)] = values
        return packed

    def unpack(self, source: Flat, packed: Values) -> Values:
        """Return packed values in the flat layout."""
        return packed[self.positions(source)]


def flat(sizes: Sequence[int] | Values) -> Flat:
    """Return the flat layout of vectors of these lengths.

    >>> flat([8, 7, 6, 6, 5, 5, 3]).offsets.tolist()
    [0, 8, 15, 21, 27, 32, 37, 40]
    """
    lengths = np.asarray(sizes, np.int64)
    if lengths.ndim != 1 or (lengths < 0).any():
        raise FieldError("The lengths of the vectors must be a list of whole numbers from 0.")
    return Flat(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def interleaved(
    sizes: Sequence[int] | Values, width: int, *, multiple: int = 1, common: bool = False
) -> Interleaved:
    """Return the interleaved layout of vectors of these lengths, `width` to a block.

    Lengths of blocks are rounded up to a `multiple`; with `common` all have that of the longest.

    >>> layout = interleaved([6, 8], 4, common=True)
    >>> layout.order.tolist(), layout.index(7, 0), layout.total
    ([1, 0], 28, 32)
    """
    if width < 1 or multiple < 1:
        raise ArgumentError(
            f"Arguments 'width' and 'multiple' must be at least 1, got {width} and {multiple}."
        )
    lengths = flat(sizes).sizes
    order = np.argsort(-lengths, kind="stable").astype(np.int64)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ranked = lengths[order]
    longest = -(-ranked[::width] // multiple) * multiple
    if common and len(longest):
        longest = np.full_like(longest, longest[0])
    starts = width * (np.cumsum(longest) - longest)
    return Interleaved(width, ranked, order, place, starts, longest)


def pack_parents(source: Flat, parents: Index, target: Interleaved | None = None) -> Index:
    """Return local parents (a root is its own) as absolute indices, flat or interleaved.

    >>> pack_parents(flat([2, 3]), np.array([0, 0, 0, 0, 1])).tolist()
    [0, 0, 2, 2, 3]
    """
    _check(source, parents)
    owners = source.owners()
    if target is None:
        return source.offsets[owners] + parents
    absolute = target.bases()[target.place[owners]] + target.width * parents
    return target.pack(source, absolute, _NOWHERE)


def _check(source: Flat, values: Values) -> None:
    if values.shape != (source.total,):
        raise FieldError(
            f"Expected {source.total} values, one for each element of the vectors, got an array"
            f" of the shape {values.shape}."
        )
