"""Clocks, forcing and scalars by step through a service: client, command and job file."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline import ArgumentError, Client, FieldError
from halocline.command.cli import main
from halocline.inputs.arguments import plain

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

DRIVEN = """
def driven(u: Field[float], f: Field[float], v: Field[float], a: float, t: float):
    with computation(PARALLEL), interval(...):
        v = u + a * f + 1e-6 * t
"""
HOURS = cast(Any, np).arange("2015-01-01", "2015-01-01T06", np.timedelta64(1, "h"), "M8[ns]")
GIVEN: dict[str, Any] = {
    "feedback": {"v": "u"},
    "target": "reference",
    "steps": 5,
    "snapshot_every": 2,
    "scalars": {
        "a": xr.DataArray(np.linspace(0.1, 0.5, 5), dims="step"),
        "t": {"clock": "seconds"},
    },
    "time": {"start": HOURS[0], "step": dt.timedelta(minutes=30), "interpolate": {"f": "mean"}},
}


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def sea() -> xr.Dataset:
    rng = np.random.default_rng(5)
    edges = np.stack([HOURS, HOURS + np.timedelta64(1, "h")], axis=1)
    return xr.Dataset(
        {
            "u": (("y", "x"), rng.normal(size=(3, 4))),
            "f": (("time", "y", "x"), rng.normal(size=(6, 3, 4))),
            "edges": (("time", "two"), edges),
        },
        coords={"time": ("time", HOURS, {"bounds": "edges"})},
    )


def command(url: str, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([*words, "--url", url, "--quiet"])
    assert end.value.code == 0, capsys.readouterr().err


def test_all_interfaces_have_the_result_of_the_library(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = he.run(DRIVEN, sea(), **GIVEN)
    assert expected["v"].dims == ("time", "y", "x")
    results = [client.stencil(DRIVEN, sea(), **GIVEN).result()]
    cast(Any, sea()).to_zarr(tmp_path / "sea.zarr")
    (tmp_path / "driven.py").write_text(DRIVEN)
    inputs = {"program": "driven.py", "dataset": "sea.zarr", **plain(GIVEN)}
    job = {"process": "stencil", "inputs": inputs, "output": "r.zarr"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    command(client.url, capsys, "run", str(tmp_path / "job.json"))
    results.append(cast(Any, xr).open_zarr(tmp_path / "r.zarr"))
    for one in results:
        np.testing.assert_array_equal(one["v"].values, expected["v"].values)
        np.testing.assert_array_equal(one["time"].values, expected["time"].values)


def test_the_command_has_a_clock(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cast(Any, sea()).to_zarr(tmp_path / "sea.zarr")
    (tmp_path / "driven.py").write_text(DRIVEN)
    words = ("--time", "start=2015-01-01,step=15min,duration=2h", "--time", "interpolate.f=nearest")
    words += ("--scalar", "t=clock:seconds", "--scalar", "a=0.5", "--feedback", "v=u")
    files = (str(tmp_path / "driven.py"), str(tmp_path / "sea.zarr"))
    command(client.url, capsys, "run", *files, *words, "--output", str(tmp_path / "r.nc"))
    time = {"start": "2015-01-01", "step": "15min", "interpolate": "nearest"}
    given: dict[str, Any] = {**GIVEN, "time": time, "steps": 8, "snapshot_every": None}
    given["scalars"] = {"a": 0.5, "t": {"clock": "seconds"}}
    expected = he.run(DRIVEN, sea(), **given)
    with cast(Any, xr).open_dataset(tmp_path / "r.nc") as result:
        np.testing.assert_array_equal(result["v"].values, expected["v"].values)
        assert result["time"].values == np.datetime64("2015-01-01T02:00")


def test_mistakes_are_refused_at_submission(client: Client) -> None:
    before = len(client.jobs())

    def told(**given: Any) -> str:
        with pytest.raises((ArgumentError, FieldError)) as caught:
            client.stencil(DRIVEN, sea(), **cast(Any, {**GIVEN, **given}))
        assert len(client.jobs()) == before
        return caught.value.message

    later = {"start": "2015-01-01T05:00", "step": "15min", "interpolate": "linear"}
    assert told(time=later) == (
        "The run needs field 'f' from 2015-01-01T05:00:00 to 2015-01-01T06:00:00, but its records"
        " along 'time' cover 2015-01-01 to 2015-01-01T05:00:00 with 'linear'."
    )
    assert "must be an exact positive duration" in told(time={"start": "2015-01-01", "step": "1M"})
    assert "as many as there are steps, got 5" in told(
        steps=4, time={**later, "start": "2015-01-01"}
    )
    assert "'time_of_day', got 'years'" in told(scalars={"a": {"clock": "years"}, "t": 0.0})


def test_dates_and_arrays_travel_as_json() -> None:
    noleap = cast(Any, cftime).DatetimeNoLeap(2015, 2, 28, 6)
    given = {
        "scalars": {"a": {"values": np.arange(2), "dim": "member"}, "b": 1.5},
        "time": {"start": noleap, "end": dt.date(2016, 1, 1), "step": np.timedelta64(15, "m")},
    }
    told = plain(given)
    assert json.loads(json.dumps(told)) == told
    assert told["scalars"] == {"a": {"values": [0, 1], "dim": "member"}, "b": 1.5}
    assert told["time"] == {
        "start": "2015-02-28T06:00:00",
        "end": "2016-01-01T00:00:00.000000",
        "step": "900000000us",
    }
    start = xr.DataArray(HOURS[1])
    assert plain({"time": {"start": start}})["time"]["start"] == "2015-01-01T01:00:00.000000"
    start.attrs["halocline_start"] = "2014-12-31"
    assert plain({"time": {"start": start}})["time"]["reference"] == "2014-12-31"
    both = xr.DataArray(np.zeros((2, 2)), dims=("step", "member"))
    with pytest.raises(ArgumentError, match="an array along one dimension"):
        plain({"scalars": {"a": both}})
