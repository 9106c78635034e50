"""Runs with a clock: scalars by step, labels, and forcing, against loops in NumPy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr
from clocked_runs import HOURS, SMALL, small, stepped
from numpy.typing import NDArray

from halocline_engine.datasets.untyped import XARRAY
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    PassFinished,
    Planned,
    Resumed,
    SnapshotWritten,
)
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import HaloclineError
from halocline_engine.functions.run import run

_CFTIME: Any = cast(Any, cftime)
_NUMPY: Any = cast(Any, np)
CALENDARS = ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day")
#: What drives a field: two of them by neighbours, scalars that the clock tells, one by step.
DRIVEN = """
def driven(
    u: Field[float], wind: Field[float], heat: Field[IJ, np.float64], v: Field[float],
    now: float, number: int, day: float, noon: float, alpha: float, quiet: bool,
):
    with computation(PARALLEL), interval(...):
        v = u + alpha * (u[-1, 0, 0] - u) * wind[1, 0, 0] + heat[0, -1]
        if number % 3 == 1:
            v = v + 1e-3 * day + 1e-5 * noon
        if not quiet:
            v = v * 1.0000001 + now * 1e-9
"""
SIZES = {"time": 0, "z": 3, "y": 17, "x": 23}
BOUNDARY = {"x": "periodic", "y": "edge"}
MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Case:
    """A clock and the records of two fields, as Python's or cftime's dates."""

    calendar: str
    start: Any
    step: dt.timedelta
    steps: int
    times: Sequence[Any]
    bounds: Sequence[Any]
    method: str
    cyclic: bool = False

    @property
    def period(self) -> dt.timedelta:
        return self.bounds[-1] - self.bounds[0]

    @property
    def time(self) -> dict[str, Any]:
        step = f"{self.step // MICROSECOND}us"
        found = {"start": self.start, "step": step, "interpolate": self.method}
        return {**found, "calendar": self.calendar, "cyclic": self.cyclic}


def date(calendar: str, *parts: int) -> Any:
    if calendar in ("standard", "proleptic_gregorian"):
        return dt.datetime(*parts)  # type: ignore[arg-type]
    return _CFTIME.datetime(*parts, calendar=calendar)


def drawn_case(random: Random) -> Case:
    """Draw a clock that runs over the end of a year, and records that cover it."""
    calendar = random.choice(CALENDARS)
    step = dt.timedelta(seconds=random.choice((450, 900, 1000, 3600, 21600)))
    steps = random.randint(5, 24)
    start = date(calendar, random.choice((1999, 2003, 2015)), 12, 30, random.randint(0, 23), 30)
    before, bounds = step * random.randint(0, 3) + dt.timedelta(seconds=11), list[Any]()
    bounds.append(start - before)
    apart = step * random.choice((1, 2, 3, 4)) + dt.timedelta(seconds=random.choice((0, 0, 7)))
    cyclic = random.random() < 0.3
    end = start + step * (3 if cyclic else steps + 4) + apart * 2
    while bounds[-1] < end:
        bounds.append(bounds[-1] + apart * (1 if random.random() < 0.6 else random.randint(1, 2)))
    times = [low + (high - low) // 2 for low, high in pairwise(bounds)]
    if not cyclic and times[0] > start:
        shift = times[0] - start
        bounds, times = [one - shift for one in bounds], [one - shift for one in times]
    method = random.choice(("previous", "nearest", "linear", "mean"))
    return Case(calendar, start, step, steps, times, bounds, method, cyclic)


def dataset_of(case: Case, seed: int = 0) -> xr.Dataset:
    rng, count = np.random.default_rng(seed), len(case.times)
    z, y, x = (SIZES[dim] for dim in ("z", "y", "x"))
    is_numpy = isinstance(case.start, dt.datetime)
    kind: Any = "datetime64[us]" if is_numpy else object
    bounds = list(pairwise(case.bounds))
    return xr.Dataset(
        {
            "u": (("z", "y", "x"), rng.normal(size=(z, y, x))),
            "wind": (("time", "z", "y", "x"), rng.normal(size=(count, z, y, x))),
            "heat": (("y", "time", "x"), rng.normal(size=(y, count, x))),
            "edges": (("time", "two"), np.array(bounds, kind)),
        },
        coords={"time": ("time", np.array(case.times, kind), {"bounds": "edges"})},
    ).set_coords("edges")


def value_of(case: Case, records: NDArray[Any], at: Any) -> NDArray[Any]:
    """Return what records along the first dimension are in the step that begins at a time."""
    count, period = len(case.times), case.period
    turns = range(-60, 61) if case.cyclic else range(1)
    times = [(one + period * turn, n) for turn in turns for n, one in enumerate(case.times)]
    if case.method == "mean":
        edges = list(pairwise(case.bounds))
        spans = [
            (a + period * t, b + period * t, n) for t in turns for n, (a, b) in enumerate(edges)
        ]
        parts = [
            ((min(b, at + case.step) - max(a, at)) / case.step, n)
            for a, b, n in spans
            if a < at + case.step and b > at
        ]
        found = first = records[parts[0][1]]
        for weight, number in parts[1:]:
            found = found + weight * (records[number] - first)
        return found
    if case.method == "nearest":
        return records[min(times, key=lambda one: (abs(one[0] - at), times.index(one) * -1))[1]]
    low, number = max((one for one in times if one[0] <= at), key=lambda one: one[0])
    if case.method == "previous" or low == at:
        return records[number]
    high = min(one for one, _ in times if one > at)
    weight = (at - low) / (high - low)
    return records[number] + weight * (records[(number + 1) % count] - records[number])


def looped(case: Case, dataset: xr.Dataset, alpha: NDArray[Any], quiet: NDArray[Any]) -> Any:
    """Return the result of a loop in NumPy, of which no line is Halocline's."""
    u = dataset.u.values
    wind, heat = dataset.wind.values, np.moveaxis(dataset.heat.values, 1, 0)
    year = date(case.calendar, case.start.year, 1, 1)
    later = date(case.calendar, case.start.year + 1, 1, 1)
    for number in range(case.steps):
        at = case.start + case.step * number
        w, h = value_of(case, wind, at), value_of(case, heat, at)
        h = np.concatenate([h[:1], h[:-1]])  # the row before, at the edge the same
        v = u + alpha[number] * (np.roll(u, 1, 2) - u) * np.roll(w, -1, 2) + h
        if number % 3 == 1:
            day = 1 + (at - (later if at >= later else year)) / dt.timedelta(days=1)
            midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
            v = v + 1e-3 * day + 1e-5 * ((at - midnight) / dt.timedelta(seconds=1))
        if not quiet[number]:
            v = v * 1.0000001 + (case.step * number / dt.timedelta(seconds=1)) * 1e-9
        u = v
    return u


