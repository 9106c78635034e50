"""Cost of reading a block: chunks are decoded whole, however little is needed.

A chunk that is read takes the bytes of its file and those of its values, until what is wanted of it
is copied. Of Zarr as many are on their way at once as it asks for; HDF5 decodes one after the
other; what Dask computes is all there before it is put together. One variable of a block is read
after the other, so that a block takes what the dearest of them does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halocline_engine.datasets.stores.source import Opened, array_in

__all__ = ["IN_FLIGHT", "Chunked", "Reading", "chunked", "decoding_bytes", "reading_of"]

#: As many chunks of a read are decoded at once as Zarr has requests under way.
IN_FLIGHT = 10
#: A chunk takes the bytes of its file, which may be as many as those of its values, and these.
_COPIES = 2


def decoding_bytes(touched: int, chunk: int, at_once: int = IN_FLIGHT) -> int:
    """Return what reading so many chunks takes, beside the values that are wanted of them."""
    return min(touched, at_once) * _COPIES * chunk


@dataclass(frozen=True, slots=True)
class Chunked:
    """Storage of a variable: dimensions, sizes, chunks, and the parts of each to be fetched.

    `pieces` are the chunks within a shard, of which only those that are wanted are fetched; without
    shards they are the chunks. `at_once` of these are decoded at once, or all that are wanted where
    it is None.
    """

    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    pieces: tuple[int, ...]
    itemsize: int
    at_once: int | None

    def bytes(self, block: Mapping[str, int]) -> int:
        """Return what reading a block of these sizes takes, beside its values."""
        if not self.chunks:
            return 0
        touched, unit = 1, self.itemsize
        for dim, size, chunk, piece in zip(
            self.dims, self.sizes, self.chunks, self.pieces, strict=True
        ):
            extent = min(size, block.get(dim, size))
            touched *= _touched(extent, size, chunk)
            unit *= min(chunk, size, piece * _touched(extent, size, piece))
        if self.at_once is None:
            return (touched + 1) * unit
        return decoding_bytes(touched, unit, self.at_once)


@dataclass(frozen=True, slots=True)
class Reading:
    """The variables that a block reads, one after the other."""

    variables: tuple[Chunked, ...] = ()

    def bytes(self, block: Mapping[str, int]) -> int:
        """Return what reading a block takes at once; dimensions that it does not name are whole."""
        return max((one.bytes(block) for one in self.variables), default=0)


def reading_of(opened: Opened, names: Iterable[str]) -> Reading:
    """Return what is read of some variables."""
    return Reading(tuple(chunked(opened, name) for name in dict.fromkeys(names)))


def chunked(opened: Opened, name: str) -> Chunked:
    """Return how a variable is stored; without chunks where it is in memory, or has none."""
    array = opened.dataset[name]
    encoding: Mapping[str, Any] = array.encoding
    dims, sizes = tuple(str(dim) for dim in array.dims), tuple(map(int, array.shape))
    pieces: Sequence[int] = encoding.get("chunks") or encoding.get("chunksizes") or ()
    chunks: Sequence[int] = encoding.get("shards") or pieces
    at_once: int | None = 1 if encoding.get("chunksizes") else IN_FLIGHT
    if array.chunks is not None:
        chunks = pieces = [max(parts) for parts in array.chunks]
        at_once = None
    elif len(chunks) != len(dims) or array_in(opened.source, name) is not None:
        chunks = pieces = ()
    return Chunked(dims, sizes, tuple(chunks), tuple(pieces), int(array.dtype.itemsize), at_once)


def _touched(extent: int, size: int, chunk: int) -> int:
    """Return how many chunks a part of a dimension may touch, wherever it begins.

    >>> _touched(10, 100, 10), _touched(11, 100, 10), _touched(100, 100, 30)
    (1, 3, 4)
    """
    whole = math.ceil(size / chunk) if size else 0
    return min(whole, math.ceil(extent / chunk) + (1 if extent % chunk else 0))
