"""The blocks of pages with curl run: uploads, jobs, their events, and their results."""

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


pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def _run(pages: tuple[str, ...], service: str, folder: Path) -> subprocess.CompletedProcess[str]:
    text = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in pages)
    blocks = re.findall(r"^```sh client\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return subprocess.run(
        ["bash", "-e", "-c", f"URL={service}\n{''.join(blocks)}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )


def test_a_netcdf_file_goes_in_and_comes_out(service: str, tmp_path: Path) -> None:
    sea: Any = xr.Dataset({"sst": (("y", "x"), np.ones((3, 4)))})
    sea.to_netcdf(tmp_path / "sst-2001.nc")
    _run(("netcdf.md",), service, tmp_path)
    opened: Any = xr
    with opened.open_dataset(tmp_path / "doubled.nc") as result:
        assert (result["out"] == 2.0).all()


def test_the_blocks_of_both_pages_run(service: str, tmp_path: Path) -> None:
    sea: Any = xr.Dataset({"sst": (("y", "x"), np.ones((3, 4)))})
    sea.to_zarr(tmp_path / "sst.zarr", zarr_format=3, consolidated=False)
    done = _run(("rest.md", "web.md"), service, tmp_path)
    assert '"reference":"upload:' in done.stdout
    assert '"status":"successful"' in done.stdout
    assert "result.zarr" in done.stdout
    assert '"valid":false' in done.stdout  # of '...' for a program
    assert '"problems/' not in done.stdout
    chunk = (tmp_path / "chunk").read_bytes()
    assert chunk
    assert b"problems" not in chunk
    made: Any = xr
    with made.open_dataset(tmp_path / "result.nc") as result:
        assert result["out"].values.tolist() == [[1024.0] * 4] * 3
