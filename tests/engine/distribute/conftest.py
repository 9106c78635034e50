"""What the tests of blocks, passes and clusters share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.distribute.executors.dask import start


@pytest.fixture(scope="session")
def diffusion() -> str:
    """Horizontal diffusion with a flux limiter: land stays, and no flux crosses a coast."""
    return """
def diffusion(inp: Field[float], mask: Field[IJ, bool], out: Field[float], coeff: float):
    with computation(PARALLEL), interval(...):
        wet = inp if mask else 0.0
        lap = 4.0 * wet - (wet[1, 0, 0] + wet[-1, 0, 0] + wet[0, 1, 0] + wet[0, -1, 0])
        fx = lap[1, 0, 0] - lap
        fx = 0.0 if fx * (wet[1, 0, 0] - wet) > 0.0 else fx
        fx = fx if mask and mask[1, 0] else 0.0
        fy = lap[0, 1, 0] - lap
        fy = 0.0 if fy * (wet[0, 1, 0] - wet) > 0.0 else fy
        fy = fy if mask and mask[0, 1] else 0.0
        out = inp - coeff * (fx - fx[-1, 0, 0] + fy - fy[0, -1, 0])
"""


@pytest.fixture(scope="session")
def ocean() -> xr.Dataset:
    """Two months of a rough field with a third of land."""
    rng = np.random.default_rng(7)
    sea = rng.random((37, 38)) > 0.3
    values = rng.normal(10.0, 3.0, (2, 37, 38))
    values[:, ~sea] = np.nan
    coords = {
        "y": ("y", np.arange(37.0), {"axis": "Y"}),
        "x": ("x", np.arange(38.0), {"axis": "X"}),
    }
    return xr.Dataset(
        {
            "inp": (("time", "y", "x"), values, {"units": "degree_C"}),
            "mask": (("y", "x"), sea),
        },
        coords,
        {"title": "made", "history": "made by a test"},
    )


@pytest.fixture(scope="package")
def two_workers() -> Iterator[Any]:
    """Start two worker processes and give a client of them; those that wait take time as well."""
    with start(2, "cpu") as pool:
        yield pool.client
