"""Pieces of a region, so that reading or writing many chunks can be interrupted.

Libraries take a region of any number of chunks at once: they look at no token meanwhile, and hold
an object for each chunk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.control.interruption import raise_if_interrupted

__all__ = ["CHUNKS_AT_ONCE", "cells_within", "pieces_of", "read_pieces"]

#: Chunks of a piece, at most: a tenth of a second where none of them is stored.
CHUNKS_AT_ONCE = 1024


def pieces_of(
    region: Sequence[slice],
    shape: Sequence[int],
    chunks: Sequence[int],
    most: int = CHUNKS_AT_ONCE,
) -> Iterator[tuple[slice, ...]]:
    """Yield consecutive pieces of a region of at most `most` chunks, which end where chunks end.

    Before each, what interrupts the thread is raised. A region with strides is one piece.

    >>> [rows for rows, _ in pieces_of([slice(1, 9), slice(None)], [9, 4], [2, 4], most=2)]
    [slice(1, 4, None), slice(4, 8, None), slice(8, 9, None)]
    """
    bounds = [part.indices(size) for part, size in zip(region, shape, strict=True)]
    counts = [
        max(1, -(-stop // chunk) - start // chunk)
        for (start, stop, _), chunk in zip(bounds, chunks, strict=True)
    ]
    if math.prod(counts) <= most or any(step != 1 for _, _, step in bounds):
        raise_if_interrupted()
        yield tuple(region)
        return
    along: list[list[slice]] = []
    for (start, stop, _), chunk, count in zip(
        reversed(bounds), reversed(chunks), reversed(counts), strict=True
    ):
        taken = min(count, most)
        most = max(1, most // taken)
        along.append(_cut(start, stop, chunk * taken))
    for piece in itertools.product(*reversed(along)):
        raise_if_interrupted()
        yield piece


def cells_within(piece: Sequence[slice], region: Sequence[slice]) -> tuple[slice, ...]:
    """Return where the cells of a piece lie in an array of its region."""
    starts = [part.start or 0 for part in region]
    return tuple(
        slice(part.start - start, part.stop - start)
        for part, start in zip(piece, starts, strict=True)
    )


def read_pieces(
    region: Sequence[slice],
    shape: Sequence[int],
    chunks: Sequence[int],
    read: Callable[[tuple[slice, ...]], NDArray[Any]],
    most: int = CHUNKS_AT_ONCE,
) -> NDArray[Any]:
    """Return what `read` reads of a region of an array, piece by piece where it has many chunks."""
    whole: NDArray[Any] | None = None
    for piece in pieces_of(region, shape, chunks, most):
        values = read(piece)
        if piece == tuple(region):
            return values
        if whole is None:
            sizes = (len(range(*part.indices(n))) for part, n in zip(region, shape, strict=True))
            whole = np.empty(tuple(sizes), values.dtype)
        whole[cells_within(piece, region)] = values
    assert whole is not None, "a region has at least one piece"
    return whole


def _cut(start: int, stop: int, length: int) -> list[slice]:
    """Cut a range where multiples of `length` lie."""
    ends = [*range((start // length + 1) * length, stop, length), stop]
    return [slice(low, high) for low, high in zip([start, *ends[:-1]], ends, strict=True)]
