"""Arrays that processes of one machine share."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.memory.shared import (
    can_share,
    share_results,
    share_variables,
)
from halocline_engine.errors import CapacityError
from halocline_engine.ir.types import Axis


def test_variables_are_read_by_regions_and_results_stay_when_all_is_closed() -> None:
    rng = np.random.default_rng(1)
    data = xr.Dataset({"a/b": (("y", "x"), rng.random((70, 50))), "n": ((), 3)})
    lazy = cast(Any, data).chunk({"y": 16})
    grid = Grid(("x", "y", None), (50, 70, 1), (), ())
    use = FieldUse("v", "v", (Axis.I, Axis.J), "float32", ("y", "x"), Role.CREATED)
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        for dataset in (data, lazy):
            shared = share_variables(dataset, ["a/b", "n"], stack)
            region = (slice(3, 60), slice(7, 9))
            np.testing.assert_array_equal(shared.read("a/b", region), data["a/b"].values[region])
            assert shared.read("n", ()) == 3
        results = share_results({"v": use}, grid, stack)
        results.write("v", (slice(0, 70), slice(0, 50)), np.ones((70, 50), np.float32))
        values = results.values()["v"]
    assert values.sum() == 70 * 50
    values[...] = 2.0  # it is the caller's
    del values, results
    assert len(os.listdir("/proc/self/fd")) == before


DOUBLE = """
import pickle, sys
shared = pickle.loads(bytes.fromhex(sys.argv[1]))
shared.write("u", (slice(None),), 2.0 * shared.read("u", (slice(None),)))
"""


def test_another_process_reads_and_writes_the_same_memory() -> None:
    data = xr.Dataset({"u": ("x", np.arange(5.0))})
    with ExitStack() as stack:
        shared = share_variables(data, ["u"], stack)
        told = pickle.dumps(shared).hex()
        subprocess.run([sys.executable, "-c", DOUBLE, told], check=True)
        np.testing.assert_array_equal(shared.read("u", (slice(None),)), 2.0 * np.arange(5.0))


def test_what_does_not_fit_is_refused_before_it_is_touched() -> None:
    assert can_share(1)
    assert not can_share(2**60)
    data = xr.Dataset({"u": ("x", np.arange(5.0))})
    full = OSError(28, "No space left on device")
    with (
        ExitStack() as stack,
        patch("os.posix_fallocate", side_effect=full),
        pytest.raises(CapacityError) as caught,
    ):
        share_variables(data, ["u"], stack)
    assert str(caught.value) == (
        "The machine has no 40 bytes of memory that processes can share: [Errno 28] No space left"
        " on device. Use fewer or larger workers, or give output=."
    )
    assert Path("/proc/self/fd").exists()
