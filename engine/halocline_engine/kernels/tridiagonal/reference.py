"""The systems solved with NumPy, a row of all systems at a time: the judge of the other targets.

Arrays are indexed as `problem` says. What is undefined (a division by zero) gives infinities and
NaN in the systems concerned, and nowhere else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal.problem import (
    Batch,
    Factored,
    Solved,
    check_batch,
    rows_of_periodic,
)

__all__ = ["diagnose", "factor", "residual", "solve", "solve_factored", "solve_pentadiagonal"]


def solve(
    lower: Batch, diagonal: Batch, upper: Batch, rhs: Batch, *, periodic: bool = False
) -> Solved:
    """Solve a batch."""
    check_batch({"lower": lower, "diagonal": diagonal, "upper": upper}, rhs)
    with np.errstate(all="ignore"):
        if periodic:
            rows_of_periodic(rhs.shape[1])
            found = _periodic(lower, diagonal, upper, rhs)
        else:
            found = solve_factored(factor(lower, diagonal, upper), rhs)
    return Solved(found, diagnose(lower, diagonal, upper, rhs, found, periodic=periodic))


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
    one = rhs.dtype.type(1)
    first = diagonal[:, 0]
    gamma = np.where(first != 0, -first, one)
    corner = upper[:, -1]
    matrix = diagonal.copy()
    matrix[:, 0] = first - gamma
    matrix[:, -1] = diagonal[:, -1] - corner * lower[:, 0] / gamma
    column = np.zeros_like(rhs)
    column[:, 0], column[:, -1] = gamma, corner
    factored = factor(lower, matrix, upper)
    y, z = solve_factored(factored, rhs), solve_factored(factored, column)
    share = lower[:, 0] / gamma
    weight = (y[:, 0] + share * y[:, -1]) / (one + (z[:, 0] + share * z[:, -1]))
    return y - weight[:, None] * z


def solve_pentadiagonal(
    second_lower: Batch,
    lower: Batch,
    diagonal: Batch,
    upper: Batch,
    second_upper: Batch,
    rhs: Batch,
) -> Batch:
    """Solve a batch of pentadiagonal systems."""
    bands = {
        "second_lower": second_lower,
        "lower": lower,
        "diagonal": diagonal,
        "upper": upper,
        "second_upper": second_upper,
    }
    check_batch(bands, rhs)
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


def diagnose(
    lower: Batch,
    diagonal: Batch,
    upper: Batch,
    rhs: Batch,
    solution: Batch,
    *,
    periodic: bool = False,
) -> NDArray[np.uint8]:
    """Return the `Status` of each system, indexed [outer, inner]."""
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


def residual(
    lower: Batch,
    diagonal: Batch,
    upper: Batch,
    rhs: Batch,
    solution: Batch,
    *,
    periodic: bool = False,
) -> NDArray[np.float64]:
    """Return how far each solution is from solving its system, indexed [outer, inner].

    It is the largest |A x - rhs| of a row over the largest |A| |x| + |rhs|: about the rounding unit
    where all is well. Computed in float64.
    """
    low, high = _used(lower, upper, periodic=periodic)
    middle, x, right = (array.astype(np.float64) for array in (diagonal, solution, rhs))
    before, behind = np.roll(x, 1, axis=1), np.roll(x, -1, axis=1)
    low, high = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(all="ignore"):
        terms = low * before, middle * x, high * behind
        missing = np.abs(terms[0] + terms[1] + terms[2] - right).max(axis=1)
        scale = (sum(np.abs(term) for term in terms) + np.abs(right)).max(axis=1)
        return np.where(missing == 0, 0.0, missing / scale)


def _used(lower: Batch, upper: Batch, *, periodic: bool) -> tuple[Batch, Batch]:
    """Return both bands with zeros where they are not looked at."""
    if periodic:
        return lower, upper
    low, high = lower.copy(), upper.copy()
    low[:, 0] = 0
    high[:, -1] = 0
    return low, high
