"""The loops that one would write by hand with Numba for the programs of `workloads`.

Parallel over the outermost axis, fused, each temporary no larger than it must be, tiled where
that pays, and every constant in the arrays' own type. Arrays are indexed [k, j, i] and carry the
case's halo; the arguments are those of the program's text, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numba
import numpy as np

__all__ = ["BY_HAND"]

_jit = cast("Callable[[Any], Any]", numba.njit(parallel=True, error_model="numpy"))
_threads = cast("Callable[..., Any]", numba.prange)
#: Rows of a plane that are finished in all planes of a thread before the next rows are begun.
_TILE = 32


@_jit
def _five(u: Any, v: Any, w: Any) -> None:
    plane, out = u[0], v[0]
    nj, ni = out.shape
    w = out.dtype.type(w)
    for j in _threads(1, nj - 1):
        for i in range(1, ni - 1):
            out[j, i] = w * (
                plane[j, i] + plane[j, i - 1] + plane[j, i + 1] + plane[j - 1, i] + plane[j + 1, i]
            )


@_jit
def _seven(u: Any, v: Any, w: Any) -> None:
    nk, nj, ni = v.shape
    w = v.dtype.type(w)
    pieces = numba.get_num_threads()
    for piece in _threads(pieces):
        first = 1 + (nk - 2) * piece // pieces
        last = 1 + (nk - 2) * (piece + 1) // pieces
        for start in range(1, nj - 1, _TILE):
            for k in range(first, last):
                below, here, above, out = u[k - 1], u[k], u[k + 1], v[k]
                for j in range(start, min(start + _TILE, nj - 1)):
                    for i in range(1, ni - 1):
                        flat = here[j, i] + here[j, i - 1] + here[j, i + 1]
                        flat = flat + here[j - 1, i] + here[j + 1, i]
                        out[j, i] = w * (flat + below[j, i] + above[j, i])


@_jit
def _diffusion(inp: Any, coeff: Any, out: Any) -> None:
    nk, nj, ni = out.shape
    zero, four = out.dtype.type(0.0), out.dtype.type(4.0)
    for k in _threads(nk):
        a, c, x = inp[k], coeff[k], out[k]
        lap, up = np.empty(ni, out.dtype), np.empty(ni, out.dtype)
        flx, south = np.empty(ni, out.dtype), np.empty(ni, out.dtype)
        for i in range(1, ni - 1):
            lap[i] = four * a[1, i] - (a[1, i - 1] + a[1, i + 1] + a[0, i] + a[2, i])
            up[i] = four * a[2, i] - (a[2, i - 1] + a[2, i + 1] + a[1, i] + a[3, i])
        for i in range(2, ni - 2):
            flux = up[i] - lap[i]
            south[i] = zero if flux * (a[2, i] - a[1, i]) > zero else flux
        for j in range(2, nj - 2):
            lap, up = up, lap
            for i in range(1, ni - 1):
                up[i] = four * a[j + 1, i] - (
                    a[j + 1, i - 1] + a[j + 1, i + 1] + a[j, i] + a[j + 2, i]
                )
            for i in range(1, ni - 2):
                flux = lap[i + 1] - lap[i]
                flx[i] = zero if flux * (a[j, i + 1] - a[j, i]) > zero else flux
            for i in range(2, ni - 2):
                flux = up[i] - lap[i]
                flux = zero if flux * (a[j + 1, i] - a[j, i]) > zero else flux
                x[j, i] = a[j, i] - c[j, i] * (flx[i] - flx[i - 1] + flux - south[i])
                south[i] = flux


@_jit
def _advection(
    utens_stage: Any, u_stage: Any, wcon: Any, u_pos: Any, utens: Any, out: Any, dtr: Any
) -> None:
    nk, nj, width = out.shape
    ni = width - 2
    kind = out.dtype.type
    dtr, one, half, quarter = kind(dtr), kind(1.0), kind(0.5), kind(0.25)
    for j in _threads(nj):
        ccol, dcol = np.empty((nk, ni), out.dtype), np.empty((nk, ni), out.dtype)
        w, u = wcon[:, j, 1:], u_stage[:, j, 1:]
        stage, pos, tens = utens_stage[:, j, 1:], u_pos[:, j, 1:], utens[:, j, 1:]
        new = out[:, j, 1:]
        for i in range(ni):
            gcv = quarter * (w[1, i + 1] + w[1, i])
            cs = gcv * half
            corr = -cs * (u[1, i] - u[0, i])
            divided = one / (dtr - gcv * half)
            ccol[0, i] = gcv * half * divided
            dcol[0, i] = (dtr * pos[0, i] + tens[0, i] + stage[0, i] + corr) * divided
        for k in range(1, nk - 1):
            for i in range(ni):
                gav = -quarter * (w[k, i + 1] + w[k, i])
                gcv = quarter * (w[k + 1, i + 1] + w[k + 1, i])
                a, c = gav * half, gcv * half
                corr = -a * (u[k - 1, i] - u[k, i]) - c * (u[k + 1, i] - u[k, i])
                d = dtr * pos[k, i] + tens[k, i] + stage[k, i] + corr
                divided = one / (dtr - a - c - ccol[k - 1, i] * a)
                ccol[k, i] = c * divided
                dcol[k, i] = (d - dcol[k - 1, i] * a) * divided
        k = nk - 1
        for i in range(ni):
            a = -quarter * (w[k, i + 1] + w[k, i]) * half
            corr = -a * (u[k - 1, i] - u[k, i])
            d = dtr * pos[k, i] + tens[k, i] + stage[k, i] + corr
            divided = one / (dtr - a - ccol[k - 1, i] * a)
            dcol[k, i] = (d - dcol[k - 1, i] * a) * divided
            new[k, i] = dtr * (dcol[k, i] - pos[k, i])
        for k in range(nk - 2, -1, -1):
            for i in range(ni):
                dcol[k, i] = dcol[k, i] - ccol[k, i] * dcol[k + 1, i]
                new[k, i] = dtr * (dcol[k, i] - pos[k, i])


@_jit
def _tridiagonal(a: Any, b: Any, c: Any, d: Any, x: Any) -> None:
    nk, nj, ni = x.shape
    one = x.dtype.type(1.0)
    for j in _threads(nj):
        above = np.empty((nk, ni), x.dtype)
        for i in range(ni):
            above[0, i] = c[0, j, i] / b[0, j, i]
            x[0, j, i] = d[0, j, i] / b[0, j, i]
        for k in range(1, nk):
            for i in range(ni):
                scale = one / (b[k, j, i] - above[k - 1, i] * a[k, j, i])
                above[k, i] = c[k, j, i] * scale
                x[k, j, i] = (d[k, j, i] - a[k, j, i] * x[k - 1, j, i]) * scale
        for k in range(nk - 2, -1, -1):
            for i in range(ni):
                x[k, j, i] = x[k, j, i] - above[k, i] * x[k + 1, j, i]


BY_HAND: Mapping[str, Callable[..., None]] = {
    "2d5pt": _five,
    "3d7pt": _seven,
    "horizontal diffusion": _diffusion,
    "vertical advection": _advection,
    "tridiagonal": _tridiagonal,
}