def driven(dataset: Any, case: Case, alpha: Any, quiet: Any, **arguments: Any) -> xr.Dataset:
    defaults: dict[str, Any] = {
        "scalars": {
            "now": {"clock": "seconds"},
            "number": {"clock": "step"},
            "day": {"clock": "day_of_year"},
            "noon": {"clock": "time_of_day"},
            "alpha": xr.DataArray(alpha, dims="step"),
            "quiet": {"values": [bool(one) for one in quiet], "dim": "step"},
        },
        "boundary": BOUNDARY,
        "steps": case.steps,
        "feedback": {"v": "u"},
        "time": case.time,
        "target": "cpu",
    }
    return run(DRIVEN, dataset, **{**defaults, **arguments})


def ranks(count: int) -> Any:
    pool = LocalPool(workers=count)
    place = "halocline_engine.distribute.executors.select.local_pool"
    return patch(place, return_value=pool) if count > 1 else nullcontext()


def stopped(after: int) -> Callable[[Event], None]:
    """Return what ends a run after some states that another may go on from."""
    kept: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, Checkpointed | PassFinished | SnapshotWritten):
            kept.append(event)
            if len(kept) >= after:
                raise KeyError("enough")

    return note


@pytest.mark.parametrize("seed", range(24))
def test_drawn_clocks_are_loops_in_numpy(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    case = drawn_case(random)
    rng = np.random.default_rng(seed)
    dataset = dataset_of(case, seed)
    alpha, quiet = rng.normal(size=case.steps) * 0.1, rng.random(case.steps) < 0.5
    expected = looped(case, dataset, alpha, quiet)
    data: Any = dataset
    if random.random() < 0.5:
        chunks = {"time": random.randint(1, 3), "y": 6, "x": 9}
        data = tmp_path / "data.zarr"
        cast(Any, dataset).chunk(chunks).to_zarr(data)
    for mode in ("streamed", "resident"):
        every = random.choice((None, 4, 5))
        depth = random.choice((None, 2, 3)) if mode == "streamed" else None
        per_pass = random.choice((None, 1, 2, 3, 5))
        how: dict[str, Any] = {
            "mode": mode,
            "chunks": {"y": random.randint(5, 17), "x": random.randint(8, 23)},
            "snapshot_every": every,
            "target": random.choice(("cpu", "cpu", "reference")),
            "options": Options(steps_per_pass=per_pass, checkpoint_steps=3, pipeline_depth=depth),
        }
        given = (data, case, alpha, quiet)
        if random.random() < 0.5:
            how["workspace"] = tmp_path / mode
            with suppress(KeyError), ranks(random.randint(1, 3) if mode == "resident" else 1):
                driven(*given, **how, on_event=stopped(random.randint(1, 3)))
            how["mode"] = random.choice(("streamed", "resident"))
            how["options"] = replace(how["options"], pipeline_depth=None)
        with ranks(random.randint(1, 3) if how["mode"] == "resident" else 1):
            result = driven(*given, **how)
        last = result.v if every is None else result.v.isel(time=-1)
        np.testing.assert_array_equal(last.values, expected)
        if every is not None:
            numbers = [*range(every, case.steps, every), case.steps]
            shorter = replace(case, steps=numbers[0])
            first = looped(shorter, dataset, alpha, quiet)
            np.testing.assert_array_equal(result.v.values[0], first)
            labels = [case.start + case.step * number for number in numbers]
        else:
            labels = [case.start + case.step * case.steps]
        kind: Any = "datetime64[us]" if isinstance(case.start, dt.datetime) else object
        np.testing.assert_array_equal(np.atleast_1d(result.time.values), np.array(labels, kind))


@pytest.mark.parametrize("kind", ["memory", "store"])
def test_workers_have_the_bits_of_this_process(kind: str, two_workers: Any, tmp_path: Path) -> None:
    case = drawn_case(Random(5))
    rng = np.random.default_rng(2)
    alpha, quiet = rng.normal(size=case.steps) * 0.1, rng.random(case.steps) < 0.5
    dataset = dataset_of(case)
    expected = looped(case, dataset, alpha, quiet)
    data: Any = dataset
    if kind == "store":
        data = tmp_path / "data.zarr"
        cast(Any, dataset).chunk({"time": 1}).to_zarr(data)
    for mode in ("streamed", "resident"):
        result = driven(
            data, case, alpha, quiet, mode=mode, cluster=two_workers, chunks={"y": 6, "x": 12}
        )
        np.testing.assert_array_equal(result.v.values, expected)
        end = case.start + case.step * case.steps
        assert result.time.values == (
            np.datetime64(end) if isinstance(end, dt.datetime) else np.array(end, object)
        )


def test_a_netcdf_file_has_the_times(tmp_path: Path) -> None:
    stepped(small(), output=tmp_path / "r.nc", snapshot_every=4)
    with XARRAY.open_dataset(tmp_path / "r.nc") as stored:
        hours = [np.datetime64("2015-01-01T01:00"), np.datetime64("2015-01-01T02:00")]
        np.testing.assert_array_equal(stored.time.values, hours)
        np.testing.assert_array_equal(stored.v.values[-1], stepped(small()).v.values)


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day"])
def test_a_climatology_repeats_each_year(calendar: str) -> None:
    """Months of 2001 in the middle of which records lie, and a run over the end of a leap year."""
    starts = [date(calendar, 2001, month, 1) for month in range(1, 13)]
    starts.append(date(calendar, 2002, 1, 1))
    middles = [low + (high - low) / 2 for low, high in pairwise(starts)]
    kind: Any = "datetime64[us]" if calendar == "standard" else object
    rng = np.random.default_rng(1)
    records = rng.normal(size=(12, 6, 7))
    dataset = xr.Dataset(
        {"u": (("y", "x"), np.zeros((6, 7))), "f": (("time", "y", "x"), records)},
        coords={"time": np.array(middles, kind)},
    )
    time = {"start": "2004-12-27", "step": "36h", "calendar": calendar, "cyclic": "year"}
    result = stepped(dataset, time=time, steps=12, scalars={"a": 1.0}, snapshot_every=1)
    expected, u = list[Any](), np.zeros((6, 7))
    start, end = (date(calendar, 2001, 1, 1), date(calendar, 2002, 1, 1))
    for n in range(12):
        at = date(calendar, 2004, 12, 27) + n * dt.timedelta(hours=36)
        low, high = date(calendar, at.year, 1, 1), date(calendar, at.year + 1, 1, 1)
        there = (
            start
            + (at - low)
            // MICROSECOND
            * ((end - start) // MICROSECOND)
            // ((high - low) // MICROSECOND)
            * MICROSECOND
        )
        before = max((k for k in range(12) if middles[k] <= there), default=11)
        length = (
            (middles[before + 1] - middles[before])
            if before < 11
            else (middles[0] + (end - start) - middles[11])
        )
        passed = there - middles[before] + (end - start if there < middles[0] else 0 * MICROSECOND)
        first, second = records[before], records[(before + 1) % 12]
        u = u + (first + (passed / length) * (second - first))
        expected.append(u)
    np.testing.assert_array_equal(result.v.values, np.stack(expected))


def test_a_clock_alone_labels_results(tmp_path: Path) -> None:
    plain = small().drop_vars("f").assign(f=(("y", "x"), np.ones((6, 7))))
    result = stepped(plain, output=tmp_path / "r.zarr", snapshot_every=3)
    assert result.v.dims == ("time", "y", "x")
    stored = XARRAY.open_zarr(tmp_path / "r.zarr")
    wanted = np.array(
        ["2015-01-01T00:45", "2015-01-01T01:30", "2015-01-01T02:00"], "datetime64[ns]"
    )
    np.testing.assert_array_equal(stored.time.values, wanted)
    assert stored.time.attrs["standard_name"] == "time"
    assert stored.time.encoding["units"] == "seconds since 2015-01-01"
    raw = XARRAY.open_zarr(tmp_path / "r.zarr", decode_times=False)
    assert (raw.time.dtype, raw.time.values.tolist()) == (np.int64, [2700, 5400, 7200])


def test_a_calendar_is_kept_in_a_store(tmp_path: Path) -> None:
    plain = small().drop_vars(["f", "time"]).assign(f=(("y", "x"), np.ones((6, 7))))
    time = {"start": "2016-02-28T23:45", "step": "15min", "calendar": "noleap"}
    stepped(plain, output=tmp_path / "r.zarr", time=time, steps=1)
    stored = XARRAY.open_zarr(tmp_path / "r.zarr")
    assert stored.time.dims == ()
    assert stored.time.values.item() == _CFTIME.DatetimeNoLeap(2016, 3, 1)
    assert stored.time.encoding["calendar"] == "noleap"


@pytest.mark.parametrize("kept", [False, True])
def test_the_label_of_a_run_that_ends_early_is_its_end(tmp_path: Path, kept: bool) -> None:
    plain = small().drop_vars("f").assign(f=(("y", "x"), np.zeros((6, 7))))
    until = {"field": "v", "below": 1.0, "check_every": 2}
    for output in (None, tmp_path / "r.zarr"):
        result = stepped(plain, until=until, output=output, snapshot_every=5 if kept else None)
        end = np.datetime64("2015-01-01T00:30", "ns")
        np.testing.assert_array_equal(result.time.values, [end] if kept else end)


def test_the_length_follows_from_an_end_or_a_duration() -> None:
    for more in ({"end": "2015-01-01T02:00"}, {"duration": "2h"}, {"duration": "1h 60min"}):
        time = {"start": "2015-01-01", "step": "15min", **more}
        for steps in (1, 8):
            result = stepped(small(), time=time, steps=steps)
            assert result.time.values == np.datetime64("2015-01-01T02:00", "ns")
            np.testing.assert_array_equal(result.v.values, stepped(small()).v.values)


@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_a_run_that_continues_another_has_the_bits_of_one(mode: str) -> None:
    program = SMALL.replace("a: float", "a: float, t: float, n: int").replace(
        "a * f", "a * f + 1e-7 * t + n"
    )
    scalars = {"a": 0.5, "t": {"clock": "seconds"}, "n": {"clock": "step"}}
    how: dict[str, Any] = {"scalars": scalars, "feedback": {"v": "u"}, "mode": mode}
    how |= {"target": "reference"}
    forcing, time = small(), {"step": "15min", "interpolate": "linear"}
    whole = run(program, forcing, steps=11, time={**time, "start": HOURS[0]}, **how)
    first = run(program, forcing, steps=7, time={**time, "start": "2015-01-01"}, **how)
    start = first.time
    second = run(
        program,
        forcing.assign(u=first.v),
        steps=4,
        time={**time, "start": start},
        **how,
    )
    XARRAY.testing.assert_identical(whole.drop_attrs(), second.drop_attrs())
    # Without forcing the result itself is a dataset whose time is where the run goes on.
    rest = run(
        program.replace("f: Field[float]", "f: Field[float]"),
        first.rename(v="u").assign(f=(("y", "x"), np.ones((6, 7)))),
        steps=2,
        time=time,
        **how,
    )
    assert rest.time.values == np.datetime64("2015-01-01T02:15", "ns")
    assert rest.time.attrs["halocline_start"] == "2015-01-01"
    expected = first.v.values
    for n in (7, 8):
        expected = expected + (0.5 * 1.0 + 1e-7 * (900 * n) + n)
    np.testing.assert_allclose(rest.v.values, expected, rtol=1e-14)


@pytest.mark.parametrize("mode", ["streamed", "resident"])
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_scalars_of_members(mode: str, target: str) -> None:
    rng = np.random.default_rng(3)
    members = xr.Dataset({"u": (("member", "y", "x"), rng.normal(size=(3, 6, 7)))})
    members["f"] = (("y", "x"), np.ones((6, 7)))
    both = xr.DataArray(rng.normal(size=(4, 3)), dims=("step", "member"))
    listed = {"values": both.values[0].tolist(), "dim": "member"}
    same = np.broadcast_to(both.values[0], (4, 3))
    for given, factors in ((both, both.values), (listed, same)):
        result = stepped(
            members, scalars={"a": given}, steps=4, time=None, mode=mode, target=target
        )
        for member in range(3):
            u = members.u.values[member]
            for n in range(4):
                u = u + factors[n, member] * 1.0
            np.testing.assert_array_equal(result.v.values[member], u)


@pytest.mark.parametrize(
    ("kind", "quantity", "message"),
    [
        (
            "int",
            "seconds",
            "Scalar 's' is 'int64', but the 'seconds' of a clock is no such number.",
        ),
        ("bool", "step", "Scalar 's' is 'bool', but the 'step' of a clock is no such number."),
        (
            "np.int8",
            "step",
            "The steps of the clock reach 199, which scalar 's' of the type 'int8' cannot hold.",
        ),
    ],
)
def test_a_clock_fits_the_type_of_a_scalar(kind: str, quantity: str, message: str) -> None:
    program = f"""
def told(u: Field[float], v: Field[float], s: {kind}):
    with computation(PARALLEL), interval(...):
        v = u + 1.0 if s > 0 else u
"""
    if kind == "bool":
        program = program.replace("s > 0", "s")
    time = {"start": "2015-01-01", "step": "1h"}
    how: dict[str, Any] = {"feedback": {"v": "u"}, "steps": 200, "time": time}
    with pytest.raises(HaloclineError) as caught:
        run(program, small()[["u"]], scalars={"s": {"clock": quantity}}, **how)
    assert caught.value.message == message
    assert caught.value.hint.startswith("Make the parameter")


@pytest.mark.parametrize("on", [True, False])
def test_forcing_of_a_branch_that_is_not_taken_is_not_needed(on: bool) -> None:
    program = """
def branched(u: Field[float], f: Field[float], g: Field[float], v: Field[float], on: bool):
    with computation(PARALLEL), interval(...):
        if on:
            v = u + f
        else:
            v = u + g[1, 0, 0]
"""
    dataset = small().assign(g=(("y", "x"), np.ones((6, 7))))
    how: dict[str, Any] = {"scalars": {"on": on}, "feedback": {"v": "u"}, "steps": 5}
    how |= {"time": {"start": "2015-01-01", "step": "15min"}, "boundary": {"x": "edge"}}
    expected = dataset.u.values
    for n in range(5):
        f = dataset.f.values[n // 4] + n % 4 / 4 * (dataset.f.values[1] - dataset.f.values[0])
        expected = expected + (dataset.f.values[1] if n == 4 and on else f if on else 1.0)
    for mode in ("streamed", "resident"):
        for target in ("reference", "cpu"):
            result = run(program, dataset, mode=mode, target=target, **how)
            np.testing.assert_array_equal(result.v.values, expected)


def test_branches_that_scalars_decide_step_by_step_stay() -> None:
    program = """
def switched(u: Field[float], v: Field[float], s: float, on: bool):
    with computation(PARALLEL), interval(...):
        if on and s > 0.0:
            v = u + s
        else:
            v = u - 1.0
"""
    dataset, on = small(), [True, False, True]
    for mode in ("streamed", "resident"):
        for target in ("reference", "cpu"):
            result = run(
                program,
                dataset[["u"]],
                scalars={"s": 2.0, "on": {"values": on, "dim": "step"}},
                steps=3,
                feedback={"v": "u"},
                mode=mode,
                target=target,
            )
            expected = dataset.u.values + 2.0 - 1.0 + 2.0
            np.testing.assert_array_equal(result.v.values, expected)


def test_the_value_at_a_record_is_the_record_whatever_follows() -> None:
    dataset = small()
    dataset.f.values[1:, 2, 3] = np.nan
    result = stepped(dataset, steps=1)
    np.testing.assert_array_equal(result.v.values, dataset.u.values + 0.5 * dataset.f.values[0])
    assert np.isnan(stepped(dataset, steps=2).v.values[2, 3])


def test_a_window_is_in_memory_and_not_the_series() -> None:
    sizes = {"y": 200, "x": 200}
    rng = np.random.default_rng(1)
    values = rng.normal(size=(24, 200, 200))
    times = _NUMPY.arange("2015-01-01", "2015-01-02", np.timedelta64(1, "h"), "datetime64[ns]")
    dataset = xr.Dataset(
        {"u": (tuple(sizes), values[0]), "f": (("time", *sizes), values)}, coords={"time": times}
    )
    for mode in ("streamed", "resident"):
        events: list[Event] = []
        stepped(dataset, mode=mode, on_event=events.append, steps=20)
        planned = next(one for one in events if isinstance(one, Planned))
        field = 200 * 200 * 8
        assert planned.projected_bytes < 16 * field
        assert planned.passes == (5 if mode == "streamed" else 1)
        if mode == "resident":
            assert planned.unfused


def test_a_run_with_a_clock_goes_on_where_it_was(tmp_path: Path) -> None:
    with suppress(KeyError):
        stepped(small(), mode="streamed", workspace=tmp_path, on_event=stopped(2))
    events: list[Event] = []
    resumed = stepped(small(), mode="streamed", workspace=tmp_path, on_event=events.append)
    assert [one.steps_done for one in events if isinstance(one, Resumed)] == [4]
    np.testing.assert_array_equal(resumed.v.values, stepped(small()).v.values)
    later = {"start": "2015-01-01T01:00", "step": "15min"}
    events.clear()
    stepped(small(), mode="streamed", workspace=tmp_path, on_event=events.append, time=later)
    assert not [one for one in events if isinstance(one, Resumed)]
