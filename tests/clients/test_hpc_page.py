"""The SLURM job of the page runs, with a `srun` that starts its tasks on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

ROOT = Path(__file__).parents[2]
_SRUN = """#!/bin/bash
for task in $(seq $SLURM_NTASKS); do "$@" & done
wait
"""


def _block(kind: str) -> str:
    text = (ROOT / "docs" / "hpc.md").read_text("utf-8")
    (block,) = re.findall(rf"^```{kind} slurm\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return block


def test_the_job_of_the_page_runs(tmp_path: Path) -> None:
    sea: Any = xr.Dataset({"t": (("y", "x"), np.random.default_rng(0).normal(size=(30, 40)))})
    sea.to_zarr(tmp_path / "input.zarr", zarr_format=3, consolidated=False)
    (tmp_path / "smooth.py").write_text(_block("python"))
    (tmp_path / "job.sh").write_text(_block("sh").replace("scheduler --", "scheduler --port 0 --"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").write_text(_SRUN)
    (tmp_path / "bin" / "srun").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1"}
    with (tmp_path / "slurm.out").open("w") as output:
        job = subprocess.Popen(
            ["bash", "job.sh"],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status = job.wait(timeout=120)
        finally:
            os.killpg(job.pid, signal.SIGKILL)  # as SLURM ends what a job has started
    assert status == 0, (tmp_path / "slurm.out").read_text()
    opened: Any = xr
    with opened.open_zarr(tmp_path / "result.zarr", consolidated=False) as result:
        assert result["s"].std() < sea["t"].std() / 2
