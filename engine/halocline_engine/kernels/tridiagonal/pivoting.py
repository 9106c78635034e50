"""Elimination with partial pivoting, with NumPy: the judge of the other targets.

Where an element below the pivot is larger, its row goes first. A row that went first reaches one
column farther, so a tridiagonal matrix has one more superdiagonal while it is eliminated (as in
LAPACK's `gtsv`), and a pentadiagonal one has two more (as in `gbsv`). With the row that goes first
written (p, q, r | y) and the other one (a, b, c | d)::

    w = 1 / p;   m = a w;   store q w, r w, y w;   (b - m q, c - m r | d - m y) goes on

The unknowns of a periodic system are taken from both ends in turn, 0, n-1, 1, n-2, ..., which makes
its matrix pentadiagonal without corners. Sherman and Morrison's formula would not do: the matrix
without corners may be singular when the whole is not.

A matrix is singular in this arithmetic if all elements to choose from are zero: then the solution
is not finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal.problem import Batch, Solved

__all__ = ["fold", "pivoted", "pivoted_band", "settled", "unfold"]


def pivoted(lower: Batch, diagonal: Batch, upper: Batch, rhs: Batch) -> Batch:
    """Return the solutions of tridiagonal systems."""
    one, rows = rhs.dtype.type(1), rhs.shape[1]
    near, far, found = np.empty_like(rhs), np.empty_like(rhs), np.empty_like(rhs)
    nothing = np.zeros_like(rhs[:, 0])
    p, q, y = diagonal[:, 0], upper[:, 0], rhs[:, 0]
    with np.errstate(all="ignore"):
        for i in range(rows - 1):
            a, b, d = lower[:, i + 1], diagonal[:, i + 1], rhs[:, i + 1]
            c = upper[:, i + 1] if i + 2 < rows else nothing
            swap = np.abs(a) > np.abs(p)
            w = one / np.where(swap, a, p)
            m = np.where(swap, p, a) * w
            first, second, value = (np.where(swap, x, z) for x, z in ((b, q), (c, nothing), (d, y)))
            near[:, i], far[:, i], found[:, i] = first * w, second * w, value * w
            p = np.where(swap, q, b) - m * first
            q = np.where(swap, nothing, c) - m * second
            y = np.where(swap, y, d) - m * value
        found[:, -1] = y * (one / p)
        for i in range(rows - 2, -1, -1):
            found[:, i] -= near[:, i] * found[:, i + 1]
            if i + 2 < rows:
                found[:, i] -= far[:, i] * found[:, i + 2]
    return found


def pivoted_band(bands: tuple[Batch, Batch, Batch, Batch, Batch], rhs: Batch) -> Batch:
    """Return the solutions of pentadiagonal systems; `bands` are from the lowest to the highest."""
    one, rows = rhs.dtype.type(1), rhs.shape[1]
    stored, found = np.empty((4, *rhs.shape), rhs.dtype), np.empty_like(rhs)
    nothing = np.zeros_like(rhs[:, 0])

    def row(i: int, first: int) -> list[NDArray[np.floating]]:
        """Return five columns of a row from the column `first` on, and its right-hand side."""
        if i >= rows:
            return [nothing] * 6
        held = range(max(0, i - 2), min(rows, i + 3))
        columns = [
            bands[column - i + 2][:, i] if column in held and abs(column - i) < 3 else nothing
            for column in range(first, first + 5)
        ]
        return [*columns, rhs[:, i]]

    top, middle = row(0, 0), row(1, 0)
    with np.errstate(all="ignore"):
        for i in range(rows):
            low = row(i + 2, i)
            for other in (middle, low):
                swap = np.abs(other[0]) > np.abs(top[0])
                for k in range(6):
                    above, below = top[k], other[k]
                    top[k], other[k] = np.where(swap, below, above), np.where(swap, above, below)
            w = one / top[0]
            for k in range(4):
                stored[k, :, i] = top[k + 1] * w
            found[:, i] = top[5] * w
            rest: list[list[NDArray[np.floating]]] = []
            for other in (middle, low):
                m = other[0] * w
                left = [other[k] - m * top[k] for k in (1, 2, 3, 4, 5)]
                rest.append([*left[:4], nothing, left[4]])
            top, middle = rest
        for i in range(rows - 2, -1, -1):
            for k in range(min(4, rows - 1 - i)):
                found[:, i] -= stored[k, :, i] * found[:, i + 1 + k]
    return found


def settled(solution: Batch, status: NDArray[np.uint8]) -> Solved:
    """Return a solution with what is still wrong after pivoting; a small diagonal is not."""
    wrong = Status.NOT_FINITE.value | Status.FAILED.value
    return Solved(solution, status & np.uint8(wrong))


def fold(
    lower: Batch, diagonal: Batch, upper: Batch, rhs: Batch
) -> tuple[tuple[Batch, Batch, Batch, Batch, Batch], Batch]:
    """Return periodic systems as pentadiagonal ones, and their right-hand sides."""
    order = _order(rhs.shape[1])
    rows = rhs.shape[1]
    place = np.empty(rows, np.int64)
    place[order] = np.arange(rows)
    folded = np.zeros((5, *rhs.shape), rhs.dtype)
    folded[2] = diagonal[:, order]
    for at, row in enumerate(order.tolist()):
        folded[2 + place[(row - 1) % rows] - at, :, at] = lower[:, row]
        folded[2 + place[(row + 1) % rows] - at, :, at] = upper[:, row]
    return (folded[0], folded[1], folded[2], folded[3], folded[4]), rhs[:, order]


def unfold(solution: Batch) -> Batch:
    """Return solutions of folded systems in the order of the rows."""
    found = np.empty_like(solution)
    found[:, _order(solution.shape[1])] = solution
    return found


def _order(rows: int) -> NDArray[np.int64]:
    """Return the rows from both ends in turn.

    >>> _order(5).tolist()
    [0, 4, 1, 3, 2]
    """
    order = np.empty(rows, np.int64)
    order[::2] = np.arange(-(-rows // 2))
    order[1::2] = rows - 1 - np.arange(rows // 2)
    return order
