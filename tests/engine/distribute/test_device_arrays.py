"""Variables that are arrays of CuPy: they stay on the device, or go by way of the host."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from of_device import OfDevice

from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.datasets.stores.device import OnDevice
from halocline_engine.datasets.stores.sink import ArraySink
from halocline_engine.datasets.stores.source import InMemory
from halocline_engine.datasets.untyped import variable_data
from halocline_engine.distribute.grid.partition import Block, Span, partition
from halocline_engine.distribute.grid.regions import read_box, write_box
from halocline_engine.distribute.modes import launch
from halocline_engine.distribute.modes.choose import Choice
from halocline_engine.distribute.modes.plan_events import device_inputs, results_on_device
from halocline_engine.distribute.stencils import results
from halocline_engine.distribute.stencils.request import Checked, Request, check
from halocline_engine.distribute.tasks.events import Planned
from halocline_engine.functions.reports.planning import plan_of
from halocline_engine.functions.run import run
from halocline_engine.ir.types import Axis
from halocline_engine.program import compile_program

FIVE = """
def five(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])
"""
VALUES = np.random.default_rng(3).normal(size=(12, 17))
HOW: dict[str, Any] = {"boundary": {"x": "periodic", "y": "edge"}, "feedback": {"v": "u"}}


@pytest.fixture
def data() -> xr.Dataset:
    return xr.Dataset({"u": (("y", "x"), OfDevice(VALUES))})


def gets(data: xr.Dataset) -> list[int]:
    return variable_data(data, "u").data.gets


GRID = Grid(("x", "y", None), (17, 12, 1), (), ())
USE = FieldUse("u", "u", (Axis.I, Axis.J), "float64", ("y", "x"), Role.FED)


def whole() -> Block:
    return partition(GRID.sizes, (), GRID.sizes, ())[0]


def test_what_is_on_the_device_is_read_and_written_there(data: xr.Dataset) -> None:
    """A box that goes around a periodic end, too."""
    box = (Span(-2, 19), Span(0, 12), Span(0, 1))
    found: Any = read_box(OnDevice(data), "u", USE, GRID, whole(), box)
    assert isinstance(found, OfDevice)
    around = np.concatenate([VALUES[:, -2:], VALUES, VALUES[:, :2]], axis=1)
    np.testing.assert_array_equal(found.held[..., 0], around.T)
    into = OfDevice(np.zeros((12, 17)))
    sink: Any = ArraySink({"v": into})  # pyright: ignore[reportArgumentType]
    inner: Any = found[2:-2]
    assert write_box(sink, "v", USE, GRID, whole(), inner) == VALUES.nbytes
    np.testing.assert_array_equal(into.held, VALUES)
    assert gets(data) == []


def test_other_variables_are_read_as_before(data: xr.Dataset) -> None:
    both = data.assign(c=(("y", "x"), VALUES + 1.0))
    region = (slice(0, 3), slice(2, 4))
    assert OnDevice(both).read("c", region).tolist() == (VALUES + 1.0)[region].tolist()
    assert InMemory(both).read("u", region).tolist() == VALUES[region].tolist()
    assert gets(both) == [6 * 8]


@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_a_run_on_the_host_copies_them_and_says_so(data: xr.Dataset, mode: str) -> None:
    events: list[Any] = []
    found = run(FIVE, data, steps=5, mode=mode, target="cpu", on_event=events.append, **HOW)
    on_host = xr.Dataset({"u": (("y", "x"), VALUES)})
    wanted = run(FIVE, on_host, steps=5, mode=mode, target="cpu", **HOW)
    assert type(variable_data(found, "v").data) is np.ndarray
    assert found["v"].values.tobytes() == wanted["v"].values.tobytes()
    assert isinstance(events[0], Planned)
    assert events[0].reason.endswith("; arrays of the device are copied by way of the host")
    plain = plan_of(run, FIVE, on_host, steps=5, mode=mode, target="cpu", **HOW)
    assert "device" not in plain.reason


def test_workers_get_copies(data: xr.Dataset, two_workers: Any) -> None:
    on_host = xr.Dataset({"u": (("y", "x"), VALUES)})
    wanted = run(FIVE, on_host, steps=5, target="cpu", **HOW)["v"].values
    for mode in ("streamed", "resident"):
        found = run(FIVE, data, steps=5, mode=mode, target="cpu", cluster=two_workers, **HOW)
        assert found["v"].values.tobytes() == wanted.tobytes()


def checked(data: xr.Dataset, **changes: Any) -> Checked:
    defaults: dict[str, Any] = {"fields": {}, "scalars": {}, "axes": None, "steps": 5}
    defaults |= {"chunks": {}, "output": None, "workspace": None, "attempt": 0, **HOW}
    request = Request(**{**defaults, **changes})
    return check(request, open_source(data), compile_program(FIVE, target="cuda"))


def test_results_stay_where_the_inputs_were(data: xr.Dataset) -> None:
    here: Any = SimpleNamespace(remote=False)
    away: Any = SimpleNamespace(remote=True)
    assert device_inputs(checked(data)) == ["u"]
    assert results_on_device(checked(data), here)
    assert not results_on_device(checked(data), away)
    assert not results_on_device(checked(data, every=2), here)
    assert not results_on_device(checked(xr.Dataset({"u": (("y", "x"), VALUES)})), here)


def test_the_plan_says_what_is_copied(data: xr.Dataset) -> None:
    from halocline_engine.distribute.modes import plan_events

    here: Any = SimpleNamespace(remote=False)
    kept: Any = Choice("", SimpleNamespace(ranks=((),)))  # pyright: ignore[reportArgumentType]
    assert plan_events.copied(checked(data), here, kept) == ""
    assert (
        plan_events.copied(checked(data, every=2), here, kept) == "; results are copied to the host"
    )
    assert plan_events.copied(checked(data), here, Choice("")) == (
        "; arrays of the device are copied by way of the host"
    )


@pytest.mark.parametrize(("steps", "mode"), [(1, "auto"), (5, "streamed")])
def test_workers_write_results_of_passes_into_the_memory_of_the_caller(
    two_workers: Any, monkeypatch: pytest.MonkeyPatch, steps: int, mode: str, tmp_path: Path
) -> None:
    """No store is between, which would have to be written and read."""
    on_host = xr.Dataset({"u": (("y", "x"), VALUES)})
    how: dict[str, Any] = {**HOW, "steps": steps, "target": "cpu", "mode": mode, "chunks": {"y": 4}}
    how |= {} if steps > 1 else {"feedback": None}
    wanted = run(FIVE, on_host, **how)["v"].values
    monkeypatch.setattr(launch, "in_memory_copy", None)
    monkeypatch.setattr(results, "create_result", None)
    found = run(FIVE, on_host, cluster=two_workers, **how)
    assert found["v"].values.tobytes() == wanted.tobytes()
    on_host.to_zarr(tmp_path / "in.zarr", zarr_format=3, consolidated=False)  # pyright: ignore[reportUnknownMemberType]
    stored = run(FIVE, tmp_path / "in.zarr", cluster=two_workers, **how)
    assert stored["v"].values.tobytes() == wanted.tobytes()
