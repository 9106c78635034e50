"""Transfers on a CUDA device, between arrays that are given by their addresses.

The machine is a CUDA device, or in tests its emulation. Nothing here waits for the device; all is
queued on the current stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from halocline_engine.kernels.indirect.emit import (
    FIRST_THREADS,
    Combination,
    Passes,
    Product,
    Variant,
    combination_name,
    emit,
    emit_combination,
    emit_passes,
    emit_product,
    kernel_name,
    passes_names,
    product_name,
)
from halocline_engine.kernels.indirect.grouping import Grouped
from halocline_engine.kernels.indirect.problem import Duplicates, Transfer
from halocline_engine.kernels.machine import Kernels, Library

__all__ = ["Ends", "Movers", "blocks_for", "passes_for", "variant_for"]

#: The most blocks along y that a launch may have.
_MOST_Y = 65535
#: Words that are counted with 32 bits; what a launch may count beyond the last one is left out.
_NARROW = 2**31 - 2**25


@dataclass(frozen=True, slots=True)
class Ends:
    """Addresses of a transfer's source and destination, sizes in elements, strides in bytes.

    `take` and `put` are addresses of indices of `index_bits`, or 0: elements are read, or written,
    one after the other there. `masked` says that some are below zero, `near` that successive ones
    lie near each other. `batch` pairs of arrays lie `source_step` and `target_step` apart.
    """

    source: int
    target: int
    source_elements: int
    target_elements: int
    take: int = 0
    put: int = 0
    index_bits: int = 32
    masked: bool = False
    near: bool = False
    batch: int = 1
    source_step: int = 0
    target_step: int = 0


def passes_for(element_bytes: int, alignment: int, room: int) -> Passes:
    """Return the kernels of a grouped gather with `room` elements between the passes."""
    return Passes(
        alignment,
        element_bytes // alignment,
        wide=room >= _NARROW,
        past=alignment == element_bytes and alignment >= 4,
    )


def variant_for(transfer: Transfer, ends: Ends) -> Variant:
    """Return the kernel for a transfer."""
    flight, threads = _flight(transfer, ends)
    most = max(ends.source_elements, ends.target_elements, transfer.elements) * transfer.pieces
    return Variant(
        word=transfer.alignment,
        pieces=transfer.pieces,
        take=ends.take != 0,
        put=ends.put != 0,
        flight=flight,
        index_bits=ends.index_bits,
        wide=most >= _NARROW,
        masked=ends.masked,
        threads=threads,
        kept=transfer.alignment >= 4 and ends.take != 0,
    )


def _flight(transfer: Transfer, ends: Ends) -> tuple[int, int]:
    """Return how many pieces each thread moves, and the threads of a block.

    Where indices are near, several pieces on their way for each thread keep memory busy. Where
    they lie far apart, many threads with one each do, or two of a large element.
    """
    size, word = transfer.element_bytes, transfer.alignment
    gather = ends.take != 0 and ends.put == 0
    if gather and word == 16 and ends.near:
        return 2, 512 if size == word else 128
    if gather and word == 16 and size >= 256:
        return 2, 128
    if gather and word == size == 4 and ends.near:
        return 8, 256
    if ends.near:
        return 4 if word >= 4 else 8, 128
    threads = 512 if gather and word == 16 else 256
    if word >= 4 and size <= 32:
        return 1, threads
    return 2 if size <= 64 and word == 16 else 4 if word >= 8 else 8, threads


def blocks_for(variant: Variant, transfer: Transfer) -> int:
    """Return how many blocks a kernel needs for one member of a batch."""
    return -(-transfer.elements * transfer.pieces // (variant.flight * variant.threads))


class Movers:
    """Kernels of this folder on one machine, compiled when a call needs them first, and kept."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._loaded: dict[Variant | Passes | Combination | Product, Kernels] = {}

    def prepare(self, variants: list[Variant]) -> None:
        """Compile several kernels at once."""
        kernels = self._library.kernels(emit(variants))
        self._loaded.update(dict.fromkeys(variants, kernels))

    def move(self, transfer: Transfer, ends: Ends, variant: Variant | None = None) -> None:
        """Do a transfer; indices are valid, or below zero where the ends are `masked`.

        The arrays do not overlap, and addresses and steps are multiples of the alignment.
        """
        if transfer.elements == 0 or ends.batch == 0:
            return
        chosen = variant or variant_for(transfer, ends)
        if chosen not in self._loaded:
            self.prepare([chosen])
        blocks = blocks_for(chosen, transfer)
        for first in range(0, ends.batch, _MOST_Y):
            self._loaded[chosen].launch(
                kernel_name(chosen),
                (blocks, min(_MOST_Y, ends.batch - first), 1),
                (chosen.threads, 1, 1),
                (
                    np.uint64(ends.source + first * ends.source_step),
                    np.uint64(ends.target + first * ends.target_step),
                    np.uint64(ends.take),
                    np.uint64(ends.put),
                    np.int64(ends.source_step // transfer.alignment),
                    np.int64(ends.target_step // transfer.alignment),
                    np.int64(transfer.elements),
                ),
            )

    def passes(
        self,
        kernels: Passes,
        grouped: Grouped,
        sides: tuple[int, int, int],
        indices: Sequence[int],
        shape: tuple[int, int],
    ) -> None:
        """Do a grouped gather of `shape[1]` elements from `shape[0]`.

        `sides` are the addresses of the source, of what stands between and of the target, `indices`
        those of the arrays of `grouped`, in their order.
        """
        if kernels not in self._loaded:
            self._loaded[kernels] = self._library.kernels(emit_passes([kernels]))
        (source, between, target), (elements, count) = sides, shape
        take, starts, counts, where, place, lists = indices
        first, second = passes_names(kernels)
        size = kernels.word * kernels.pieces
        self._loaded[kernels].launch(
            first,
            (grouped.counts.size, 1, 1),
            (FIRST_THREADS, 1, 1),
            (
                *map(np.uint64, (source, between, take, starts, counts)),
                np.int64(elements),
                np.int32(grouped.window),
            ),
            shared=min(grouped.window, elements) * size,
        )
        self._loaded[kernels].launch(
            second,
            (grouped.lists.size - 1, 1, 1),
            (kernels.threads, 1, 1),
            (
                *map(np.uint64, (between, target, where, place, lists)),
                np.int64(count),
                np.int32(grouped.tile),
            ),
            shared=min(grouped.tile, count) * size,
        )

    def combine(
        self,
        kind: Duplicates,
        dtype: np.dtype[np.generic],
        values: int,
        ends: Ends,
        groups: tuple[int, int, int],
        count: int,
    ) -> None:
        """Combine `count` groups of elements of `values` values.

        `groups` are the addresses of their places, starts and order, see `indices.Groups`.
        """
        if count == 0 or ends.batch == 0 or values == 0:
            return
        one = Combination(str(dtype), kind, ends.index_bits)
        if one not in self._loaded:
            self._loaded[one] = self._library.kernels(emit_combination([one]))
        blocks = -(-count * values // one.threads)
        for first in range(0, ends.batch, _MOST_Y):
            self._loaded[one].launch(
                combination_name(one),
                (blocks, min(_MOST_Y, ends.batch - first), 1),
                (one.threads, 1, 1),
                (
                    np.uint64(ends.source + first * ends.source_step),
                    np.uint64(ends.target + first * ends.target_step),
                    *map(np.uint64, groups),
                    np.int64(ends.source_step // dtype.itemsize),
                    np.int64(ends.target_step // dtype.itemsize),
                    np.int64(count),
                    np.int32(values),
                ),
            )

    def product(
        self,
        product: Product,
        addresses: Sequence[int],
        shape: tuple[int, int, int],
        least: float,
    ) -> None:
        """Multiply a matrix with fields of `shape` (rows, cells, batch).

        `addresses` are those of the fields, the result, starts, columns and weights; of a matrix in
        slices, offsets and lengths stand for starts.
        """
        rows, cells, batch = shape
        if rows == 0 or batch == 0:
            return
        if product not in self._loaded:
            self._loaded[product] = self._library.kernels(emit_product([product]))
        field, out, *matrix = addresses
        item = np.dtype(product.value).itemsize
        most = _MOST_Y * product.levels
        for first in range(0, batch, most):
            members = min(most, batch - first)
            self._loaded[product].launch(
                product_name(product),
                (-(-rows // product.threads), -(-members // product.levels), 1),
                (product.threads, 1, 1),
                (
                    np.uint64(field + first * cells * item),
                    np.uint64(out + first * rows * item),
                    *map(np.uint64, matrix),
                    np.int32(rows),
                    np.int64(cells),
                    np.int32(members),
                    np.float64(least),
                ),
            )
