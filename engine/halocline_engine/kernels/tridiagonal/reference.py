"""The systems solved with NumPy, a row of all systems at a time: the judge of the other targets.

Arrays are indexed as `problem` says. What is undefined (a division by zero) gives infinities and
NaN in the systems concerned, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import copying_threads, in_threads, of_device
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal.judging import slabs
from halocline_engine.kernels.tridiagonal.pivoting import (
    fold,
    pivoted,
    pivoted_band,
    settled,
    unfold,
)
from halocline_engine.kernels.tridiagonal.problem import (
    Batch,
    Factored,
    PentadiagonalBands,
    Solved,
    SolvedBands,
    TridiagonalBands,
    check_bands,
    check_batch,
)

__all__ = [
    "diagnose",
    "ends",
    "factor",
    "judge",
    "misses",
    "residual",
    "solve",
    "solve_factored",
    "solve_pentadiagonal",
    "with_corners",
    "without_corners",
]


def solve(*bands: *TridiagonalBands, periodic: bool = False, pivoting: bool = False) -> Solved:
    """Solve a batch."""
    check_bands(bands, periodic=periodic)
    with np.errstate(all="ignore"):
        if pivoting and periodic:
            found = unfold(pivoted_band(*fold(*bands)))
        elif pivoting:
            found = pivoted(*bands)
        elif periodic:
            found = _periodic(*bands)
        else:
            found = solve_factored(factor(*bands[:3]), bands[3])
    status = diagnose(*bands, found, periodic=periodic)
    return settled(found, status) if pivoting else Solved(found, status)


def factor(lower: Batch, diagonal: Batch, upper: Batch) -> Factored:
    """Eliminate the coefficients; the result serves any number of right-hand sides."""
    check_batch({"lower": lower, "upper": upper}, diagonal)
    one = diagonal.dtype.type(1)
    low = lower.copy()
    low[:, 0] = 0
    reciprocal, scaled = np.empty_like(diagonal), np.empty_like(diagonal)
    with np.errstate(all="ignore"):
        for i in range(diagonal.shape[1]):
            pivot = diagonal[:, i] - low[:, i] * scaled[:, i - 1] if i else diagonal[:, i]
            reciprocal[:, i] = one / pivot
            scaled[:, i] = upper[:, i] * reciprocal[:, i]
    return Factored(low, reciprocal, scaled)


def solve_factored(factored: Factored, rhs: Batch) -> Batch:
    """Solve a batch with coefficients that were eliminated before."""
    check_batch({"lower": factored.lower}, rhs, shared=factored.shared)
    low, reciprocal, scaled = factored.lower, factored.reciprocal, factored.upper
    found = np.empty_like(rhs)
    rows = rhs.shape[1]
    with np.errstate(all="ignore"):
        found[:, 0] = rhs[:, 0] * reciprocal[:, 0]
        for i in range(1, rows):
            found[:, i] = (rhs[:, i] - low[:, i] * found[:, i - 1]) * reciprocal[:, i]
        for i in range(rows - 2, -1, -1):
            found[:, i] -= scaled[:, i] * found[:, i + 1]
    return found


def _periodic(lower: Batch, diagonal: Batch, upper: Batch, rhs: Batch) -> Batch:
    """Solve by the formula of Sherman and Morrison: a matrix without corners, and one column."""
    matrix, column, share = without_corners(lower, diagonal, upper)
    factored = factor(lower, matrix, upper)
    y, z = solve_factored(factored, rhs), solve_factored(factored, column)
    return with_corners(y, z, share)


def without_corners(lower: Batch, diagonal: Batch, upper: Batch) -> tuple[Batch, Batch, Batch]:
    """Return what Sherman and Morrison's formula needs of a periodic matrix.

    That is the diagonal of the matrix without corners; the column to be solved for as a right-hand
    side; and the share of the last unknown in what the corners add, indexed [outer, inner].
    """
    one = diagonal.dtype.type(1)
    first, corner = diagonal[:, 0], upper[:, -1]
    with np.errstate(all="ignore"):
        gamma = np.where(first != 0, -first, one)
        matrix = diagonal.copy()
        matrix[:, 0] = first - gamma
        matrix[:, -1] = diagonal[:, -1] - corner * lower[:, 0] / gamma
        column = np.zeros_like(diagonal)
        column[:, 0], column[:, -1] = gamma, corner
        return matrix, column, lower[:, 0] / gamma


def with_corners(y: Batch, z: Batch, share: Batch) -> Batch:
    """Return the solution of periodic systems from those of the right-hand side and the column."""
    one = y.dtype.type(1)
    with np.errstate(all="ignore"):
        weight = (y[:, 0] + share * y[:, -1]) / (one + (z[:, 0] + share * z[:, -1]))
        return y - weight[:, None] * z


def ends(*bands: *TridiagonalBands) -> Batch:
    """Return the equations of the ends of each piece of rows, indexed [equation, outer, inner].

    They are e0 to e5 of `pieces`; all elements of the bands couple, and there are two rows or more.
    """
    check_bands(bands)
    lower, diagonal, upper, rhs = bands
    one, rows = rhs.dtype.type(1), rhs.shape[1]
    found = np.empty((6, rhs.shape[0], rhs.shape[2]), rhs.dtype)
    with np.errstate(all="ignore"):
        w = one / diagonal[:, 0]
        left, right, value = (band[:, 0] * w for band in (lower, upper, rhs))
        near, far, first = left, right, value
        for i in range(1, rows):
            low = lower[:, i]
            w = one / (diagonal[:, i] - low * right)
            left = -(low * left) * w
            value = (rhs[:, i] - low * value) * w
            right = upper[:, i] * w
            if i < rows - 1:
                first = first - far * value
                near = near - far * left
                far = -(far * right)
        found[0], found[1], found[2] = near, far, first
        found[3], found[4], found[5] = left, right, value
    return found


def solve_pentadiagonal(*bands: *PentadiagonalBands, pivoting: bool = False) -> Batch:
    """Solve a batch of pentadiagonal systems."""
    check_bands(bands)
    if pivoting:
        return pivoted_band(bands[:5], bands[5])
    second_lower, lower, diagonal, upper, second_upper, rhs = bands
    one, rows = rhs.dtype.type(1), rhs.shape[1]
    near, far, found = np.zeros_like(rhs), np.zeros_like(rhs), np.empty_like(rhs)
    with np.errstate(all="ignore"):
        for i in range(rows):
            left, pivot, value = lower[:, i], diagonal[:, i], rhs[:, i]
            if i > 1:
                left = left - second_lower[:, i] * near[:, i - 2]
                pivot = pivot - second_lower[:, i] * far[:, i - 2]
                value = value - second_lower[:, i] * found[:, i - 2]
            right = upper[:, i]
            if i > 0:
                pivot = pivot - left * near[:, i - 1]
                value = value - left * found[:, i - 1]
                right = right - left * far[:, i - 1]
            w = one / pivot
            near[:, i], far[:, i], found[:, i] = right * w, second_upper[:, i] * w, value * w
        for i in range(rows - 2, -1, -1):
            found[:, i] -= near[:, i] * found[:, i + 1]
            if i + 2 < rows:
                found[:, i] -= far[:, i] * found[:, i + 2]
    return found


def diagnose(*solved: *SolvedBands, periodic: bool = False) -> NDArray[np.uint8]:
    """Return the `Status` of each system, indexed [outer, inner]."""
    lower, diagonal, upper, rhs, solution = solved
    low, high = _used(lower, upper, periodic=periodic)
    with np.errstate(all="ignore"):
        finite = np.isfinite(low) & np.isfinite(diagonal) & np.isfinite(high) & np.isfinite(rhs)
        weak = np.abs(diagonal) < np.abs(low) + np.abs(high)
    fine = finite.all(axis=1)
    status = np.where((diagonal == 0).any(axis=1), Status.ZERO_DIAGONAL.value, 0)
    status |= np.where(weak.any(axis=1), Status.NOT_DOMINANT.value, 0)
    status |= np.where(fine, 0, Status.NOT_FINITE.value)
    failed = fine & ~np.isfinite(solution).all(axis=1)
    status |= np.where(failed, Status.FAILED.value, 0)
    return status.astype(np.uint8)


def judge(
    *solved: *SolvedBands, beside: Sequence[Batch] | None, residual: bool
) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
    """Return status, missing and scale of each system, indexed [outer, inner].

    `beside` are the unknowns before the first row and behind the last one, indexed [outer, 1,
    inner], to which these rows couple; without them, what would couple is not looked at. Without
    `residual`, the last two results are not computed. Threads look at a few systems at a time.
    """
    solution = solved[4]
    of_systems = (solution.shape[0], solution.shape[2])
    status = np.empty_like(solution, np.uint8, shape=of_systems)
    missing = np.zeros_like(solution, np.float64, shape=of_systems)
    scale = np.zeros_like(missing)

    def look(there: tuple[slice, slice]) -> None:
        at = (there[0], slice(None), there[1])
        low, middle, high, right, x = (one[at] for one in solved)
        low, high = _used(low, high, periodic=beside is not None)
        status[there] = diagnose(low, middle, high, right, x, periodic=True)
        if residual:
            before, behind = (one[at] for one in beside) if beside else 2 * (_nothing(x),)
            found = misses(low, middle, high, right, x, (before, behind))
            missing[there], scale[there] = found

    # What a device is told to do comes from one thread.
    threads = 1 if of_device(solution) else copying_threads(1)
    in_threads(look, [*slabs(solution)], threads)
    return status, missing, scale


def _nothing(solution: Batch) -> Batch:
    """Return unknowns beside the rows where nothing couples."""
    return np.zeros_like(solution[:, :1])


def residual(*solved: *SolvedBands, periodic: bool = False) -> NDArray[np.float64]:
    """Return how far each solution is from solving its system, indexed [outer, inner].

    It is the largest |A x - rhs| of a row over the largest |A| |x| + |rhs|: about the rounding unit
    where all is well. Computed in float64.
    """
    lower, diagonal, upper, rhs, solution = solved
    low, high = _used(lower, upper, periodic=periodic)
    beside = (solution[:, -1:], solution[:, :1])
    missing, scale = misses(low, diagonal, high, rhs, solution, beside)
    with np.errstate(all="ignore"):
        return np.where(missing == 0, 0.0, missing / scale)


def misses(
    lower: Batch,
    diagonal: Batch,
    upper: Batch,
    rhs: Batch,
    solution: Batch,
    beside: tuple[Batch, Batch],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest |A x - rhs| and the largest |A| |x| + |rhs| of each system's rows.

    `beside` are the unknowns before the first row and behind the last one, indexed [outer, 1,
    inner]; all elements of the bands couple. Computed in float64, indexed [outer, inner].
    """
    bands = (lower, diagonal, upper, rhs, solution, *beside)
    low, middle, high, right, x, first, last = (band.astype(np.float64) for band in bands)
    before = np.concatenate([first, x[:, :-1]], axis=1)
    behind = np.concatenate([x[:, 1:], last], axis=1)
    with np.errstate(all="ignore"):
        terms = low * before, middle * x, high * behind
        missing = np.abs(terms[0] + terms[1] + terms[2] - right).max(axis=1)
        scale = (sum(np.abs(term) for term in terms) + np.abs(right)).max(axis=1)
    return missing, scale


def _used(lower: Batch, upper: Batch, *, periodic: bool) -> tuple[Batch, Batch]:
    """Return both bands with zeros where they are not looked at."""
    if periodic:
        return lower, upper
    low, high = lower.copy(), upper.copy()
    low[:, 0] = 0
    high[:, -1] = 0
    return low, high
