"""A double-gyre shallow-water model on a C-grid: its program, its dataset, and a loop in NumPy.

Faces have one point more than cells (MOM6's symmetric memory), walls all around, and wind stress
that is given daily. Forward-backward steps: the height, then u of the new height, then v of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

__all__ = ["CONSTANTS", "PROGRAM", "gyre_dataset", "step_gyre"]

Array = NDArray[np.float64]

#: Step and spacing in s and m, gravity in m s-2, mean depth in m, density in kg m-3, drag in s-1,
#: and viscosity in m2 s-1.
CONSTANTS = {
    "dt": 300.0,
    "dx": 40e3,
    "g": 9.81,
    "depth": 500.0,
    "rho": 1000.0,
    "drag": 1e-7,
    "viscosity": 400.0,
}

PROGRAM = """
def gyre(
    h: Field[float], u: Field[float], v: Field[float],
    taux: Field[float], f: Field[float], open_u: Field[float], open_v: Field[float],
    h_new: Field[float], u_new: Field[float], v_new: Field[float],
    *, dt: float, dx: float, g: float, depth: float, rho: float, drag: float, viscosity: float,
):
    with computation(PARALLEL), interval(...):
        east = 0.5 * (h[-1, 0, 0] + h) * u
        north = 0.5 * (h[0, -1, 0] + h) * v
        height = h - dt / dx * (east[1, 0, 0] - east + north[0, 1, 0] - north)
        v_at_u = 0.25 * (v[-1, 0, 0] + v[-1, 1, 0] + v + v[0, 1, 0])
        f_at_v = 0.5 * (f[0, -1, 0] + f)
        curve_u = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u
        curve_v = v[-1, 0, 0] + v[1, 0, 0] + v[0, -1, 0] + v[0, 1, 0] - 4.0 * v
        slope_x = g * (height - height[-1, 0, 0]) / dx
        slope_y = g * (height - height[0, -1, 0]) / dx
        push = f * v_at_u - slope_x + taux / (rho * depth) - drag * u + viscosity * curve_u / dx**2
        speed = open_u * (u + dt * push)
        u_at_v = 0.25 * (speed[0, -1, 0] + speed[1, -1, 0] + speed + speed[1, 0, 0])
        pull = -f_at_v * u_at_v - slope_y - drag * v + viscosity * curve_v / dx**2
        v_new = open_v * (v + dt * pull)
        h_new, u_new = height, speed
"""


def gyre_dataset(nx: int, ny: int, days: int) -> xr.Dataset:
    """Return the state of rest with daily wind, indexed (y, x) over ``days + 1`` records."""
    dx = CONSTANTS["dx"]
    xh, yh = (np.arange(n) * dx + 0.5 * dx for n in (nx, ny))
    xq, yq = (np.arange(n + 1) * dx for n in (nx, ny))
    season = 1.0 + 0.3 * np.sin(np.arange(days + 1))
    wind = -0.1 * np.cos(2.0 * np.pi * yh / (ny * dx))
    taux = season[:, None, None] * wind[None, :, None] * np.ones((1, 1, nx + 1))
    open_u, open_v = np.ones((ny, nx + 1)), np.ones((ny + 1, nx))
    open_u[:, [0, -1]] = 0.0
    open_v[[0, -1]] = 0.0
    faces_u, faces_v, cells = ("yh", "xq"), ("yq", "xh"), ("yh", "xh")
    time = np.datetime64("2015-01-01", "ns") + np.arange(days + 1) * np.timedelta64(1, "D")
    variables: dict[str, Any] = {
        "h": (cells, np.full((ny, nx), CONSTANTS["depth"])),
        "u": (faces_u, np.zeros((ny, nx + 1))),
        "v": (faces_v, np.zeros((ny + 1, nx))),
        "taux": (("time", *faces_u), taux),
        "f": (cells[:1], 1e-4 + 2e-11 * yh),
        "open_u": (faces_u, open_u),
        "open_v": (faces_v, open_v),
    }
    coords = {
        "xh": ("xh", xh, {"axis": "X", "units": "m"}),
        "yh": ("yh", yh, {"axis": "Y", "units": "m"}),
        "xq": ("xq", xq, {"axis": "X", "units": "m", "c_grid_axis_shift": -0.5}),
        "yq": ("yq", yq, {"axis": "Y", "units": "m", "c_grid_axis_shift": -0.5}),
        "time": ("time", time),
    }
    return xr.Dataset(variables, coords=coords)


def step_gyre(h: Array, u: Array, v: Array, taux: Array, f: Array) -> tuple[Array, Array, Array]:
    """Return height and velocities after a step, indexed [y, x]; `f` is the row of cells.

    Independent of the program above: fluxes and stresses are computed on faces inside the walls.
    """
    dt, dx, g, depth, rho, drag, viscosity = CONSTANTS.values()
    east, north = np.zeros_like(u), np.zeros_like(v)
    east[:, 1:-1] = 0.5 * (h[:, :-1] + h[:, 1:]) * u[:, 1:-1]
    north[1:-1] = 0.5 * (h[:-1] + h[1:]) * v[1:-1]
    h_new = h - dt / dx * (np.diff(east, axis=1) + np.diff(north, axis=0))
    v_at_u = 0.25 * (v[:-1, :-1] + v[1:, :-1] + v[:-1, 1:] + v[1:, 1:])
    wide_u, wide_v = np.pad(u, ((1, 1), (0, 0)), "edge"), np.pad(v, ((0, 0), (1, 1)), "edge")
    curve_u = u[:, :-2] + u[:, 2:] + (wide_u[:-2] + wide_u[2:])[:, 1:-1] - 4.0 * u[:, 1:-1]
    curve_v = v[:-2] + v[2:] + (wide_v[:, :-2] + wide_v[:, 2:])[1:-1] - 4.0 * v[1:-1]
    u_new, v_new = np.zeros_like(u), np.zeros_like(v)
    u_new[:, 1:-1] = u[:, 1:-1] + dt * (
        f[:, None] * v_at_u
        - g * np.diff(h_new, axis=1) / dx
        + taux[:, 1:-1] / (rho * depth)
        - drag * u[:, 1:-1]
        + viscosity * curve_u / dx**2
    )
    u_at_v = 0.25 * (u_new[:-1, :-1] + u_new[:-1, 1:] + u_new[1:, :-1] + u_new[1:, 1:])
    v_new[1:-1] = v[1:-1] + dt * (
        -0.5 * (f[:-1] + f[1:])[:, None] * u_at_v
        - g * np.diff(h_new, axis=0) / dx
        - drag * v[1:-1]
        + viscosity * curve_v / dx**2
    )
    return h_new, u_new, v_new
