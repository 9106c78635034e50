"""What the REST page does with curl: an upload, a job, what it told, and its result."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_blocks_of_both_pages_run(service: str, tmp_path: Path) -> None:
    sea: Any = xr.Dataset({"sst": (("y", "x"), np.ones((3, 4)))})
    sea.to_zarr(tmp_path / "sst.zarr", zarr_format=3, consolidated=False)
    sea.to_netcdf(tmp_path / "sst.nc")
    pages = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in ("rest.md", "web.md"))
    blocks = re.findall(r"^```sh client\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["bash", "-e", "-c", f"URL={service}\n{''.join(blocks)}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert '"reference":"upload:' in done.stdout
    assert '"status":"successful"' in done.stdout
    assert "result.zarr" in done.stdout
    assert '"valid":false' in done.stdout  # of '...' for a program
    assert '"problems/' not in done.stdout
    chunk = (tmp_path / "chunk").read_bytes()
    assert chunk
    assert b"problems" not in chunk
    with xr.open_dataset(tmp_path / "result.nc") as result:
        assert result["out"].values.tolist() == [[1024.0] * 4] * 3
