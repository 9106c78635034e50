"""Stencils to time on the CPU, each with the loops that one would write by hand for Numba."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np
from numba import prange

__all__ = ["CASES", "Case"]

_jit = cast("Callable[[Any], Any]", numba.njit(parallel=True, error_model="numpy"))


@dataclass(frozen=True)
class Case:
    """A program, how many arrays it must read and write, and a hand-written twin.

    The twin takes arrays indexed [k, j, i] in the order of the program's fields, each with `halo`
    cells around the domain along every axis.
    """

    name: str
    text: str
    halo: int
    arrays: int
    by_hand: Callable[..., None]


_range = cast("Callable[..., Any]", prange)


@_jit
def _copy(a: Any, x: Any) -> None:
    nk, nj, ni = x.shape
    for k in _range(nk):
        for j in range(nj):
            for i in range(ni):
                x[k, j, i] = a[k, j, i]


@_jit
def _five(a: Any, x: Any) -> None:
    nk, nj, ni = x.shape
    for k in _range(1, nk - 1):
        for j in range(1, nj - 1):
            for i in range(1, ni - 1):
                x[k, j, i] = (
                    a[k, j, i + 1] + a[k, j, i - 1] + a[k, j + 1, i] + a[k, j - 1, i]
                ) - 4.0 * a[k, j, i]


@_jit
def _seven(a: Any, x: Any) -> None:
    nk, nj, ni = x.shape
    for k in _range(1, nk - 1):
        for j in range(1, nj - 1):
            for i in range(1, ni - 1):
                flat = a[k, j, i + 1] + a[k, j, i - 1] + a[k, j + 1, i] + a[k, j - 1, i]
                x[k, j, i] = (flat + a[k + 1, j, i] + a[k - 1, j, i]) - 6.0 * a[k, j, i]


@_jit
def _diffusion(a: Any, c: Any, x: Any) -> None:
    nk, nj, ni = x.shape
    for k in _range(2, nk - 2):
        lap = np.zeros((nj, ni))
        for j in range(1, nj - 1):
            for i in range(1, ni - 1):
                lap[j, i] = 4.0 * a[k, j, i] - (
                    a[k, j, i + 1] + a[k, j, i - 1] + a[k, j + 1, i] + a[k, j - 1, i]
                )
        for j in range(2, nj - 2):
            for i in range(2, ni - 2):
                east = lap[j, i + 1] - lap[j, i]
                east = 0.0 if east * (a[k, j, i + 1] - a[k, j, i]) > 0.0 else east
                west = lap[j, i] - lap[j, i - 1]
                west = 0.0 if west * (a[k, j, i] - a[k, j, i - 1]) > 0.0 else west
                north = lap[j + 1, i] - lap[j, i]
                north = 0.0 if north * (a[k, j + 1, i] - a[k, j, i]) > 0.0 else north
                south = lap[j, i] - lap[j - 1, i]
                south = 0.0 if south * (a[k, j, i] - a[k, j - 1, i]) > 0.0 else south
                x[k, j, i] = a[k, j, i] - c[k, j, i] * (east - west + north - south)


@_jit
def _tridiagonal(a: Any, b: Any, c: Any, d: Any, x: Any) -> None:
    nk, nj, ni = x.shape
    for j in _range(nj):
        cp = np.empty((nk, ni))
        for i in range(ni):
            cp[0, i] = c[0, j, i] / b[0, j, i]
            x[0, j, i] = d[0, j, i] / b[0, j, i]
        for k in range(1, nk):
            for i in range(ni):
                m = 1.0 / (b[k, j, i] - a[k, j, i] * cp[k - 1, i])
                cp[k, i] = c[k, j, i] * m
                x[k, j, i] = (d[k, j, i] - a[k, j, i] * x[k - 1, j, i]) * m
        for k in range(nk - 2, -1, -1):
            for i in range(ni):
                x[k, j, i] -= cp[k, i] * x[k + 1, j, i]


def _program(names: str, body: str) -> str:
    fields = ", ".join(f"{name}: Field[np.float64]" for name in names)
    return f"def program({fields}):\n{body}"


_POINTS = "    with computation(PARALLEL), interval(...):\n        "
CASES = (
    Case("copy", _program("ax", _POINTS + "x = a\n"), 0, 2, _copy),
    Case(
        "2d5pt",
        _program(
            "ax",
            _POINTS + "x = (a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0]) - 4.0 * a\n",
        ),
        1,
        2,
        _five,
    ),
    Case(
        "3d7pt",
        _program(
            "ax",
            _POINTS
            + "f = a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0]\n"
            + "        x = (f + a[0, 0, 1] + a[0, 0, -1]) - 6.0 * a\n",
        ),
        1,
        2,
        _seven,
    ),
    Case(
        "diffusion",
        _program(
            "acx",
            _POINTS
            + """lap = 4.0 * a - (a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0])
        flx = lap[1, 0, 0] - lap
        flx = 0.0 if flx * (a[1, 0, 0] - a) > 0.0 else flx
        fly = lap[0, 1, 0] - lap
        fly = 0.0 if fly * (a[0, 1, 0] - a) > 0.0 else fly
        x = a - c * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
""",
        ),
        2,
        3,
        _diffusion,
    ),
    Case(
        "tridiagonal",
        _program(
            "abcdx",
            """\
    with computation(FORWARD):
        with interval(0, 1):
            p = c / b
            q = d / b
        with interval(1, None):
            m = 1.0 / (b - a * p[0, 0, -1])
            p = c * m
            q = (d - a * q[0, 0, -1]) * m
    with computation(BACKWARD):
        with interval(-1, None):
            x = q
        with interval(0, -1):
            x = q - p * x[0, 0, 1]
""",
        ),
        0,
        5,
        _tridiagonal,
    ),
)
