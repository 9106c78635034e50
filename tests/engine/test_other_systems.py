"""What only some systems have is not needed to import the engine and to run on the CPU."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import os, sys
import dask, distributed, netCDF4, numba, psutil, xarray, zarr  # which know each system
for name in ("resource", "fcntl", "termios", "pwd", "grp"):
    sys.modules[name] = None
del os.sched_getaffinity
import xarray as xr
import halocline
import halocline_engine as he

program = '''
def f(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = a[1, 0, 0] - a
'''
dataset = xr.Dataset({"a": (("y", "x"), [[1.0, 3.0, 7.0]])})
for target in ("reference", "cpu"):
    result = he.run(program, dataset, boundary={"x": "periodic"}, target=target)
    print(result["b"].values.tolist())
    result = halocline.run_local("stencil", program=program, dataset=dataset, target=target)
    print(result["b"].values.tolist())
"""


def test_a_stencil_runs_without_modules_of_one_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[[2.0, 4.0, -6.0]]", "[[2.0, 4.0, nan]]"] * 2
