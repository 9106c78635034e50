"""Memory layout of an array: strides, padding, alignment.

A layout has one entry for each dimension; the larger the entry, the smaller the stride. The
dimension with the largest entry has stride 1, and an entry of -1 masks a dimension: its stride is
0 and it counts as one element long. With (2, 1, 0) an array indexed [i, j, k] has its points along
I side by side, then its rows along J, then its planes along K.

Sizes, strides and alignments are in elements, if not said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from halocline_engine.errors import InternalError

__all__ = ["DEVICE_ALIGNMENT", "DEVICE_LAYOUT", "StorageInfo", "alignment_unit", "stride_kinds"]

#: Rows along I, then J, then K: threads with neighbouring I read neighbouring addresses.
DEVICE_LAYOUT = (2, 1, 0)
#: Bytes: the size of a cache line of the device.
DEVICE_ALIGNMENT = 128


def alignment_unit(itemsize: int, byte_alignment: int) -> int:
    """Return how many elements of `itemsize` bytes make every such step keep the alignment.

    >>> alignment_unit(8, 128), alignment_unit(1, 128), alignment_unit(8, 1)
    (16, 128, 1)
    """
    return byte_alignment // math.gcd(itemsize, byte_alignment)


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """Sizes, strides and the first non-halo point of a padded array.

    Where at least two dimensions are not masked, the one with stride 1 is padded to a multiple of
    `alignment`, so that every row begins with the same alignment as the first; a base address
    shifted by `shift` then aligns the first non-halo point of every row.

    >>> StorageInfo(dims=(3, 4, 5), layout=(2, 0, 1), alignment=32).strides
    (1, 160, 32)
    """

    dims: tuple[int, ...]
    layout: tuple[int, ...]
    alignment: int = 1
    halo: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse layouts that are not a permutation, and sizes below zero."""
        ranks = sorted(rank for rank in self.layout if rank >= 0)
        masks = [rank for rank in self.layout if rank < -1]
        if len(self.layout) != len(self.dims) or ranks != list(range(len(ranks))) or masks:
            raise InternalError(
                f"Invalid layout '{self.layout}' of {len(self.dims)} dimensions: expected the"
                " numbers from 0 up, each once, and -1 for masked dimensions."
            )
        if self.halo and len(self.halo) != len(self.dims):
            raise InternalError(
                f"Invalid halo '{self.halo}': expected {len(self.dims)} numbers,"
                f" got {len(self.halo)}."
            )
        if self.alignment < 1 or min((*self.dims, *self.halo), default=0) < 0:
            raise InternalError(
                "Invalid storage: expected an alignment of at least 1 and no negative sizes, got"
                f" alignment {self.alignment}, sizes {self.dims} and halo {self.halo}."
            )

    @property
    def padded(self) -> tuple[int, ...]:
        """The size of each dimension in memory; masked dimensions are one element long."""
        top = max(self.layout, default=-1)
        sizes = [1 if rank < 0 else size for size, rank in zip(self.dims, self.layout, strict=True)]
        if top > 0:
            unit = self.layout.index(top)
            sizes[unit] = -(-sizes[unit] // self.alignment) * self.alignment
        return tuple(sizes)

    @property
    def strides(self) -> tuple[int, ...]:
        """The step of each dimension; 0 where it is masked."""
        padded = self.padded
        strides = [0] * len(self.dims)
        step = 1
        for rank in range(max(self.layout, default=-1), -1, -1):
            dimension = self.layout.index(rank)
            strides[dimension] = step
            step *= padded[dimension]
        return tuple(strides)

    def index(self, indices: Sequence[int]) -> int:
        """Return where an element stands, counted from the element of index zero."""
        return sum(index * stride for index, stride in zip(indices, self.strides, strict=True))

    @property
    def length(self) -> int:
        """Number of elements from the first to the last one, without padding behind it."""
        if 0 in self.dims:
            return 0
        return self.index([size - 1 for size in self.dims]) + 1

    @property
    def offset(self) -> int:
        """Position of the first point that is no halo."""
        return self.index(self.halo) if self.halo else 0

    @property
    def allocation(self) -> int:
        """Number of elements to allocate so that the base can be moved to any alignment."""
        return self.length + self.alignment

    def shift(self, address: int, itemsize: int, byte_alignment: int) -> int:
        """Return by how many bytes to move the base from `address`.

        The first non-halo point then has an address that is a multiple of `byte_alignment`.
        """
        return -(address + self.offset * itemsize) % byte_alignment


def stride_kinds(layouts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return a number for each array; arrays with equal strides get the same number.

    Numbers count up by first appearance, so strides are passed once for each number.

    >>> stride_kinds([(1, 8, 64), (1, 16, 64), (1, 8, 64)])
    (0, 1, 0)
    """
    known: dict[tuple[int, ...], int] = {}
    return tuple(known.setdefault(strides, len(known)) for strides in layouts)
