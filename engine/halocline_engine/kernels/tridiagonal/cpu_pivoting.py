"""Elimination with partial pivoting with Numba: the operations of `pivoting` in their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from halocline_engine.kernels.tridiagonal.cpu_tiles import njit, tile_at

__all__ = ["pivoted_band_systems", "pivoted_systems"]


@njit
def pivoted_systems(
    a: Any, b: Any, c: Any, d: Any, x: Any, width: int, first: int, past: int
) -> None:
    """Solve tridiagonal systems, tiles of `width` neighbours from `first` to `past`."""
    _, rows, inner = d.shape
    zero, one = d.dtype.type(0), d.dtype.type(1)
    near, far = np.empty(rows, d.dtype), np.empty(rows, d.dtype)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for i in range(start, end):
            p, q, y = b[o, 0, i], c[o, 0, i], d[o, 0, i]
            for k in range(rows - 1):
                low, middle, value = a[o, k + 1, i], b[o, k + 1, i], d[o, k + 1, i]
                high = c[o, k + 1, i] if k + 2 < rows else zero
                if abs(low) > abs(p):
                    w = one / low
                    m = p * w
                    near[k], far[k], x[o, k, i] = middle * w, high * w, value * w
                    p, q, y = q - m * middle, zero - m * high, y - m * value
                else:
                    w = one / p
                    m = low * w
                    near[k], far[k], x[o, k, i] = q * w, zero * w, y * w
                    p, q, y = middle - m * q, high - m * zero, value - m * y
            x[o, rows - 1, i] = y * (one / p)
            for k in range(rows - 2, -1, -1):
                x[o, k, i] = x[o, k, i] - near[k] * x[o, k + 1, i]
                if k + 2 < rows:
                    x[o, k, i] = x[o, k, i] - far[k] * x[o, k + 2, i]


@njit
def pivoted_band_systems(
    e: Any, a: Any, b: Any, c: Any, f: Any, d: Any, x: Any, width: int, first: int, past: int
) -> None:
    """Solve pentadiagonal systems, tiles of `width` neighbours from `first` to `past`."""
    _, rows, inner = d.shape
    one = d.dtype.type(1)
    stored, held = np.empty((4, rows), d.dtype), np.empty((3, 6), d.dtype)
    for tile in range(first, past):
        o, start, end = tile_at(tile, inner, width)
        for i in range(start, end):
            _read_row(e, a, b, c, f, d, o, 0, 0, i, held, 0)
            _read_row(e, a, b, c, f, d, o, 1, 0, i, held, 1)
            for k in range(rows):
                _read_row(e, a, b, c, f, d, o, k + 2, k, i, held, 2)
                for other in (1, 2):
                    if abs(held[other, 0]) > abs(held[0, 0]):
                        for at in range(6):
                            above = held[0, at]
                            held[0, at] = held[other, at]
                            held[other, at] = above
                w = one / held[0, 0]
                for at in range(4):
                    stored[at, k] = held[0, at + 1] * w
                x[o, k, i] = held[0, 5] * w
                for other in (1, 2):
                    m = held[other, 0] * w
                    for at in range(4):
                        held[other, at] = held[other, at + 1] - m * held[0, at + 1]
                    held[other, 4] = 0
                    held[other, 5] = held[other, 5] - m * held[0, 5]
                for at in range(6):
                    held[0, at] = held[1, at]
                    held[1, at] = held[2, at]
            for k in range(rows - 2, -1, -1):
                for at in range(min(4, rows - 1 - k)):
                    x[o, k, i] = x[o, k, i] - stored[at, k] * x[o, k + 1 + at, i]


@njit
def _read_row(
    e: Any,
    a: Any,
    b: Any,
    c: Any,
    f: Any,
    d: Any,
    o: int,
    row: int,
    first: int,
    i: int,
    held: Any,
    into: int,
) -> None:
    """Read five columns of a row from the column `first` on, and its right-hand side."""
    rows = d.shape[1]
    for column in range(6):
        held[into, column] = 0
    if row >= rows:
        return
    at = row - first
    if row > 1:
        held[into, at - 2] = e[o, row, i]
    if row > 0:
        held[into, at - 1] = a[o, row, i]
    held[into, at] = b[o, row, i]
    if row + 1 < rows:
        held[into, at + 1] = c[o, row, i]
    if row + 2 < rows:
        held[into, at + 2] = f[o, row, i]
    held[into, 5] = d[o, row, i]
