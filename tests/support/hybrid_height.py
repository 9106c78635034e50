"""Potential temperature on hybrid height, real data: what NumPy and xgcm make of it."""

# xarray's own annotations are partial; xgcm has none.
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import iris_sample_data
import numpy as np
import xarray as xr
import xgcm

__all__ = ["FIELDS", "SAMPLE", "TEXT", "by_numpy", "by_xgcm", "missing"]

SAMPLE = Path(iris_sample_data.path) / "hybrid_height.nc"
TEXT = """gradient = GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(theta)
tendency = DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(k * GradientC2F()(theta))
heat = column_integral_definite(theta)"""
FIELDS = {"theta": "air_potential_temperature"}


def _heights(dataset: xr.Dataset) -> tuple[Any, Any]:
    """Return the heights of centres and faces, indexed [level, y, x]."""
    surface = dataset["surface_altitude"].values.astype("f8")
    found: list[Any] = []
    for a, b in (("level_height", "sigma"), ("level_height_bnds", "sigma_bnds")):
        own, scale = (dataset[name].values.astype("f8") for name in (a, b))
        if own.ndim == 2:
            own, scale = (np.append(t[:, 0], t[-1, 1]) for t in (own, scale))
        found.append(own[:, None, None] + scale[:, None, None] * surface)
    return found[0], found[1]


def by_numpy(dataset: xr.Dataset, k: float) -> dict[str, Any]:
    """Return what `TEXT` says, indexed [level, y, x] or [y, x], in float64."""
    theta = dataset["air_potential_temperature"].values.astype("f8")
    centres, faces = _heights(dataset)
    gradient = np.zeros((16, 100, 100))
    gradient[1:-1] = np.diff(theta, axis=0) / np.diff(centres, axis=0)
    widths = np.diff(faces, axis=0)
    tendency = np.diff(k * gradient, axis=0) / widths
    return {"gradient": gradient, "tendency": tendency, "heat": (theta * widths).sum(0)}


def by_xgcm(dataset: xr.Dataset, result: xr.Dataset, k: float) -> dict[str, xr.DataArray]:
    """Return the gradient on inner faces, and the tendency, on the heights that a result has."""
    centre, face = "model_level_number", "model_level_number_face"
    theta, surface = _bare(dataset["air_potential_temperature"]), _bare(dataset["surface_altitude"])
    middles = _bare(dataset["level_height"]) + _bare(dataset["sigma"]) * surface
    edges = _bare(result["level_height_face"]) + _bare(result["sigma_face"]) * surface
    points = xr.Dataset(coords={centre: np.arange(15), face: np.arange(16)})
    grid: Any = xgcm.Grid(
        points,
        coords={"Z": {"center": centre, "outer": face}},
        padding="fill",
        autoparse_metadata=False,
    )
    gradient = grid.diff(theta, "Z", to="outer") / grid.diff(middles, "Z", to="outer")
    inside = (gradient[face] > 0) & (gradient[face] < 15)
    flux = (k * gradient).where(inside, 0.0)
    tendency = grid.diff(flux, "Z", to="center") / grid.diff(edges, "Z", to="center")
    order = dataset["air_potential_temperature"].dims
    found = {"gradient": gradient.isel({face: slice(1, -1)}), "tendency": tendency}
    return {
        name: values.transpose(*(d if d in values.dims else face for d in order))
        for name, values in found.items()
    }


def missing() -> dict[str, Any]:
    """Return where results are missing if cells [6, 40:60, 30] are."""
    faces, cells = np.zeros((16, 100, 100), bool), np.zeros((15, 100, 100), bool)
    faces[6:8, 40:60, 30], cells[5:8, 40:60, 30] = True, True
    return {"gradient": faces, "tendency": cells, "heat": cells[6]}


def _bare(array: Any) -> xr.DataArray:
    return xr.DataArray(array.values.astype("f8"), dims=array.dims)
