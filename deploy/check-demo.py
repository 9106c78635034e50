"""Compare a result of the demo with a run of the same job in this process, bit for bit.

python deploy/check-demo.py RESULT.zarr [STEPS]
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))

import run
from data import sea_surface
from diffusion import limited_diffusion

import halocline_engine as he

before = sea_surface()
expected = he.run(
    inspect.getsource(limited_diffusion),
    before,
    scalars={"strength": run.STRENGTH},
    boundary=run.BOUNDARY,
    steps=int(sys.argv[2]) if len(sys.argv) > 2 else 500,
    feedback={"diffused": "tos"},
    target="cpu",
)["diffused"]
found = xr.open_zarr(sys.argv[1], chunks=None)["diffused"].transpose(*expected.dims)
same = np.array_equal(found.values, expected.values, equal_nan=True)
moved = float(np.nanmax(np.abs(found.values - before["tos"].transpose(*expected.dims).values)))
land = int(np.isnan(found.values).sum())
print(f"{found.shape}: {land} cells of land, largest change {moved:.3f}, same bits: {same}")
sys.exit(0 if same and moved > 0 and land > 0 else 1)
