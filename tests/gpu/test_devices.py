"""Blocks and rows on several devices: the bits of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from stepped_programs import BOUNDARIES, stepped

import halocline_engine as he
from halocline_engine.device.machine import CudaMachine
from halocline_engine.device.probe import device_count
from halocline_engine.distribute.tasks.events import Event, StepsFinished

pytestmark = pytest.mark.gpu

#: Blocks of `large` data are so large that their edges go out first.
SIZES = {
    ("wave", False): (1, 157, 211),
    ("wave", True): (1, 3011, 2999),
    ("star", False): (7, 61, 83),
    ("star", True): (45, 509, 601),
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["wave", "star"])
def test_any_number_of_devices_makes_the_same_bits(
    machine: CudaMachine, name: str, dtype: str, large: bool
) -> None:
    devices = device_count()
    if devices == 1:
        pytest.skip("needs two devices")
    assert machine.facts.index >= 0
    text, data, how = stepped(name, dtype, SIZES[name, large])
    ny, nx = data.sizes["y"], data.sizes["x"]
    for boundary in BOUNDARIES:
        how |= {"boundary": boundary, "steps": 53, "target": "cuda", "mode": "resident"}
        expected = he.run(text, data, **how)
        for chunks, steps in (
            ({"y": -(-ny // devices)}, None),
            ({"y": -(-ny // devices)}, 1),
            ({"x": -(-nx // devices)}, 4),
            ({"y": ny // 3, "x": nx // 2}, 5),
        ):
            events: list[Event] = []
            found = he.run(
                text,
                data,
                cluster=devices,
                chunks=chunks,
                options=he.Options(steps_per_pass=steps),
                on_event=events.append,
                **how,
            )
            transports = {e.transport for e in events if isinstance(e, StepsFinished)}
            assert transports == {"peer memory"}
            for one in expected.data_vars:
                np.testing.assert_array_equal(found[one].values, expected[one].values)


@pytest.mark.parametrize("sizes", [{"z": 1_000_003}, {"z": 40_000, "x": 33}, {"x": 5, "z": 40_000}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_devices_share_are_solved_with_the_same_bits(
    machine: CudaMachine, sizes: dict[str, int], dtype: str
) -> None:
    devices = device_count()
    if devices == 1:
        pytest.skip("needs two devices")
    assert machine.facts.index >= 0
    rng = np.random.default_rng(5)
    shape, dims = tuple(sizes.values()), tuple(sizes)
    bands = {one: rng.normal(size=shape).astype(dtype) for one in "abcd"}
    bands["b"] = 1 + abs(bands["a"]) + abs(bands["c"])
    data = xr.Dataset({one: (dims, values) for one, values in bands.items()})
    names: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    for options in ({}, {"periodic": True}, {"residual": True}):
        how: dict[str, Any] = {**names, **options, "target": "cuda", "mode": "resident"}
        expected = he.tridiagonal(data, **how)
        found = he.tridiagonal(data, **how, cluster=devices)
        for one in expected.data_vars:
            np.testing.assert_array_equal(found[one].values, expected[one].values)
