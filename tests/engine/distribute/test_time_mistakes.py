"""Clocks, records and scalars that are refused before anything runs."""

from __future__ import annotations

from typing import Any, cast

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr
from clocked_runs import HOURS, small, stepped

from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.errors import HaloclineError

_CFTIME: Any = cast(Any, cftime)
_NUMPY: Any = cast(Any, np)
NOLEAP = small().convert_calendar("noleap", use_cftime=True)
BOUNDED = small().assign_coords(
    edges=(("time", "two"), np.stack([HOURS, HOURS + np.timedelta64(1, "h")], axis=1))
)
BOUNDED.time.attrs["bounds"] = "edges"
GAPS: Any = BOUNDED.assign_coords(edges=BOUNDED.edges.copy())
GAPS.edges.values[2, 1] += np.timedelta64(1, "m")
MISTAKES: list[tuple[str, Any, dict[str, Any], str, str]] = [
    (
        "the clock leaves the data",
        small(),
        {"steps": 40},
        "The run needs field 'f' from 2015-01-01 to 2015-01-01T09:45:00, but its records along"
        " 'time' cover 2015-01-01 to 2015-01-01T05:00:00 with 'linear'.",
        "give 'cyclic'",
    ),
    (
        "the clock begins before the data",
        small(),
        {"time": {"start": "2014-12-31", "step": "1h"}},
        "The run needs field 'f' from 2014-12-31 to 2014-12-31T07:00:00, but its records along"
        " 'time' cover 2015-01-01 to 2015-01-01T05:00:00 with 'linear'.",
        "Change the start",
    ),
    (
        "another calendar",
        NOLEAP,
        {"time": {"start": "2015-01-01", "step": "15min", "calendar": "360_day"}},
        "The times 'time' are of the calendar 'noleap', but the run has '360_day'.",
        "'calendar': 'noleap'",
    ),
    (
        "a date of another calendar",
        NOLEAP,
        {"time": {"start": np.datetime64("2015-01-01"), "step": "15min"}},
        "The 'start' of argument 'time' is a date of the calendar 'standard', but the run has"
        " 'noleap'.",
        "or the date as text",
    ),
    (
        "times that do not increase",
        small().isel(time=[0, 2, 1, 3, 4, 5]),
        {},
        "The times of field 'f' must increase, but 'time' has 2015-01-01T01:00:00 after"
        " 2015-01-01T02:00:00.",
        "dataset.sortby('time')",
    ),
    (
        "times that are there twice",
        small().isel(time=[0, 1, 1, 2, 3, 4]),
        {},
        "The times of field 'f' must increase, but 'time' has 2015-01-01T01:00:00 after"
        " 2015-01-01T01:00:00.",
        "drop_duplicates('time')",
    ),
    (
        "a mean without bounds",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "interpolate": "mean"}},
        "The mean over a step of field 'f' needs the time bounds of its records, but 'time' has no"
        " attribute 'bounds' that names them.",
        "'interpolate': 'linear'",
    ),
    (
        "bounds with gaps",
        GAPS,
        {},
        "Each record of field 'f' must begin where the one before it ends, but the time bounds"
        " 'edges' have gaps or overlap.",
        "Correct 'edges'",
    ),
    (
        "a period that is too short",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "cyclic": "4h"}},
        "The 'cyclic' of argument 'time' must be more than what the records of field 'f' span, 5h,"
        " got 4h.",
        "after which the records repeat",
    ),
    (
        "a period that is not known",
        small().isel(time=[0, 1, 3, 4]),
        {"time": {"start": "2015-01-01", "step": "15min", "cyclic": True}},
        "The period of field 'f' does not follow from its times, which are not equally far apart"
        " and have no bounds.",
        "'cyclic': 'year'",
    ),
    (
        "a period that is not that of the bounds",
        BOUNDED,
        {"time": {"start": "2015-01-01", "step": "15min", "cyclic": "12h"}},
        "The 'cyclic' of argument 'time' must be exactly what the records of field 'f' span, 6h,"
        " got 12h.",
        "select those of one period",
    ),
    (
        "a climatology of two years",
        small().assign_coords(time=HOURS + _NUMPY.arange(6) * _NUMPY.timedelta64(90, "D")),
        {"time": {"start": "2015-01-01", "step": "15min", "cyclic": "year"}},
        "With 'cyclic': 'year' the records of field 'f' must lie in one year, got 2015-01-01 to"
        " 2016-03-26T05:00:00.",
        "one year",
    ),
    (
        "steps that overlap too many records",
        BOUNDED.isel(time=[0] * 40).assign_coords(
            time=(
                "time",
                HOURS[0] + _NUMPY.arange(40) * _NUMPY.timedelta64(1, "h"),
                {"bounds": "e"},
            ),
            e=(
                ("time", "two"),
                HOURS[0] + (_NUMPY.arange(40)[:, None] + [0, 1]) * _NUMPY.timedelta64(1, "h"),
            ),
        ),
        {"time": {"start": "2015-01-01", "step": "36h"}, "steps": 1},
        "A step overlaps 36 records of field 'f', but the mean is taken of up to 32.",
        "shorter",
    ),
    (
        "times that are missing",
        small().assign_coords(time=[*HOURS[:5], _NUMPY.datetime64("NaT")]),
        {},
        "The times 'time' of records must be dates, but some are missing.",
        "dropna('time')",
    ),
    (
        "bounds that are no dates",
        BOUNDED.assign_coords(edges=(("time", "two"), np.zeros((6, 2)))),
        {},
        "The time bounds 'edges' of 'time' must be two dates for each record, got the dimensions"
        " (time, two) and the type 'float64'.",
        "Remove the attribute 'bounds'",
    ),
    (
        "several dimensions of dates",
        small(f=(("time", "run", "y", "x"), np.zeros((6, 1, 6, 7)))).assign_coords(run=HOURS[:1]),
        {},
        "Variable 'f' varies along several dimensions of dates: 'time', 'run'.",
        "Select one point",
    ),
    (
        "a dimension of steps",
        small(u=(("step", "y", "x"), np.zeros((2, 6, 7)))),
        {"scalars": {"a": xr.DataArray(np.ones(8), dims="step")}},
        "Scalar 'a' varies along 'step', which is the steps of the run and a dimension of the"
        " dataset.",
        "dataset.rename(step='number')",
    ),
    (
        "a dimension that the labels have",
        small().drop_vars("time").rename(time="t").isel(t=0).expand_dims(time=2),
        {},
        "With 'time' results have a dimension 'time', but the dataset, or the result, has something"
        " of that name.",
        "dataset.rename(time='number')",
    ),
    (
        "a state that varies with time",
        small(u=(("time", "y", "x"), np.zeros((6, 6, 7)))),
        {},
        "Field 'u' is changed by steps, but variable 'u' varies along 'time', the time.",
        "dataset.isel(time=-1)",
    ),
    (
        "integers that are interpolated",
        small(f=(("time", "y", "x"), np.zeros((6, 6, 7), np.int64))),
        {},
        "Field 'f' is interpolated in time, for which its values must be floats, but variable 'f'"
        " is int64.",
        "{'f': 'previous'}",
    ),
    (
        "a method for what is no forcing",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "interpolate": {"g": "linear"}}},
        "The 'interpolate' of argument 'time' names 'g', which is no field that the program reads"
        " only.",
        "'f'",
    ),
    (
        "no start",
        small(),
        {"time": {"step": "15min"}},
        "Argument 'time' has no 'start', and the dataset has no time without dimensions at which a"
        " run ended.",
        "'start': '2015-01-01'",
    ),
    (
        "steps and an end that disagree",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "end": "2015-01-01T01:00"}},
        "Argument 'steps' is 8, but 2015-01-01 to 2015-01-01T01:00:00 has 4 steps of 15min.",
        "Leave out 'steps'",
    ),
    (
        "an end between two steps",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "end": "2015-01-01T01:05"}},
        "The 'end' of argument 'time' must be a whole number of steps of 15min after the start, got"
        " 2015-01-01 to 2015-01-01T01:05:00.",
        "'steps' instead",
    ),
    (
        "an end before the start",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "end": "2014-01-01"}},
        "The 'end' of argument 'time' must be a whole number of steps of 15min after the start, got"
        " 2015-01-01 to 2014-01-01.",
        "Change it",
    ),
    (
        "an end and a duration",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "end": "2016-01-01", "duration": "1h"}},
        "Argument 'time' has an 'end' and a 'duration', expected one of them.",
        "Leave out",
    ),
    (
        "a reference after the start",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "reference": "2016-01-01"}},
        "The 'reference' of argument 'time' must not be after the start 2015-01-01, got"
        " 2016-01-01.",
        "Leave it out",
    ),
    (
        "no mapping",
        small(),
        {"time": "15min"},
        "Argument 'time' must be a mapping with the length of a 'step', got '15min'.",
        "time={'start'",
    ),
    (
        "an unknown key",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "begin": "2015-01-01"}},
        "Argument 'time' has no 'begin'.",
        "'start', 'step'",
    ),
    (
        "a step in months",
        small(),
        {"time": {"start": "2015-01-01", "step": "1M"}},
        "The 'step' of argument 'time' must be an exact positive duration, got '1M'.",
        "months and years differ",
    ),
    (
        "a step of months of NumPy",
        small(),
        {"time": {"start": "2015-01-01", "step": np.timedelta64(1, "M")}},
        "The 'step' of argument 'time' must be an exact positive duration, got"
        " np.timedelta64(1,'M').",
        "'15min'",
    ),
    (
        "a step without a unit",
        small(),
        {"time": {"start": "2015-01-01", "step": 900}},
        "The 'step' of argument 'time' must be an exact positive duration, got 900.",
        "'15min'",
    ),
    (
        "no date",
        small(),
        {"time": {"start": "New Year", "step": "15min"}},
        "The 'start' of argument 'time' must be a date, got 'New Year'.",
        "'2015-01-31'",
    ),
    (
        "a day that a calendar does not have",
        small(),
        {"time": {"start": "2015-02-29", "step": "15min"}},
        "The 'start' of argument 'time' is '2015-02-29', which is no date of the calendar"
        " 'standard'.",
        "Check day and month",
    ),
    (
        "a date before the reform",
        small().drop_vars("f").assign(f=("x", np.ones(7))),
        {"time": {"start": "1400-01-01", "step": "15min"}},
        "The 'start' of argument 'time' is 1400-01-01T00:00:00.000000, but dates of the calendar"
        " 'standard' begin at 1582-10-15 here.",
        "'proleptic_gregorian'",
    ),
    (
        "an unknown calendar",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "calendar": "lunar"}},
        "The 'calendar' of argument 'time' must be one of 'standard', 'proleptic_gregorian',"
        " 'julian', 'noleap', 'all_leap', '360_day', got 'lunar'.",
        "Leave it out",
    ),
    (
        "an unknown method",
        small(),
        {"time": {"start": "2015-01-01", "step": "15min", "interpolate": "cubic"}},
        "The 'interpolate' of argument 'time' must be one of 'previous', 'nearest', 'linear',"
        " 'mean', or one for each field, got 'cubic'.",
        "'linear'",
    ),
    (
        "a run that never ends",
        small(),
        {"time": {"start": "2015-01-01", "step": "999999999h"}},
        "The run would end 8 steps of 999999999h after 2015-01-01, which no date reaches.",
        "fewer or shorter",
    ),
    (
        "scalars of another length",
        small(),
        {"scalars": {"a": xr.DataArray([1.0, 2.0], dims="step")}},
        "Scalar 'a' must have 8 values along 'step', as many as there are steps, got 2.",
        "one value for each",
    ),
    (
        "scalars along an axis",
        small(),
        {"scalars": {"a": xr.DataArray(np.ones(7), dims="x")}},
        "Scalar 'a' varies along 'x', but scalars vary along the steps of the run or dimensions"
        " that are looped over: 'step'.",
        "is a field",
    ),
    (
        "a scalar of a clock that is not there",
        small().drop_vars("f").assign(f=("x", np.ones(7))),
        {"scalars": {"a": {"clock": "seconds"}}, "time": None},
        "Scalar 'a' is told by a clock, but the run has none.",
        "time={'start'",
    ),
    (
        "what no clock tells",
        small(),
        {"scalars": {"a": {"clock": "month"}}},
        "The 'clock' of scalar 'a' must be one of 'step', 'seconds', 'day_of_year', 'time_of_day',"
        " got 'month'.",
        "{'clock': 'seconds'}",
    ),
    (
        "a scalar that is no number",
        small(),
        {"scalars": {"a": {"value": 3}}},
        "Scalar 'a' must be a number, or vary as {'values': [...], 'dim': 'step'} or {'clock':"
        " 'seconds'}, got {'value': 3}.",
        "'dim': 'step'",
    ),
    (
        "values without a shape",
        small(),
        {"scalars": {"a": {"values": [[1.0]], "dim": "step"}}},
        "The values of scalar 'a' must be numbers along 'step', got an array of the shape (1, 1).",
        "as many numbers",
    ),
    (
        "a value that is missing",
        small(),
        {"scalars": {"a": {"values": [1.0, float("nan")], "dim": "step"}}},
        "Scalar 'a' must be finite, got nan.",
        "as NaN",
    ),
]


@pytest.mark.parametrize(
    ("dataset", "given", "message", "hint"),
    [one[1:] for one in MISTAKES],
    ids=[one[0] for one in MISTAKES],
)
def test_mistakes_are_refused_before_anything_runs(
    dataset: xr.Dataset, given: dict[str, Any], message: str, hint: str
) -> None:
    events: list[Event] = []
    with pytest.raises(HaloclineError) as caught:
        stepped(dataset, **given, on_event=events.append)
    assert caught.value.message == message
    assert hint in (caught.value.hint or "")
    assert not [one for one in events if isinstance(one, Planned)]
