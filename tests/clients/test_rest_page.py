"""What the REST page does with curl: an upload, a job, and its inputs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

from halocline import Client

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_an_upload_by_curl_is_a_dataset(service: str, tmp_path: Path) -> None:
    sea: Any = xr.Dataset({"sst": (("y", "x"), np.ones((3, 4)))})
    sea.to_zarr(tmp_path / "sst.zarr", zarr_format=3, consolidated=False)
    page = (ROOT / "docs/rest.md").read_text("utf-8")
    script = next(
        text
        for text in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if "UPLOAD=" in text
    )
    done = subprocess.run(
        ["bash", "-e", "-c", f"URL={service}\n{script}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (reference,) = re.findall(r'"reference":"(upload:[^"]+)"', done.stdout)
    program = "def f(sst: Field[float], out: Field[float]):\n"
    program += "    with computation(PARALLEL), interval(...):\n        out = 2.0 * sst\n"
    with Client(service) as client:
        job = client.stencil(program, reference, target="reference")
        assert float(cast("Any", job.result(progress=False))["out"].sum()) == 24.0
