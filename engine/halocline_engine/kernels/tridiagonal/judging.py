"""Residuals of banded systems of any bandwidth, a few systems at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import of_device
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal.problem import Batch

__all__ = ["judge_band", "slabs"]

# Elements that are looked at together, so that what is made meanwhile is small; on a device as many
# as keep it busy.
_AT_ONCE, _AT_ONCE_ON_DEVICE = 1 << 18, 1 << 22


def slabs(batch: Batch) -> Iterator[tuple[slice, slice]]:
    """Yield slices of outer and inner that cover a batch [outer, row, inner], each a small part.

    >>> list(slabs(np.empty((3, 1 << 18, 2))))[:2]
    [(slice(0, 1, None), slice(0, 1, None)), (slice(0, 1, None), slice(1, 2, None))]
    """
    outer, rows, inner = batch.shape
    most = _AT_ONCE_ON_DEVICE if of_device(batch) else _AT_ONCE
    width = max(1, min(inner, most // rows))
    depth = max(1, most // (rows * width))
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
    of_systems = (rhs.shape[0], rhs.shape[2])
    status = np.empty_like(rhs, np.uint8, shape=of_systems)
    error = np.empty_like(rhs, np.float64, shape=of_systems)
    for o, i in slabs(rhs):
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
