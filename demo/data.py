"""The demo's data: three months of sea-surface temperature of a NEMO ocean model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import iris_sample_data
import numpy as np
import xarray as xr

__all__ = ["sea_surface", "source_files"]


def source_files() -> list[Path]:
    """Return the three monthly files of the package `iris-sample-data`, in order of time."""
    folder = Path(iris_sample_data.path) / "NEMO"
    return sorted(folder.glob("nemo_1m_*_grid-T.nc"))


def sea_surface() -> xr.Dataset:
    """Return `tos` (time, y, x) in degrees Celsius as float64, NaN on land, with its coordinates.

    The grid is ORCA1 without its two overlapping columns: the 360 columns are all different, and
    the first one is the eastern neighbour of the last. The northern edge is where the grid is
    folded between two poles; the demo treats it as a wall, like the southern one.
    """
    decode = xr.coders.CFDatetimeCoder(use_cftime=True)
    months = [_month(path, decode) for path in source_files()]
    joined = xr.concat(
        months, dim="time", data_vars="minimal", coords="minimal", compat="override", join="exact"
    )
    return joined.astype(np.float64, keep_attrs=True)


def _month(path: Path, decode: Any) -> xr.Dataset:
    """Return one month with its time; the files keep it beside a counter that is always 0."""
    with xr.open_dataset(path, decode_times=decode) as opened:
        month = opened[["tos"]].load()
    time = month["time_centered"].to_numpy()
    month = month.drop_vars(["time_counter", "time_centered"]).rename(time_counter="time")
    return month.assign_coords(time=("time", time, {"axis": "T", "standard_name": "time"}))
