"""The systems solved with Numba, some neighbouring systems at a time, in all threads.

Every system is solved by itself and with the operations of the reference in their order, so the
result does not depend on how many systems there are or how they are spread over threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.threads import spread
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.cpu_pivoting import (
    pivoted_band_systems,
    pivoted_systems,
)
from halocline_engine.kernels.tridiagonal.cpu_tiles import njit, over_tiles, thread_count, tile_at
from halocline_engine.kernels.tridiagonal.judging import slabs
from halocline_engine.kernels.tridiagonal.pivoting import fold, settled, unfold
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
    "solve",
    "solve_factored",
    "solve_pentadiagonal",
]

#: Systems of a tile where they lie one behind the other: none waits for another's division.
_BEHIND = 4
#: Neighbouring systems that are looked at together; fewer than `_FEW` one by one.
_SEEN, _FEW = 256, 8
#: Elements of a batch that is judged while the code for a larger one would be compiled.
_SMALL = 1 << 20


def solve(*bands: *TridiagonalBands, periodic: bool = False, pivoting: bool = False) -> Solved:
    """Solve a batch."""
    check_bands(bands, periodic=periodic)
    rhs = bands[3]
    if pivoting and periodic:
        band, right = fold(*bands)
        found = unfold(solve_pentadiagonal(*band, right, pivoting=True))
        return settled(found, diagnose(*bands, found, periodic=True))
    found = np.empty(rhs.shape, rhs.dtype)
    arrays = (*(_dense(band) for band in bands), found)
    status = np.zeros((rhs.shape[0], rhs.shape[2]), np.uint8)

    def look(first: int, past: int) -> None:
        _look(arrays, status, periodic, first, past)

    if pivoting:
        over_tiles(pivoted_systems, arrays, rhs, look)
        return settled(found, status)
    if periodic:
        over_tiles(_periodic, arrays, rhs, look)
    elif rhs.shape[2] == 1:
        turned = tuple(array.transpose(2, 1, 0) for array in arrays)
        over_tiles(_thomas, turned, turned[0], look, most=_BEHIND)
    else:
        over_tiles(_thomas, arrays, rhs, look)
    return Solved(found, status)


def factor(lower: Batch, diagonal: Batch, upper: Batch) -> Factored:
    """Eliminate the coefficients; the result serves any number of right-hand sides."""
    check_batch({"lower": lower, "upper": upper}, diagonal)
    low, reciprocal, scaled = (_dense(band).copy() for band in (lower, diagonal, upper))
    over_tiles(_factor, (low, reciprocal, scaled), diagonal)
    return Factored(low, reciprocal, scaled)


def solve_factored(factored: Factored, rhs: Batch) -> Batch:
    """Solve a batch with coefficients that were eliminated before."""
    check_batch({"lower": factored.lower}, rhs, shared=factored.shared)
    dense = _dense(rhs)
    found = np.empty_like(dense)
    bands = (factored.lower, factored.reciprocal, factored.upper)
    kernel = _solve_shared if factored.shared else _solve_each
    over_tiles(kernel, (*(_dense(band) for band in bands), dense, found), rhs)
    return found


def ends(*bands: *TridiagonalBands) -> Batch:
    """Return the equations of the ends of each piece of rows, as the reference does."""
    check_bands(bands)
    rhs = bands[3]
    found = np.empty((6, rhs.shape[0], rhs.shape[2]), rhs.dtype)
    arrays = (*(_dense(band) for band in bands), found)
    over_tiles(_ends, arrays, rhs)
    return found


def solve_pentadiagonal(*bands: *PentadiagonalBands, pivoting: bool = False) -> Batch:
    """Solve a batch of pentadiagonal systems."""
    check_bands(bands)
    rhs = bands[5]
    found = np.empty(rhs.shape, rhs.dtype)
    arrays = (*(_dense(band) for band in bands), found)
    over_tiles(pivoted_band_systems if pivoting else _pentadiagonal, arrays, rhs)
    return found


def diagnose(*solved: *SolvedBands, periodic: bool = False) -> NDArray[np.uint8]:
    """Return the `Status` of each system, indexed [outer, inner]."""
    outer, _, inner = solved[3].shape
    status = np.zeros((outer, inner), np.uint8)
    arrays = tuple(_dense(array) for array in solved)

    def part(first: int, past: int) -> None:
        _look(arrays, status, periodic, first, past)

    spread(outer * inner, thread_count(), part)
    return status


def judge(
    *solved: *SolvedBands, beside: Sequence[Batch] | None, residual: bool
) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
    """Return status, missing and scale of each system, as the reference does."""
    if solved[3].size <= _SMALL:
        return reference.judge(*solved, beside=beside, residual=residual)
    x = solved[4]
    given = (*solved, *(beside or (x[:, -1:], x[:, :1])))
    outer, _, inner = x.shape
    status = np.zeros((outer, inner), np.uint8)
    missing, scale = np.zeros(status.shape), np.zeros(status.shape)
    # Of bands that all systems share, a part at a time is repeated.
    whole = all(array.flags.c_contiguous for array in given)
    for o, i in ((slice(None), slice(None)),) if whole else slabs(solved[3]):
        a, b, c, d, x, *ends = (_dense(array[o, :, i]) for array in given)
        status[o, i] = diagnose(a, b, c, d, x, periodic=beside is not None)
        if residual:
            of_part = (np.zeros_like(missing[o, i]), np.zeros_like(missing[o, i]))
            over_tiles(_misses, (a, b, c, d, x, *ends, beside is None, *of_part), d)
            missing[o, i], scale[o, i] = of_part
    return status, missing, scale


def _look(
    arrays: tuple[Batch, ...], status: NDArray[np.uint8], periodic: bool, first: int, past: int
) -> None:
    """Find the `Status` of some systems, counted through the outer axis, then the inner one."""
    if arrays[0].shape[2] < _FEW:
        _diagnose(*arrays, status, periodic, first, past)
    else:
        _diagnose_beside(*arrays, status, periodic, _SEEN, first, past)


def _dense(array: Batch) -> Batch:
    return np.ascontiguousarray(array)


@njit
def _misses(
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    x: Any,
    before: Any,
    behind: Any,
    apart: bool,
    missing: Any,
    scale: Any,
    width: int,
    first: int,
    past: int,
) -> None:
    """Find the largest |A x - rhs| and |A| |x| + |rhs|, in float64; NaN is larger than all else.

    With `apart`, the first row couples to none before it and the last one to none behind it.
    """
    _, rows, inner = d.shape
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for k in range(rows):
            above = before[o, 0] if k == 0 else x[o, k - 1]
            below = behind[o, 0] if k == rows - 1 else x[o, k + 1]
            is_first, is_last = apart and k == 0, apart and k == rows - 1
            for i in range(start, end):
                left = np.float64(a[o, k, i]) * np.float64(above[i])
                middle = np.float64(b[o, k, i]) * np.float64(x[o, k, i])
                right = np.float64(c[o, k, i]) * np.float64(below[i])
                left = 0.0 if is_first else left
                right = 0.0 if is_last else right
                given = np.float64(d[o, k, i])
                miss = abs(left + middle + right - given)
                size = abs(left) + abs(middle) + abs(right) + abs(given)
                if not miss <= missing[o, i] and missing[o, i] == missing[o, i]:
                    missing[o, i] = miss
                if not size <= scale[o, i] and scale[o, i] == scale[o, i]:
                    scale[o, i] = size


@njit
def _thomas(a: Any, b: Any, c: Any, d: Any, x: Any, width: int, first: int, past: int) -> None:
    _, rows, inner = d.shape
    one = d.dtype.type(1)
    cp = np.empty((rows, width), d.dtype)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        lanes = end - start
        for q in range(lanes):
            i = start + q
            w = one / b[o, 0, i]
            cp[0, q] = c[o, 0, i] * w
            x[o, 0, i] = d[o, 0, i] * w
        for k in range(1, rows):
            for q in range(lanes):
                i = start + q
                w = one / (b[o, k, i] - a[o, k, i] * cp[k - 1, q])
                cp[k, q] = c[o, k, i] * w
                x[o, k, i] = (d[o, k, i] - a[o, k, i] * x[o, k - 1, i]) * w
        for k in range(rows - 2, -1, -1):
            for q in range(lanes):
                i = start + q
                x[o, k, i] = x[o, k, i] - cp[k, q] * x[o, k + 1, i]


@njit
def _periodic(a: Any, b: Any, c: Any, d: Any, x: Any, width: int, first: int, past: int) -> None:
    _, rows, inner = d.shape
    one = d.dtype.type(1)
    last = rows - 1
    cp, z = np.empty((rows, width), d.dtype), np.empty((rows, width), d.dtype)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for q in range(end - start):
            i = start + q
            gamma = -b[o, 0, i] if b[o, 0, i] != 0 else one
            w = one / (b[o, 0, i] - gamma)
            cp[0, q] = c[o, 0, i] * w
            x[o, 0, i] = d[o, 0, i] * w
            z[0, q] = gamma * w
            for k in range(1, last):
                w = one / (b[o, k, i] - a[o, k, i] * cp[k - 1, q])
                cp[k, q] = c[o, k, i] * w
                x[o, k, i] = (d[o, k, i] - a[o, k, i] * x[o, k - 1, i]) * w
                z[k, q] = (-(a[o, k, i] * z[k - 1, q])) * w
            corner = c[o, last, i]
            pivot = b[o, last, i] - corner * a[o, 0, i] / gamma
            w = one / (pivot - a[o, last, i] * cp[last - 1, q])
            x[o, last, i] = (d[o, last, i] - a[o, last, i] * x[o, last - 1, i]) * w
            z[last, q] = (corner - a[o, last, i] * z[last - 1, q]) * w
            for k in range(last - 1, -1, -1):
                x[o, k, i] = x[o, k, i] - cp[k, q] * x[o, k + 1, i]
                z[k, q] = z[k, q] - cp[k, q] * z[k + 1, q]
            share = a[o, 0, i] / gamma
            weight = (x[o, 0, i] + share * x[o, last, i]) / (one + (z[0, q] + share * z[last, q]))
            for k in range(rows):
                x[o, k, i] = x[o, k, i] - weight * z[k, q]


@njit
def _ends(a: Any, b: Any, c: Any, d: Any, e: Any, width: int, first: int, past: int) -> None:
    _, rows, inner = d.shape
    one = d.dtype.type(1)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for i in range(start, end):
            w = one / b[o, 0, i]
            e[3, o, i], e[4, o, i], e[5, o, i] = a[o, 0, i] * w, c[o, 0, i] * w, d[o, 0, i] * w
            e[0, o, i], e[1, o, i], e[2, o, i] = e[3, o, i], e[4, o, i], e[5, o, i]
        for k in range(1, rows):
            for i in range(start, end):
                low = a[o, k, i]
                w = one / (b[o, k, i] - low * e[4, o, i])
                e[3, o, i] = -(low * e[3, o, i]) * w
                e[5, o, i] = (d[o, k, i] - low * e[5, o, i]) * w
                e[4, o, i] = c[o, k, i] * w
                if k < rows - 1:
                    e[2, o, i] = e[2, o, i] - e[1, o, i] * e[5, o, i]
                    e[0, o, i] = e[0, o, i] - e[1, o, i] * e[3, o, i]
                    e[1, o, i] = -(e[1, o, i] * e[4, o, i])


@njit
def _factor(a: Any, b: Any, c: Any, width: int, first: int, past: int) -> None:
    """Replace the bands by what `Factored` holds."""
    _, rows, inner = b.shape
    zero, one = b.dtype.type(0), b.dtype.type(1)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for k in range(rows):
            for i in range(start, end):
                if k == 0:
                    a[o, k, i] = zero
                    b[o, k, i] = one / b[o, k, i]
                else:
                    b[o, k, i] = one / (b[o, k, i] - a[o, k, i] * c[o, k - 1, i])
                c[o, k, i] = c[o, k, i] * b[o, k, i]


@njit
def _solve_each(
    low: Any, w: Any, up: Any, d: Any, x: Any, width: int, first: int, past: int
) -> None:
    _, rows, inner = d.shape
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for i in range(start, end):
            x[o, 0, i] = d[o, 0, i] * w[o, 0, i]
        for k in range(1, rows):
            for i in range(start, end):
                x[o, k, i] = (d[o, k, i] - low[o, k, i] * x[o, k - 1, i]) * w[o, k, i]
        for k in range(rows - 2, -1, -1):
            for i in range(start, end):
                x[o, k, i] = x[o, k, i] - up[o, k, i] * x[o, k + 1, i]


@njit
def _solve_shared(
    low: Any, w: Any, up: Any, d: Any, x: Any, width: int, first: int, past: int
) -> None:
    _, rows, inner = d.shape
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for i in range(start, end):
            x[o, 0, i] = d[o, 0, i] * w[0, 0, 0]
        for k in range(1, rows):
            left, scale = low[0, k, 0], w[0, k, 0]
            for i in range(start, end):
                x[o, k, i] = (d[o, k, i] - left * x[o, k - 1, i]) * scale
        for k in range(rows - 2, -1, -1):
            right = up[0, k, 0]
            for i in range(start, end):
                x[o, k, i] = x[o, k, i] - right * x[o, k + 1, i]


@njit
def _pentadiagonal(
    e: Any, a: Any, b: Any, c: Any, f: Any, d: Any, x: Any, width: int, first: int, past: int
) -> None:
    _, rows, inner = d.shape
    one = d.dtype.type(1)
    near, far = np.empty((rows, width), d.dtype), np.empty((rows, width), d.dtype)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        lanes = end - start
        for k in range(rows):
            for q in range(lanes):
                i = start + q
                left, pivot, value = a[o, k, i], b[o, k, i], d[o, k, i]
                if k > 1:
                    left = left - e[o, k, i] * near[k - 2, q]
                    pivot = pivot - e[o, k, i] * far[k - 2, q]
                    value = value - e[o, k, i] * x[o, k - 2, i]
                right = c[o, k, i]
                if k > 0:
                    pivot = pivot - left * near[k - 1, q]
                    value = value - left * x[o, k - 1, i]
                    right = right - left * far[k - 1, q]
                w = one / pivot
                near[k, q], far[k, q], x[o, k, i] = right * w, f[o, k, i] * w, value * w
        for k in range(rows - 2, -1, -1):
            for q in range(lanes):
                i = start + q
                x[o, k, i] = x[o, k, i] - near[k, q] * x[o, k + 1, i]
                if k + 2 < rows:
                    x[o, k, i] = x[o, k, i] - far[k, q] * x[o, k + 2, i]


@njit
def _diagnose(
    a: Any, b: Any, c: Any, d: Any, x: Any, status: Any, periodic: bool, first: int, past: int
) -> None:
    _, rows, inner = d.shape
    zero = b.dtype.type(0)
    for system in range(first, past):
        o, i = system // inner, system % inner
        found, finite, solved = 0, True, True
        for k in range(rows):
            low = a[o, k, i] if periodic or k > 0 else zero
            high = c[o, k, i] if periodic or k < rows - 1 else zero
            middle = b[o, k, i]
            if middle == 0:
                found |= 1
            if abs(middle) < abs(low) + abs(high):
                found |= 2
            if not np.isfinite(low) or not np.isfinite(high) or not np.isfinite(middle):
                finite = False
            if not np.isfinite(d[o, k, i]):
                finite = False
            if not np.isfinite(x[o, k, i]):
                solved = False
        if not finite:
            found |= 4
        elif not solved:
            found |= 8
        status[o, i] = found


@njit
def _diagnose_beside(
    a: Any,
    b: Any,
    c: Any,
    d: Any,
    x: Any,
    status: Any,
    periodic: bool,
    width: int,
    first: int,
    past: int,
) -> None:
    """Do as `_diagnose`, row by row through neighbouring systems, as they lie in memory.

    A difference of a number and itself is zero if it is finite, and else no number.
    """
    _, rows, inner = d.shape
    zero, one = b.dtype.type(0), b.dtype.type(1)
    seen = np.empty((4, width), b.dtype)
    pivots, weak, given, solved = seen[0], seen[1], seen[2], seen[3]
    system = first
    while system < past:
        o, start = system // inner, system % inner
        lanes = min(width, inner - start, past - system)
        end = start + lanes
        seen[:] = zero
        for k in range(rows):
            above, below = periodic or k > 0, periodic or k < rows - 1
            low_k, middle_k, high_k = a[o, k, start:end], b[o, k, start:end], c[o, k, start:end]
            right_k, found_k = d[o, k, start:end], x[o, k, start:end]
            for q in range(lanes):
                low = low_k[q] if above else zero
                high = high_k[q] if below else zero
                middle, right = middle_k[q], right_k[q]
                pivots[q] += one if middle == 0 else zero
                weak[q] += one if abs(middle) < abs(low) + abs(high) else zero
                given[q] += (low - low) + (high - high) + (middle - middle) + (right - right)
                solved[q] += found_k[q] - found_k[q]
        for q in range(lanes):
            found = (1 if pivots[q] != zero else 0) | (2 if weak[q] != zero else 0)
            if given[q] != zero:
                found |= 4
            elif solved[q] != zero:
                found |= 8
            status[o, start + q] = found
        system += lanes
