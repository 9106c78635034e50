"""A double-gyre model in one run equals a loop in NumPy, and has the same bits in any way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import gyre
import numpy as np
import pytest
import xarray as xr
from gyre_ways import FIELDS, GyreWay, compare_ways, digests, run_gyre
from numpy.typing import NDArray

NX, NY = 20, 16
STEPS = 300
#: Two minutes after midnight, so that a step begins on a day and ends on the next one.
START = np.datetime64("2015-01-01T00:02:00", "s")


@pytest.fixture(scope="module")
def basin() -> xr.Dataset:
    data: Any = gyre.gyre_dataset(NX, NY, 3)
    days = np.asarray(data["time"].values)
    bounds = np.stack([days, days + np.timedelta64(1, "D")], axis=1)
    data["time"].attrs["bounds"] = "time_bounds"
    return data.assign_coords(time_bounds=(("time", "two"), bounds))


def wind_at(records: NDArray[np.float64], seconds: float, method: str) -> NDArray[np.float64]:
    """Return the wind of the step that begins so many seconds after the first daily record."""
    day, rest = divmod(seconds, 86400.0)
    before, after, part = records[int(day)], records[int(day) + 1], rest / 86400.0
    match method:
        case "linear":
            return before + part * (after - before)
        case "previous":
            return before
        case "nearest":
            return before if part < 0.5 else after
        case _:
            late = max(0.0, rest + 300.0 - 86400.0) / 300.0
            return (1.0 - late) * before + late * after


def loop(data: xr.Dataset, steps: int, method: str, since: float) -> list[dict[str, Any]]:
    """Return the fields after each step of a loop in NumPy."""
    now: tuple[Any, Any, Any] = (data["h"].values, data["u"].values, data["v"].values)
    records, f = np.asarray(data["taux"].values), np.asarray(data["f"].values)
    states: list[dict[str, Any]] = []
    for step in range(steps):
        now = gyre.step_gyre(*now, wind_at(records, since + 300.0 * step, method), f)
        states.append(dict(zip(FIELDS, now, strict=True)))
    return states


@pytest.mark.parametrize("method", ["linear", "previous", "nearest", "mean"])
def test_the_model_equals_a_loop_in_numpy(basin: xr.Dataset, method: str) -> None:
    time = {"start": START, "step": "300s", "interpolate": method}
    result = run_gyre(basin, STEPS, time=time)
    states = loop(basin, STEPS, method, 120.0)
    for name in FIELDS:
        wanted = states[-1][name]
        scale = abs(wanted).max()
        assert scale > 1e-3, name
        error = abs(result[name].transpose(*basin[name[0]].dims).values - wanted).max()
        assert error <= 1e-12 * scale, (name, error / scale)
    measured = [states[step - 1]["h_new"] for step in range(30, STEPS + 1, 30)]
    ends = START + np.arange(30, STEPS + 1, 30) * np.timedelta64(300, "s")
    assert (result["time"].values == ends).all()
    tops = [one.max() for one in measured]
    np.testing.assert_allclose(result["top"].values, tops, rtol=1e-12)
    means = [one.mean(axis=1) for one in measured]
    np.testing.assert_allclose(result["zonal"].values, means, rtol=1e-12)


def test_mass_is_kept(basin: xr.Dataset) -> None:
    result = run_gyre(basin, STEPS)
    before = math.fsum(basin["h"].values.ravel())
    assert abs(result["mass"].values / before - 1.0).max() <= 1e-14
    assert result["mass"].values[-1] == math.fsum(result["h_new"].values.ravel())
    assert abs(result["h_new"].values - gyre.CONSTANTS["depth"]).max() > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_drawn_ways_have_the_same_bits(seed: int) -> None:
    assert compare_ways(seed, ways=6, nx=NX, ny=NY, steps=30) == []


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_stopped_model_goes_on(target: str) -> None:
    data = gyre.gyre_dataset(NX, NY, 1)
    way = GyreWay(target, chunks={"xh": 7, "yh": 9}, ranks=3, output="out.zarr", stopped=2)
    assert digests(data, 30, way) == digests(data, 30, GyreWay(target))
    streamed = replace(way, mode="streamed", steps_per_pass=3, output="out.nc")
    assert digests(data, 30, streamed)[0] == digests(data, 30, GyreWay(target))[0]


def test_another_wind_changes_the_bits() -> None:
    data = gyre.gyre_dataset(NX, NY, 1)
    other = data.assign(taux=data["taux"] * (1.0 + 1e-15))
    assert digests(other, 30, GyreWay()) != digests(data, 30, GyreWay())
