"""Tiles of products: the same bits for any number of threads, of ours and of BLAS."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from halocline_engine.kernels.matmul import cpu, reference

SCRIPT = """
import hashlib, sys
import numpy as np
from halocline_engine.kernels.matmul import cpu
rng = np.random.default_rng(0)
made = hashlib.sha256()
for rows, columns, inner in ((300, 200, 513), (7, 1100, 700), (1, 64, 999)):
    for dtype in ("f4", "f8"):
        left = rng.normal(size=(1, rows, inner)).astype(dtype)
        right = rng.normal(size=(1, inner, columns)).astype(dtype)
        total = np.full((1, rows, columns), np.nan, dtype)
        cpu.add_product(left, right, total, new=True, threads=int(sys.argv[1]))
        cpu.add_product(left, right, total, new=False, threads=int(sys.argv[1]))
        made.update(total.tobytes())
print(made.hexdigest())
"""


def test_threads_of_blas_change_no_bit() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, ours],
            env={**os.environ, "OPENBLAS_NUM_THREADS": theirs},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for ours, theirs in (("1", "1"), ("3", "2"))
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == hashlib.sha256().digest_size * 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_are_added_to_what_is_there(dtype: str) -> None:
    rng = np.random.default_rng(1)
    left = rng.normal(size=(2, 150, 40)).astype(dtype)
    right = rng.normal(size=(2, 40, 1030)).astype(dtype)
    exact = left.astype("g") @ right.astype("g")
    judged = np.full(exact.shape, np.nan, reference.WIDER[dtype])
    reference.add_product(left, right, judged, new=True)
    found = np.full(exact.shape, np.nan, dtype)
    cpu.add_product(left, right, found, new=True, threads=2)
    within = 64 * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right)).max()
    np.testing.assert_allclose(judged.astype("g"), exact, rtol=0, atol=within)
    np.testing.assert_allclose(found.astype("g"), exact, rtol=0, atol=within)
    cpu.add_product(left, right, found, new=False, threads=2)
    reference.add_product(left, right, judged, new=False)
    np.testing.assert_allclose(found.astype("g"), judged.astype("g"), rtol=0, atol=2 * within)
