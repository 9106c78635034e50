"""Arrays of this process that others read and write where they lie."""

from __future__ import annotations

import gc
import pickle
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
import psutil
import pytest
import xarray as xr

from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.memory.reached import reach_results, reach_variables
from halocline_engine.far_memory import FarArray
from halocline_engine.ir.types import Axis

GRID = Grid(("x", "y", None), (5000, 4000, 1), (), ())
USE = FieldUse("v", "v", (Axis.I, Axis.J), "float32", ("y", "x"), Role.CREATED)
BYTES = 4 * 5000 * 4000


def taken() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def test_variables_are_read_by_regions() -> None:
    values = np.random.default_rng(1).random((70, 50))
    data = xr.Dataset({"a": (("y", "x"), values), "n": ((), 3)})
    swapped = xr.Dataset({"a": (("y", "x"), values.astype(">f8")), "n": ((), 3)})
    apart = xr.Dataset({"a": (("y", "x"), np.repeat(values, 2, axis=1)[:, ::2]), "n": ((), 3)})
    region = (slice(3, 60), slice(7, 9))
    with ExitStack() as stack:
        for dataset in (data, cast(Any, data).chunk({"y": 16}), swapped, apart):
            made = reach_variables(dataset, ["a", "n"], stack)
            there = pickle.loads(pickle.dumps(made))
            np.testing.assert_array_equal(there.read("a", region), values[region])
            assert there.read("n", ()) == 3
        assert made.places["n"].shape == ()
        first = reach_variables(data, ["a"], stack)
        assert first.places["a"].address == values.__array_interface__["data"][0]


def test_what_the_system_does_not_read_for_others_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(1).random((7, 5))
    copied: list[int] = []

    def refused(_far: FarArray, _into: Any) -> None:
        copied.append(1)
        raise OSError(14, "Bad address")

    with ExitStack() as stack, monkeypatch.context() as patched:
        patched.setattr(FarArray, "fetch", refused)
        made = reach_variables(xr.Dataset({"a": (("y", "x"), values)}), ["a"], stack)
        patched.undo()
        assert copied
        assert made.places["a"].address != values.__array_interface__["data"][0]
        np.testing.assert_array_equal(made.read("a", (slice(None), slice(2, 4))), values[:, 2:4])


def test_results_are_arrays_whose_memory_is_free_when_they_are_dropped() -> None:
    before = taken()
    with ExitStack() as stack:
        sink, arrays = reach_results({"v": USE}, GRID, stack)
        sink.write("v", (slice(0, 4000), slice(0, 5000)), np.ones((4000, 5000), np.float64))
    assert arrays["v"].dtype == np.float32
    assert arrays["v"].sum() == 5000 * 4000
    assert taken() > before + BYTES // 2
    arrays["v"][...] = 2.0  # it is the caller's
    del arrays
    assert taken() < before + BYTES // 2


def test_after_an_error_nobody_writes_and_the_memory_is_free() -> None:
    region = (slice(0, 4000), slice(0, 5000))
    ones = np.ones((4000, 5000), np.float32)
    before = taken()
    stack = ExitStack()
    sink, arrays = reach_results({"v": USE}, GRID, stack)
    sink.write("v", region, ones)
    stack.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert not arrays["v"].any()  # they may still be looked at
    del arrays
    assert taken() < before + BYTES // 2
    with pytest.raises(OSError, match="Bad address"):
        sink.write("v", region, ones)
