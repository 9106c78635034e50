"""A dataset of columns with centres and faces, and how tests evaluate a text on it."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

import halocline_engine as he

__all__ = ["FACES", "MIDDLES", "SCALARS", "TEXT", "columns", "evaluated"]

FACES = np.array([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])
MIDDLES = 0.5 * (FACES[1:] + FACES[:-1])
TEXT = """slope = GradientC2F(bottom=SetValue(b), top=SetGradient(g))(a)
spread = DivergenceF2C()(f)
total = column_integral_definite(a)"""
SCALARS = {"b": 0.3}


def columns() -> xr.Dataset:
    """Return columns whose faces have a coordinate, and centres as well, heights going up."""
    rng = np.random.default_rng(5)
    return xr.Dataset(
        {
            "a": (("t", "z", "x"), rng.normal(size=(2, 5, 7))),
            "f": (("z_f", "x", "t"), rng.normal(size=(6, 7, 2))),
            "g": (("x",), rng.normal(size=7)),
        },
        coords={
            "z": ("z", MIDDLES, {"axis": "Z", "positive": "up", "units": "m"}),
            "z_f": ("z_f", FACES, {"axis": "Z", "c_grid_axis_shift": -0.5}),
            "t": [10, 20],
        },
        attrs={"title": "columns"},
    )


def evaluated(dataset: Any, text: str = TEXT, **options: Any) -> xr.Dataset:
    arguments: dict[str, Any] = {"scalars": SCALARS, "target": "reference", **options}
    return he.column(text, dataset, **arguments)
