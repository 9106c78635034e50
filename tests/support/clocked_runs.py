"""A small program whose input varies with time, hour by hour, and runs of it with a clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from halocline_engine.functions.run import run

__all__ = ["HOURS", "SMALL", "small", "stepped"]

_NUMPY: Any = np
SMALL = """
def small(u: Field[float], f: Field[float], v: Field[float], a: float):
    with computation(PARALLEL), interval(...):
        v = u + a * f
"""
HOURS = _NUMPY.arange("2015-01-01", "2015-01-01T06", np.timedelta64(1, "h"), "datetime64[ns]")


def small(**variables: Any) -> Any:
    rng = np.random.default_rng(7)
    found: dict[str, Any] = {
        "u": (("y", "x"), rng.normal(size=(6, 7))),
        "f": (("time", "y", "x"), rng.normal(size=(len(HOURS), 6, 7))),
    }
    return xr.Dataset({**found, **variables}, coords={"time": HOURS})


def stepped(dataset: Any, **arguments: Any) -> xr.Dataset:
    defaults: dict[str, Any] = {
        "scalars": {"a": 0.5},
        "steps": 8,
        "feedback": {"v": "u"},
        "time": {"start": "2015-01-01", "step": "15min"},
        "target": "reference",
    }
    return run(SMALL, dataset, **{**defaults, **arguments})
