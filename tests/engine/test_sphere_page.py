"""Order of the operators of docs/sphere.md: second, and first near the poles."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

PAGE = (Path(__file__).parents[2] / "docs" / "sphere.md").read_text()
PROGRAM = PAGE[PAGE.index("def vorticity") : PAGE.index("```\n\n`phi`")].replace(
    "F,", "Field[float],"
)
SPEED, RADIUS = 20.0, 6.371e6


def errors(tilt: float, step: float) -> tuple[float, float]:
    """Return the relative errors of the vorticity of a rotation: below 60 degrees, and at most."""
    lat, lon = np.arange(step / 2 - 90, 90, step), np.arange(step / 2, 360, step)
    phi, lam = np.radians(lat)[:, None], np.radians(lon)
    u = np.cos(tilt) * np.cos(phi) + np.sin(tilt) * np.sin(phi) * np.cos(lam)
    v = -np.sin(tilt) * np.sin(lam) * np.ones_like(phi)
    wind = xr.Dataset(
        {"u": (("lat", "lon"), SPEED * u), "v": (("lat", "lon"), SPEED * v)},
        coords={"lat": lat, "lon": lon},
    )
    spacing = {"dlon": np.radians(step), "dlat": np.radians(step)}
    how: dict[str, Any] = {"boundary": {"lon": "periodic"}, "target": "reference"}
    result = he.run(PROGRAM, wind, scalars={"radius": RADIUS, **spacing}, **how)
    exact = np.cos(tilt) * np.sin(phi) - np.sin(tilt) * np.cos(phi) * np.cos(lam)
    error = abs(result["vorticity"].values * RADIUS / (2 * SPEED) - exact)[1:-1]
    return error[abs(lat[1:-1]) < 60].max(), error.max()


@pytest.mark.parametrize("seed", range(3))
def test_operators_are_of_second_order_and_of_first_near_the_poles(seed: int) -> None:
    tilt = Random(seed).uniform(0.3, 1.2)
    coarse, fine = errors(tilt, 2.0), errors(tilt, 1.0)
    low, high = np.log2(np.divide(coarse, fine))
    assert 1.9 < low < 2.1
    assert 0.9 < high < 1.3


def test_the_errors_on_the_page_are_measured() -> None:
    rows = re.findall(r"\| ([\d.]+)° \| (\S+) \| (\S+) \|", PAGE)
    assert len(rows) == 3
    for step, *shown in rows:
        measured = errors(np.radians(40.0), float(step))
        assert [f"{one:.1e}" for one in measured] == [f"{float(one):.1e}" for one in shown]
