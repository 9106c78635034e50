"""Matrix products by hand-written kernels on a CUDA device, to compare with cuBLAS.

`Multipliers` has the orders of the seed, in which a thread computes one element and the caches are
left to themselves, and the fast kernel for float32, whose tiles follow each other down columns.
The orders of the seed add up in ascending order with one rounding a term, so all give the same
bits, as do cuts of the fast kernel without slices that have a tile or more for each block. For
smaller products sums of parts of the inner dimension are added, always in the same order for the
same sizes.
Matrices are dense, row by row, and are given by addresses, that of right a multiple of 16 bytes.
Where rows of right are not, most cuts of the fast kernel copy them first to where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from halocline_engine.errors import InternalError
from halocline_engine.kernels.machine import Kernels, Library
from matmul_kernels.cuts import VECTOR, Shares, Variant, padded, shares_of

__all__ = ["ORDERS", "Ends", "Multipliers", "room_bytes"]

#: What the seed compares: elements by rows, by tiles, and down columns.
ORDERS = ("rows", "tiles", "columns")
_ORDERS_FILE = Path(__file__).with_name("orders.cu")
_THREADS = 256
#: The most blocks along the second axis of a launch.
_MOST_ROWS = 65_535
#: Rows of a tile of elements.
_HEIGHT = 32
#: Bytes at the start of the room in which blocks tell each other what is there, one word each.
_FLAGS = 8192


@dataclass(frozen=True, slots=True)
class Ends:
    """Addresses of left [rows, inner], right [inner, columns] and out [rows, columns].

    `room` is that of `room_bytes` for the fast kernel, a multiple of 16 bytes. It has zeros before
    the first product; what a product leaves there is as good for the next.
    """

    left: int
    right: int
    out: int
    rows: int
    columns: int
    inner: int
    room: int = 0


def room_bytes(variant: Variant, rows: int, columns: int, inner: int, multiprocessors: int) -> int:
    """Return the bytes that the fast kernel needs for what blocks leave and for aligned rows.

    >>> cut = Variant(128, 128, 16, 8, 8, 8, 3, 1)
    >>> [room_bytes(cut, 1280, columns, 100, 10) for columns in (128, 125, 256, 129)]
    [8192, 59392, 8192, 60992]
    """
    shares = shares_of(variant, rows, columns, inner, multiprocessors)
    copied = 0 if variant.direct or padded(columns) == columns else inner * padded(columns)
    return _FLAGS + 4 * (_left(variant, shares) + copied)


def _left(variant: Variant, shares: Shares) -> int:
    """Return how many sums blocks may leave for others."""
    return variant.rows * variant.columns * shares.blocks if shares.split else 0


class Multipliers:
    """The kernels of a machine with a number of multiprocessors."""

    def __init__(self, library: Library, multiprocessors: int) -> None:
        self._library = library
        self._multiprocessors = multiprocessors

    def in_order(self, order: str, ends: Ends, dtype: str, width: int) -> None:
        """Queue a product whose elements are computed in an order, in columns of a width."""
        kernels = self._library.file(_ORDERS_FILE, {})
        grid = -(-ends.rows * ends.columns // _THREADS)
        sizes = (ends.rows, ends.columns, ends.inner, width, _HEIGHT)
        arguments = (*_addresses(ends), *(np.int32(size) for size in sizes))
        kernels.launch(f"{order}_{dtype}", (grid, 1, 1), (_THREADS, 1, 1), arguments)

    def multiply(self, ends: Ends, variant: Variant, width: int) -> None:
        """Queue a product in float32 by the fast kernel, in columns of `width` elements."""
        if not ends.room:
            raise InternalError("The fast kernel for products needs room, but there is none.")
        shares = shares_of(variant, ends.rows, ends.columns, ends.inner, self._multiprocessors)
        vector = ends.columns % VECTOR == 0
        kernels = self._library.kernels(variant.source(vector=vector, chained=shares.chained))
        sums = ends.room + _FLAGS
        pitch = ends.columns if variant.direct else padded(ends.columns)
        if pitch != ends.columns and ends.inner:
            ends = _aligned(kernels, ends, pitch, sums + 4 * _left(variant, shares))
        down, across = -(-ends.rows // variant.rows), -(-ends.columns // variant.columns)
        # Bits depend on which tiles are split where sums are added, so not on the width then.
        wide = min(across, max(1, width // variant.columns)) if shares.chained else across
        sizes = (ends.rows, ends.columns, pitch, ends.inner, down, across, wide)
        arguments = (
            *_addresses(ends),
            np.uint64(sums),
            np.uint64(ends.room),
            *(np.int32(size) for size in (*sizes, shares.waves, shares.split)),
        )
        kernels.launch(
            "multiply",
            (shares.blocks, 1, 1),
            (variant.threads, 1, 1),
            arguments,
            variant.shared(vector=vector),
        )


def _aligned(kernels: Kernels, ends: Ends, pitch: int, into: int) -> Ends:
    """Queue the copy of right to where its rows begin at multiples of 16 bytes."""
    grid = (-(-pitch // (VECTOR * _THREADS)), min(ends.inner, _MOST_ROWS), 1)
    sizes = (np.int32(size) for size in (ends.inner, ends.columns, pitch))
    arguments = (np.uint64(ends.right), np.uint64(into), *sizes)
    kernels.launch("pad", grid, (_THREADS, 1, 1), arguments)
    return replace(ends, right=into)


def _addresses(ends: Ends) -> tuple[np.uint64, np.uint64, np.uint64]:
    return np.uint64(ends.left), np.uint64(ends.right), np.uint64(ends.out)
