"""A fresh process whose threads meet heavy libraries for the first time, all at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import xarray as xr

_SCRIPT = """
import sys
import xarray as xr
import halocline_engine as he
data = xr.open_zarr(sys.argv[1], consolidated=False)
he.matmul(data, left="a", right="b", dim="x", output=sys.argv[2], target="cpu")
"""
_TRIES = 2


def test_dask_is_loaded_once(tmp_path: Path) -> None:
    """It failed in eight of ten processes, so in nearly every run of this test."""
    place = tmp_path / "in.zarr"
    random = np.random.default_rng(0)
    data = xr.Dataset(
        {"a": (("y", "x"), random.random((400, 400))), "b": (("x", "z"), random.random((400, 300)))}
    )
    chunks = {name: {"chunks": (50, 50)} for name in ("a", "b")}
    data.to_zarr(place, zarr_format=3, consolidated=False, encoding=chunks)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownMemberType]
    for number in range(_TRIES):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(place), str(tmp_path / f"out{number}.zarr")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
