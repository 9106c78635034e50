"""What only some systems have is not needed to import the engine and to run on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import os, sys
import dask, distributed, netCDF4, numba, psutil, xarray, zarr  # which know each system
for name in ("resource", "fcntl", "termios", "pwd", "grp"):
    sys.modules[name] = None
for name in (
    "sched_getaffinity", "sched_setaffinity", "preadv", "pread", "pwrite", "pwritev", "fork",
    "memfd_create", "posix_fallocate", "copy_file_range", "sendfile", "O_DIRECT", "O_DIRECTORY",
    "O_NOFOLLOW",
):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(os, "process_cpu_count"):
    os.process_cpu_count = os.cpu_count
os.supports_dir_fd, os.supports_fd = set(), set()
os.kill = None  # which ends processes that it is to look for
import numpy as np
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

values = np.arange(4800.0).reshape(60, 80)
products = {"left": (("y", "q"), values), "right": (("q", "z"), values.T)}
dataset = xr.Dataset({"a": (("y", "x"), values), **products})
for packed in ("auto", None):
    store = f"{packed}.zarr"
    chunks = {name: {"chunks": (30, 30), "compressors": packed} for name in ("a", "left", "right")}
    dataset.to_zarr(store, consolidated=False, encoding=chunks)
    options = {"boundary": {"x": "edge"}, "target": "cpu", "chunks": {"y": 20}}
    for mode in ("streamed", "resident"):
        more = {"steps": 2, "feedback": {"b": "a"}, "workspace": f"{mode}-work"}
        result = he.run(program, store, **options, **more, mode=mode, output=f"{mode}-{store}")
        print(float(result["b"].sum()))
    factors = {"left": "left", "right": "right", "dim": "q", "target": "cpu"}
    product = he.matmul(store, **factors, output=f"p-{store}")
    print(np.allclose(product["product"], values @ values.T))
"""


def test_a_stencil_and_a_product_run_without_what_one_system_has(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    *small, s1, r1, p1, s2, r2, p2 = done.stdout.splitlines()
    assert small == ["[[2.0, 4.0, -6.0]]", "[[2.0, 4.0, nan]]"] * 2
    assert [s1, r1, s2, r2] == ["-60.0"] * 4  # -1 in each row, beside the edge
    assert [p1, p2] == ["True", "True"]
