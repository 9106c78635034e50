"""Programs that read through tables on a real device, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

pytestmark = pytest.mark.gpu

SPREAD = """
def spread(h: Field[float], near: Table[3], w: Table[3, np.float64], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = h + neighbor_sum(w * (h[near] - h)) + 0.0 * max_over(h[near])
"""


@pytest.mark.parametrize("missing", [False, True])
def test_loops_over_neighbours(cupy: Any, missing: bool) -> None:
    rng = np.random.default_rng(0)
    points = 5000
    h = rng.normal(size=(points, 1, 7))
    near = rng.integers(-1 if missing else 0, points, (points, 3))
    near[:, 0] = rng.integers(0, points, points)
    w = rng.random((points, 3))
    wanted = np.full_like(h, np.nan)
    he.stencil(SPREAD, target="reference")(h, near, w, wanted)
    out = cupy.full(h.shape, np.nan)
    he.stencil(SPREAD, target="cuda")(*(cupy.asarray(a) for a in (h, near, w)), out)
    np.testing.assert_array_equal(cupy.asnumpy(out), wanted)
    far = near.copy()
    far[4000, 2] = points
    with pytest.raises(he.FieldError, match="names point 5000 at"):
        he.stencil(SPREAD, target="cuda")(*(cupy.asarray(a) for a in (h, far, w)), out)


def test_steps_on_a_dataset(cupy: Any) -> None:
    rng = np.random.default_rng(1)
    data = xr.Dataset(
        {
            "h": (("time", "cell", "z"), rng.normal(size=(2, 500, 5))),
            "near": (("cell", "three"), rng.integers(0, 500, (500, 3))),
            "w": (("cell", "three"), 0.1 * rng.random((500, 3))),
        }
    )
    assert cupy is not None
    options: dict[str, Any] = {"steps": 4, "feedback": {"out": "h"}}
    wanted = he.run(SPREAD, data, target="reference", **options)["out"].values
    found = he.run(SPREAD, data, target="cuda", **options)["out"].values
    np.testing.assert_array_equal(found, wanted)
