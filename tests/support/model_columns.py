"""Columns of datasets as models write them, drawn, beside their gradient in plain NumPy.

Heights or depths lie along the faces or in bounds, from the top or from the bottom, with attributes
that are complete, missing, in another case, in the encoding or contradicting what is there.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

__all__ = ["GRADIENT", "Column", "draw_column"]

Array = NDArray[np.float64]

GRADIENT = "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(t)"

#: Dimensions of centres and faces, and the coordinates along them.
NAMES = (
    ("k", "k_p1", "Z", "Zp1"),
    ("deptht", "depthw", "deptht", "depthw"),
    ("z_l", "z_i", "z_l", "z_i"),
    ("st_ocean", "sw_ocean", "st_ocean", "sw_ocean"),
    ("lev", "lev_2", "lev", "lev_2"),
    ("level", "half_level", "depth", "depth_of_faces"),
    ("z", "z_f", "z", "z_f"),
    ("height", "height_2", "height", "height_2"),
    ("bottom_top", "bottom_top_stag", "Z", "ZF"),
)
SHIFTS: tuple[Any, ...] = (-0.5, (-0.5, 0.5), np.array([-0.5, 0.5]), [-0.5, 0.5], "left", "outer")


@dataclass(frozen=True, slots=True)
class Column:
    """A dataset, the gradient of `t` on its faces in the order of the data, and what was drawn."""

    dataset: xr.Dataset
    gradient: Array
    words: str


def draw_column(random: np.random.Generator) -> Column:
    """Return a column of an ocean or of an atmosphere."""
    kind = random.choice(["plain", "plain", "plain", "hybrid", "parametric", "counts"])
    count = int(random.integers(2, 6))
    faces = np.concatenate([[0.0], np.cumsum(random.uniform(5.0, 20.0, count))])
    ocean = bool(random.random() < 0.6) and kind != "hybrid"
    heights = faces - faces[-1] if ocean else faces
    t = random.normal(size=count)
    middle = 0.5 * (heights[1:] + heights[:-1])
    gradient = np.concatenate([[0.0], np.diff(t) / np.diff(middle), [0.0]])
    if random.random() < 0.5:
        heights, middle, t, gradient = (one[::-1] for one in (heights, middle, t, gradient))
    match kind:
        case "hybrid":
            dataset, gradient = _hybrid(heights, middle, t, gradient)
        case "parametric":
            dataset = _parametric(random, heights / faces[-1], middle / faces[-1], t)
        case "counts":
            dataset = _counts(random, t)
        case _:
            dataset = _plain(random, heights, middle, t, ocean=ocean)
    if random.random() < 0.5:
        how: Any = random.choice(np.array(["all", "coordinates", False], object))
        dataset = cast("Any", xr).decode_cf(dataset, decode_coords=how)
    return Column(dataset, gradient, f"{kind}, {'ocean' if ocean else 'atmosphere'}")


def _plain(
    random: np.random.Generator, heights: Array, middle: Array, t: Array, *, ocean: bool
) -> xr.Dataset:
    centre, face, along_centre, along_face = NAMES[int(random.integers(len(NAMES)))]
    depths = ocean and bool(random.random() < 0.6)
    sign = -1.0 if depths else 1.0
    nature: dict[str, str] = {}
    if random.random() < 0.5:
        nature["standard_name"] = "depth" if depths else "height"
    if random.random() < 0.3:
        nature["long_name"] = "Depth of cells" if depths else "height above the ground"
    named = "depth" in along_centre or "height" in along_centre
    positive = "down" if depths else "up"
    change = random.random()
    if change < 0.2 and (nature or (ocean and not depths)):
        positive = "up" if depths else "down"
    elif change < 0.4 and (nature or not depths):
        positive = ""
    elif change < 0.5:
        positive = positive.upper()
    attrs: dict[str, Any] = {"units": "m", **nature, **({"positive": positive} if positive else {})}
    if named and "standard_name" not in nature:
        attrs["standard_name"] = "depth" if depths else "height"
    shift = SHIFTS[int(random.integers(len(SHIFTS)))]
    axis: dict[str, Any] = {"axis": random.choice(np.array(["Z", "z"], object))}
    if random.random() < 0.2:
        axis = {}
    coords: dict[str, xr.Variable] = {}
    where = random.choice(["faces", "bounds", "both"])
    shared = {**attrs, **axis}
    if where != "bounds":
        marks = {"c_grid_axis_shift": shift} if random.random() < 0.7 else {}
        own = {key: value for key, value in shared.items() if random.random() < 0.8 or depths}
        coords[along_face] = xr.Variable(face, sign * heights, {**own, **marks})
        if along_face != face:
            coords[face] = xr.Variable(face, np.arange(heights.size), {**axis, **marks})
    coords[along_centre] = xr.Variable(centre, sign * middle, shared)
    variables: dict[str, xr.Variable] = {"t": xr.Variable((centre, "x"), np.stack([t, t], 1))}
    if where != "faces":
        coords[along_centre].attrs["bounds"] = "cells"
        ends = sign * np.stack([heights[:-1], heights[1:]], 1)
        variables["cells"] = xr.Variable((centre, "ends"), ends)
    return xr.Dataset(variables, coords)


def _hybrid(heights: Array, middle: Array, t: Array, gradient: Array) -> tuple[xr.Dataset, Array]:
    """Return levels that follow the ground, which is 0 at the first column and 50 at the other."""
    scale = np.linspace(1.0, 0.2, heights.size) if heights[0] < heights[-1] else None
    scale = np.linspace(0.2, 1.0, heights.size) if scale is None else scale
    terms = {"a": (middle, heights), "b": (0.5 * (scale[1:] + scale[:-1]), scale)}
    variables: dict[str, xr.Variable] = {"t": xr.Variable(("z", "x"), np.stack([t, t], 1))}
    for name, (values, ends) in terms.items():
        variables[name] = xr.Variable("z", values, {"bounds": f"{name}_bnds"})
        variables[f"{name}_bnds"] = xr.Variable(("z", "two"), np.stack([ends[:-1], ends[1:]], 1))
    variables["orog"] = xr.Variable("x", [0.0, 5.0])
    attrs = {
        "standard_name": "atmosphere_hybrid_height_coordinate",
        "formula_terms": "a: a b: b orog: orog",
        "units": "m",
        "positive": "up",
    }
    other = np.diff(middle + 5.0 * terms["b"][0])
    steep = np.concatenate([[0.0], np.diff(t) / other, [0.0]])
    dataset = xr.Dataset(variables, {"z": xr.Variable("z", middle, attrs)})
    return dataset, np.stack([gradient, steep], 1)


def _parametric(random: np.random.Generator, s_w: Array, s_rho: Array, t: Array) -> xr.Dataset:
    """Return s-coordinates, whose heights follow from a formula that is not known."""
    coords: dict[str, xr.Variable] = {}
    for name, values in (("s_rho", s_rho), ("s_w", s_w)):
        attrs = {
            "standard_name": "ocean_s_coordinate_g2",
            "positive": "up",
            "units": "1",
            "formula_terms": f"s: {name} C: C eta: zeta depth: h depth_c: hc",
        }
        attrs = {key: value for key, value in attrs.items() if random.random() < 0.7}
        coords[name] = xr.Variable(name, values, attrs)
    variables = {
        "t": xr.Variable(("s_rho", "x"), np.stack([t, t], 1)),
        "h": xr.Variable("x", [100.0, 4000.0]),
        "zeta": xr.Variable("x", [0.0, 0.0]),
        "hc": xr.Variable((), 20.0),
        "C": xr.Variable("s_rho", s_rho),
    }
    return xr.Dataset(variables, coords)


def _counts(random: np.random.Generator, t: Array) -> xr.Dataset:
    """Return levels that are counted from the top, with bounds, as ICON writes them."""
    numbers = np.arange(t.size) + 1.5
    attrs = {
        "standard_name": "height",
        "long_name": "generalized_height",
        "units": "1",
        "axis": "Z",
        "bounds": "height_bnds",
    }
    attrs = {
        k: v for k, v in attrs.items() if random.random() < 0.7 or k in ("units", "standard_name")
    }
    ends = np.stack([numbers - 0.5, numbers + 0.5], 1)
    return xr.Dataset(
        {"t": (("height", "x"), np.stack([t, t], 1)), "height_bnds": (("height", "bnds"), ends)},
        {"height": ("height", numbers, attrs)},
    )
