"""Transfers on a CUDA device, between arrays that are given by their addresses.

The machine is a CUDA device, or in tests its emulation. Nothing here waits for the device; all is
queued on the current stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from halocline_engine.kernels.indirect.emit import (
    Combination,
    Direct,
    Packed,
    Pipelined,
    Product,
    Scheme,
    SharedIndex,
    Variant,
    Window,
    combination_name,
    emit,
    emit_combination,
    emit_product,
    emit_window,
    kernel_name,
    product_name,
    window_name,
)
from halocline_engine.kernels.indirect.plan import window_elements
from halocline_engine.kernels.indirect.problem import Duplicates, Knowledge, Transfer
from halocline_engine.kernels.machine import Kernels, Library

__all__ = ["Ends", "Movers", "blocks_for", "usual_scheme", "variant_for", "window_for"]

#: The most blocks along y that a launch may have.
_MOST_Y = 65535
#: Words that are counted with 32 bits; what a launch may count beyond the last one is left out.
_NARROW = 2**31 - 2**25
#: Blocks of pipelined transfers, each of which does its share of all tiles.
_PERSISTENT = 1024


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a transfer reads and writes: addresses, sizes in elements, steps in bytes.

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


def usual_scheme(transfer: Transfer, ends: Ends) -> tuple[Scheme, int]:
    """Return the scheme that is used where none is asked for, and the threads of a block.

    Where indices are near, what is read comes in long pieces, and several of them on their way for
    each thread keep memory busy. Where they lie far apart, many threads with one each do.
    """
    size, word = transfer.element_bytes, transfer.alignment
    gather = ends.take != 0 and ends.put == 0
    if gather and ends.near and size == word and word in (4, 8):
        return Packed(2), 128
    if gather and size >= 32 and word == 16 and (ends.near or size >= 256):
        flight = 8 if size == 32 else 4
        return SharedIndex(flight, max(1, flight * 256 * word // size)), 256
    if ends.near:
        return Direct(4 if word >= 4 else 8), 128
    if word >= 4 and size <= 32:
        return Direct(1), 256
    return Direct(2 if size <= 64 and word == 16 else 4 if word >= 8 else 8), 256


def window_for(element_bytes: int, alignment: int) -> Window:
    """Return the windows of a grouped gather: those that leave room for several blocks."""
    return Window(alignment, element_bytes // alignment, window_elements(element_bytes))


def variant_for(
    transfer: Transfer,
    ends: Ends,
    *,
    scheme: Scheme | None = None,
    knowledge: Knowledge = Knowledge.THREADS,
    threads: int = 0,
) -> Variant:
    """Return the kernel for a transfer; what is left out is as usual."""
    usual, usual_threads = usual_scheme(transfer, ends)
    if isinstance(usual, Packed) and knowledge is Knowledge.NOTHING:
        usual = Direct(4)
    most = max(ends.source_elements, ends.target_elements, transfer.elements) * transfer.pieces
    return Variant(
        word=transfer.alignment,
        scheme=scheme or usual,
        take=ends.take != 0,
        put=ends.put != 0,
        index_bits=ends.index_bits,
        wide=most >= _NARROW,
        masked=ends.masked,
        pieces=0 if knowledge is Knowledge.NOTHING else transfer.pieces,
        count=transfer.elements if knowledge is Knowledge.ALL else 0,
        threads=threads or (usual_threads if scheme is None else 256),
        fixed=knowledge in (Knowledge.ALL, Knowledge.THREADS),
    )


def blocks_for(variant: Variant, transfer: Transfer) -> int:
    """Return how many blocks a kernel needs for one member of a batch."""
    total = transfer.elements * transfer.pieces
    match variant.scheme:
        case Direct(flight):
            return -(-total // (flight * variant.threads))
        case SharedIndex(elements=elements):
            return -(-transfer.elements // elements)
        case Packed(flight):
            return -(-transfer.elements // (flight * variant.threads * 16 // variant.word))
        case Pipelined(flight, _, producers):
            return min(-(-total // (32 * producers * flight)), _PERSISTENT)
        case _:
            assert_never(variant.scheme)


class Movers:
    """Kernels of this folder on one machine, compiled when a call needs them first, and kept."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._loaded: dict[Variant | Window | Combination | Product, Kernels] = {}

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
                    np.int32(transfer.pieces),
                    np.int64(transfer.elements),
                ),
            )

    def window(self, window: Window, addresses: Sequence[int], elements: int, windows: int) -> None:
        """Do the first pass of a grouped gather from `elements` elements.

        `addresses` are those of the source, of what stands between, and of `take`, `put` and
        `starts`, see `plan.Grouped`.
        """
        if window not in self._loaded:
            self._loaded[window] = self._library.kernels(emit_window([window]))
        self._loaded[window].launch(
            window_name(window),
            (windows, 1, 1),
            (window.threads, 1, 1),
            (*map(np.uint64, addresses), np.int64(elements)),
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
