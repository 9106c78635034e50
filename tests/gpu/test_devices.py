"""Blocks on several devices, which store halos into each other's memory: the bits of one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.device.machine import CudaMachine
from halocline_engine.device.probe import device_count
from halocline_engine.distribute.tasks.events import Event, StepsFinished

pytestmark = pytest.mark.gpu

WAVE = """
def wave(now: Field[T], old: Field[T], next: Field[T], kept: Field[T], c: T):
    with computation(PARALLEL), interval(...):
        around = now[1, 0, 0] + now[-1, 0, 0] + now[0, 1, 0] + now[0, -1, 0]
        next = T(2.0) * now - old + c * (around - T(4.0) * now)
        kept = now
"""
STAR = """
def star(u: Field[T], v: Field[T], w: Field[IJ, T]):
    with computation(PARALLEL), interval(1, -1):
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -2, 0] + u[0, 0, 1] + u[0, 0, -1]
        v = u + w * (around - T(6.0) * u)
    with computation(PARALLEL), interval(0, 1):
        v = u[0, 0, 1]
    with computation(PARALLEL), interval(-1, None):
        v = u
"""
BOUNDARIES: list[dict[str, Any]] = [
    {"x": "periodic", "y": "periodic"},
    {"x": "edge", "y": {"low": "reflect", "high": "none"}},
    {"x": {"constant": 0.5}, "y": "extrapolate"},
]


def case(name: str, dtype: str, *, large: bool) -> tuple[str, xr.Dataset, dict[str, Any]]:
    """Return a program, its data and arguments; edges go out first where blocks are `large`."""
    rng = np.random.default_rng(5)
    number = "np." + dtype
    if name == "wave":
        shape = (3011, 2999) if large else (157, 211)
        values = {one: (("y", "x"), rng.normal(size=shape).astype(dtype)) for one in ("now", "old")}
        how = {"scalars": {"c": 0.2}, "feedback": {"next": "now", "kept": "old"}}
        return WAVE.replace("T", number), xr.Dataset(values), how
    nz, ny, nx = (45, 509, 601) if large else (7, 61, 83)
    star = {
        "u": (("z", "y", "x"), rng.normal(size=(nz, ny, nx)).astype(dtype)),
        "w": (("y", "x"), rng.uniform(0.0, 0.1, size=(ny, nx)).astype(dtype)),
    }
    return STAR.replace("T", number), xr.Dataset(star), {"feedback": {"v": "u"}}


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
    text, data, how = case(name, dtype, large=large)
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
