"""Runs of arrays of a device, which cores stand for here: nothing goes by way of the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.backends.targets import TARGETS
from halocline_engine.distribute.blocks import work as blocks_work
from halocline_engine.distribute.executors import local
from halocline_engine.distribute.modes import launch, plan_events
from halocline_engine.distribute.resident import work as resident_work
from halocline_engine.distribute.stencils import passes, results
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.functions.reports.planning import plan_of

FIVE = """
def five(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])
"""
BOTH = """
def both(u: Field[float], v: Field[float], w: Field[IJ, float]):
    with computation(PARALLEL), interval(...):
        v = u[1, 0, 0] - u
    with computation(FORWARD), interval(0, 1):
        w = 2.0 * v
"""
SIDES: tuple[dict[str, str], ...] = ({"x": "periodic", "y": "edge"}, {"x": "periodic"}, {})


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Let all variables lie on a device of some bytes, whose arrays are those of the host."""
    found = {"bytes": 1 << 30}
    cores = TARGETS["cpu"]

    def there(*_: object) -> bool:
        return True

    monkeypatch.setattr(plan_events, "is_on_device", there)
    monkeypatch.setattr(local, "device_bytes", lambda: found["bytes"])
    monkeypatch.setattr(resident_work, "own_stream", contextlib.nullcontext)
    monkeypatch.setattr(launch, "wait_for_all", lambda: None)
    monkeypatch.setattr(passes, "wait_for_all", lambda: None)
    monkeypatch.setattr(results, "new_array", np.empty)
    monkeypatch.setattr(blocks_work, "brought", np.asarray)
    monkeypatch.setattr(blocks_work, "new_array", np.empty)
    object.__setattr__(cores, "on_device", True)
    yield found
    object.__setattr__(cores, "on_device", False)


def data(*, extra: int = 0) -> xr.Dataset:
    sizes = (("time", extra),) * bool(extra) + (("y", 60), ("x", 70))
    values = np.random.default_rng(4).normal(size=[size for _, size in sizes])
    return xr.Dataset({"u": ([dim for dim, _ in sizes], values)})


def ran(program: str, dataset: xr.Dataset, **how: Any) -> tuple[xr.Dataset, Planned]:
    events: list[Event] = []
    found = he.run(program, dataset, target="cpu", on_event=events.append, **how)
    assert isinstance(events[0], Planned)
    return found, events[0]


def steps_of(count: int) -> dict[str, Any]:
    return {"steps": count, "feedback": {"v": "u"} if count > 1 else None}


def on_host(room: dict[str, int], program: str, dataset: xr.Dataset, **how: Any) -> xr.Dataset:
    """Return the result of cores, whose arrays are on the host."""
    object.__setattr__(TARGETS["cpu"], "on_device", False)
    try:
        return he.run(program, dataset, target="cpu", mode="streamed", **how)
    finally:
        object.__setattr__(TARGETS["cpu"], "on_device", True)


@pytest.mark.parametrize("boundary", SIDES)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_steps_stay_with_two_fields_beside_the_input(
    room: dict[str, int], boundary: dict[str, str], steps: int
) -> None:
    dataset = data()
    how = {"boundary": boundary, **steps_of(steps)}
    field = dataset["u"].nbytes
    room["bytes"] = int(2.6 * field / 0.85)
    found, planned = ran(FIVE, dataset, **how)
    assert planned.mode == ("resident" if steps > 1 else "streamed")
    if steps > 1:
        assert planned.blocks == 1
        assert planned.projected_bytes < 2.6 * field
    assert "copied" not in planned.reason
    assert found["v"].dims == ("y", "x")
    expected = on_host(room, FIVE, dataset, **how)
    np.testing.assert_array_equal(found["v"].values, expected["v"].values)


@pytest.mark.parametrize("boundary", SIDES)
@pytest.mark.parametrize(("program", "fields"), [(FIVE, 1.6), (BOTH, 2.6)])
def test_a_step_of_more_goes_in_blocks_with_the_result_beside_the_input(
    room: dict[str, int], boundary: dict[str, str], program: str, fields: float
) -> None:
    dataset = data()
    room["bytes"] = int(fields * dataset["u"].nbytes / 0.85)
    found, planned = ran(program, dataset, boundary=boundary)
    assert planned.mode == "streamed"
    assert planned.blocks > 1
    assert "copied" not in planned.reason
    expected = on_host(room, program, dataset, boundary=boundary)
    for name in expected.data_vars:
        np.testing.assert_array_equal(found[name].values, expected[name].values)


@pytest.mark.parametrize("mode", ["auto", "resident"])
@pytest.mark.parametrize("steps", [1, 3])
def test_points_of_other_dimensions_stay_as_well(
    room: dict[str, int], mode: str, steps: int
) -> None:
    dataset = data(extra=3)
    how = {"boundary": SIDES[0], **steps_of(steps)}
    found, planned = ran(FIVE, dataset, mode=mode, **how)
    assert planned.mode == ("streamed" if mode == "auto" and steps == 1 else "resident")
    assert "copied" not in planned.reason
    expected = on_host(room, FIVE, dataset, **how)
    np.testing.assert_array_equal(found["v"].values, expected["v"].values)


def test_what_has_no_room_says_that_it_is_copied(room: dict[str, int]) -> None:
    room["bytes"] = data()["u"].nbytes
    planned = plan_of(he.run, FIVE, data(), boundary={"x": "periodic"}, target="cpu")
    assert planned.mode == "streamed"
    assert planned.reason.endswith("; arrays of the device are copied by way of the host")


@pytest.mark.parametrize("method", ["previous", "linear"])
def test_records_of_a_device_stay_there(room: dict[str, int], method: str) -> None:
    program = FIVE.replace("v: Field[float]", "f: Field[float], v: Field[float]")
    program = program.replace("0.25 *", "f[0, 1, 0] + 0.25 *")
    hours = np.array(["2015-01-01T00", "2015-01-01T01", "2015-01-01T02"], "datetime64[ns]")
    dataset: Any = data().assign(
        f=(("time", "y", "x"), np.random.default_rng(5).normal(size=(3, 60, 70)))
    )
    dataset = dataset.assign_coords(time=hours)
    time = {"start": "2015-01-01", "step": "15min", "interpolate": method}
    how: dict[str, Any] = {"boundary": SIDES[0], "time": time, **steps_of(8)}
    found, planned = ran(program, dataset, **how)
    assert planned.mode == "resident"
    expected = on_host(room, program, dataset, **how)
    np.testing.assert_array_equal(found["v"].values, expected["v"].values)
    assert found["time"].values == hours[2]
