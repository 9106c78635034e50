"""Residuals of banded systems of any bandwidth, a few systems at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal.problem import Batch

__all__ = ["judge_band", "slabs"]

# Elements that are looked at together, so that what is made meanwhile is small.
_AT_ONCE = 1 << 18


def slabs(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Yield slices of outer and inner that cover a batch [outer, row, inner], each a small part.

    >>> list(slabs((3, 1 << 18, 2)))[:2]
    [(slice(0, 1, None), slice(0, 1, None)), (slice(0, 1, None), slice(1, 2, None))]
    """
    outer, rows, inner = shape
    width = max(1, min(inner, _AT_ONCE // rows))
    depth = max(1, _AT_ONCE // (rows * width))
    for o in range(0, outer, depth):
        for i in range(0, inner, width):
            yield slice(o, o + depth), slice(i, i + width)


def judge_band(
    bands: Sequence[Batch], rhs: Batch, solution: Batch
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the `Status` and the backward error of each system, indexed [outer, inner].

    `bands` are those of a square matrix from the lowest to the highest, as many below the diagonal
    as above it. Elements that would lie outside of the matrix are not read.
    """
    status = np.empty((rhs.shape[0], rhs.shape[2]), np.uint8)
    error = np.empty(status.shape)
    for o, i in slabs(rhs.shape):
        at = (o, slice(None), i)
        found = _judge([band[at] for band in bands], rhs[at], solution[at])
        status[o, i], error[o, i] = found
    return status, error


def _judge(
    bands: Sequence[Batch], rhs: Batch, solution: Batch
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    reach, rows = len(bands) // 2, rhs.shape[1]
    finite = np.isfinite(rhs)
    others = np.zeros_like(rhs)
    missing = -rhs.astype(np.float64)
    scale = np.abs(missing)
    with np.errstate(all="ignore"):
        for offset, band in zip(range(-reach, reach + 1), bands, strict=True):
            own = slice(max(0, -offset), max(0, rows - max(0, offset)))
            there = slice(max(0, offset), max(0, rows + min(0, offset)))
            part = band[:, own]
            finite[:, own] &= np.isfinite(part)
            if offset:
                others[:, own] += np.abs(part)
            term = part.astype(np.float64) * solution[:, there]
            missing[:, own] += term
            scale[:, own] += np.abs(term)
        diagonal = bands[reach]
        weak = np.abs(diagonal) < others
        missing, scale = np.abs(missing).max(axis=1), scale.max(axis=1)
        error = np.where(missing == 0, 0.0, missing / scale)
    fine = finite.all(axis=1)
    failed = fine & ~np.isfinite(solution).all(axis=1)
    status = np.where((diagonal == 0).any(axis=1), Status.ZERO_DIAGONAL.value, 0)
    status |= np.where(weak.any(axis=1), Status.NOT_DOMINANT.value, 0)
    status |= np.where(fine, 0, Status.NOT_FINITE.value)
    status |= np.where(failed, Status.FAILED.value, 0)
    return status.astype(np.uint8), error
