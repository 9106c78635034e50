"""Two programs that are stepped, a plane of two fields and columns, with data and boundaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

__all__ = ["BOUNDARIES", "stepped"]

_WAVE = """
def wave(now: Field[T], old: Field[T], next: Field[T], kept: Field[T], c: T):
    with computation(PARALLEL), interval(...):
        around = now[1, 0, 0] + now[-1, 0, 0] + now[0, 1, 0] + now[0, -1, 0]
        next = T(2.0) * now - old + c * (around - T(4.0) * now)
        kept = now
"""
_STAR = """
def star(u: Field[T], v: Field[T], w: Field[IJ, T]):
    with computation(PARALLEL), interval(1, -1):
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -2, 0] + u[0, 0, 1] + u[0, 0, -1]
        v = u + w * (around - T(6.0) * u)
    with computation(PARALLEL), interval(0, 1):
        v = u[0, 0, 1]
    with computation(PARALLEL), interval(-1, None):
        v = u
"""
BOUNDARIES: list[dict[str, Any]] = [
    {"x": "periodic", "y": "periodic"},
    {"x": "periodic", "y": {"low": "reflect", "high": "none"}},
    {"x": {"constant": 0.5}, "y": "none"},
    {"x": "edge", "y": "extrapolate"},
]


def stepped(
    name: str, dtype: str, sizes: tuple[int, int, int]
) -> tuple[str, xr.Dataset, dict[str, Any]]:
    """Return the text of `wave` or `star`, data of `sizes` along z, y and x, and arguments."""
    rng = np.random.default_rng(3)
    number, plane = "np." + dtype, sizes[1:]
    if name == "wave":
        values = {one: (("y", "x"), rng.normal(size=plane).astype(dtype)) for one in ("now", "old")}
        how = {"scalars": {"c": 0.2}, "feedback": {"next": "now", "kept": "old"}}
        return _WAVE.replace("T", number), xr.Dataset(values), how
    columns = {
        "u": (("z", "y", "x"), rng.normal(size=sizes).astype(dtype)),
        "w": (("y", "x"), rng.uniform(0.0, 0.1, size=plane).astype(dtype)),
    }
    return _STAR.replace("T", number), xr.Dataset(columns), {"feedback": {"v": "u"}}
