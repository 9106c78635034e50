"""The clock of a run: when it starts, how long a step is, and what the time is at each step.

The time of a step is that of its beginning; results after it have the time of its end. All
arithmetic is in whole microseconds, so that a run that was continued has the times of one run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.datasets.times.dates import (
    OF_NUMPY,
    Date,
    calendar_name,
    calendar_of,
    date_of,
    duration_of,
    is_date,
    later,
    microseconds,
    shown_date,
    shown_duration,
    year_of,
)
from halocline_engine.errors import ArgumentError

__all__ = ["QUANTITIES", "REFERENCE", "Clock", "Cyclic", "Method", "TimeRequest", "time_of"]

#: How the values of a field follow from its records.
Method = Literal["previous", "nearest", "linear", "mean"]
#: The period of records that repeat: microseconds, a calendar year, or what the records span.
Cyclic = int | Literal["year", "data"] | None

#: The attribute of times that says when the first of the runs started that made a result.
REFERENCE = "halocline_start"
#: What a clock can tell as a scalar.
QUANTITIES = ("step", "seconds", "day_of_year", "time_of_day")

_EXAMPLE = "{'start': '2015-01-01', 'step': '15min'}"
_KNOWN = ("start", "step", "end", "duration", "calendar", "reference", "interpolate", "cyclic")
_METHODS = ("previous", "nearest", "linear", "mean")
_SECOND = 1_000_000
#: Microseconds of the longest run.
_LONGEST = 1 << 62
_DAY = 86_400 * _SECOND
#: Times that NumPy's nanoseconds hold, which xarray has by default.
_IN_NANOSECONDS = (np.datetime64("1678-01-01", "us"), np.datetime64("2262-01-01", "us"))
_UNITS = (("seconds", _SECOND), ("milliseconds", 1000), ("microseconds", 1))


@dataclass(frozen=True, slots=True)
class Clock:
    """Times of a run of `steps` steps of `step` microseconds, of a CF calendar.

    `since` are the microseconds from the start of the first of the runs that continue each other to
    `start`; numbers of steps and seconds count from there.
    """

    start: Date
    step: int
    calendar: str
    steps: int
    since: int = 0

    @property
    def end(self) -> Date:
        """The end of the last step."""
        return later(self.start, self.steps * self.step)

    @property
    def is_of_numpy(self) -> bool:
        """Whether its dates are NumPy's."""
        return self.calendar in OF_NUMPY

    @property
    def reference(self) -> Date:
        """The start of the first of the runs that continue each other."""
        return later(self.start, -self.since)

    @property
    def identity(self) -> tuple[str, int, str, int]:
        """What tells clocks apart, but for their number of steps."""
        return shown_date(self.start), self.step, self.calendar, self.since

    def values(self, quantity: str) -> NDArray[Any]:
        """Return the values of one of `QUANTITIES` at the beginning of each step.

        `step` counts steps from 0, `seconds` are those since the start; `day_of_year` is 1 at the
        beginning of the year, with the fraction of the day, and `time_of_day` in seconds.
        """
        passed = self.since + self.step * np.arange(self.steps, dtype=np.int64)
        match quantity:
            case "step":
                return passed // self.step
            case "seconds":
                return passed / _SECOND
            case "time_of_day":
                first = microseconds(year_of(self.reference)[0], self.reference)
                return (passed + first) % _DAY / _SECOND
            case _:
                starts = self._year_starts()
                at = passed - self.since
                return 1 + (at - starts[np.searchsorted(starts, at, "right") - 1]) / _DAY

    def labels(self, steps: NDArray[np.int64]) -> NDArray[Any]:
        """Return the times after so many steps, as xarray holds them."""
        counts = [int(count) * self.step for count in steps]
        if not self.is_of_numpy:
            return np.array([later(self.start, count) for count in counts], object)
        dates = self.start + np.array(counts, "timedelta64[us]")
        low, high = _IN_NANOSECONDS
        inside = bool(np.all((dates >= low) & (dates < high)))
        return dates.astype("datetime64[ns]") if inside else dates

    @property
    def unit(self) -> tuple[str, int]:
        """The largest unit that divides all times of this clock, and its microseconds."""
        whole = np.gcd(self.step, self.since)
        return next((name, size) for name, size in _UNITS if whole % size == 0)

    @property
    def encoding(self) -> dict[str, Any]:
        """The encoding of times in a store, by CF."""
        reference = shown_date(self.reference).replace("T", " ")
        units = f"{self.unit[0]} since {reference}"
        return {"units": units, "calendar": self.calendar, "dtype": "int64"}

    def encoded(self, steps_done: int) -> int:
        """Return the time after so many steps as a store has it."""
        return (self.since + steps_done * self.step) // self.unit[1]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of times."""
        return {
            "standard_name": "time",
            "long_name": "time",
            "axis": "T",
            REFERENCE: shown_date(self.reference),
        }

    def _year_starts(self) -> NDArray[np.int64]:
        """Return when the years of the run begin, in microseconds from its start."""
        found = [year_of(self.start)[0]]
        while found[-1] <= self.end:
            found.append(year_of(found[-1])[1])
        return np.array([microseconds(self.start, one) for one in found], np.int64)


@dataclass(frozen=True, slots=True)
class TimeRequest:
    """The argument `time` as it was given: dates have no calendar yet, durations are microseconds.

    `methods` are by field, and under "" for all others.
    """

    step: int
    start: object = None
    end: object = None
    duration: int | None = None
    calendar: str | None = None
    reference: object = None
    methods: Mapping[str, Method] = field(default_factory=dict[str, Method])
    cyclic: Cyclic = None

    def method(self, name: str, *, bounds: bool) -> Method:
        """Return the interpolation method of a field."""
        default: Method = "mean" if bounds else "linear"
        whole = name.partition(".")[0]  # of a component
        return self.methods.get(whole, self.methods.get("", default))

    def check_names(self, fields: Collection[str]) -> None:
        """Raise `ArgumentError` for a method of anything but an input field."""
        known = sorted({name.partition(".")[0] for name in fields})
        for name in self.methods:
            if name and name not in known:
                raise ArgumentError(
                    f"The 'interpolate' of argument 'time' names '{name}', which is no field that"
                    " the program reads only.",
                    hint=near(name, known),
                )

    def clock(self, steps: int, dataset: xr.Dataset, calendar: str | None) -> Clock:
        """Return the clock of so many steps, or as many as there are up to the end.

        `dataset` may have a time without dimensions, at which another run ended: this one continues
        it where no start is given. `calendar` is that of its records. Raises `ArgumentError`.
        """
        start, last = self.start, _last(dataset)
        told: object = start if start is not None else last
        reference = self.reference or getattr(told, "attrs", {}).get(REFERENCE)
        if start is None and last is not None:
            start = last.values[()]
            calendar = calendar or _calendar_of(last, start)
        if start is None:
            raise ArgumentError(
                "Argument 'time' has no 'start', and the dataset has no time without dimensions at"
                " which a run ended.",
                hint=f"Write for example time={_EXAMPLE}.",
            )
        if calendar is None and is_date(start):
            calendar = calendar_of(start)
        name = self.calendar or calendar or "standard"
        begin = date_of("The 'start' of argument 'time'", start, name)
        count = self._count(begin, name, steps)
        since = 0
        if reference is not None:
            first = date_of("The 'reference' of argument 'time'", reference, name)
            since = microseconds(first, begin)
            if since < 0:
                raise ArgumentError(
                    f"The 'reference' of argument 'time' must not be after the start"
                    f" {shown_date(begin)}, got {shown_date(first)}.",
                    hint="Leave it out: seconds and steps count from the start then.",
                )
        found = Clock(begin, self.step, name, count, since)
        _check_last(found)
        return found

    def _count(self, start: Date, calendar: str, steps: int) -> int:
        """Return the number of steps; raises `ArgumentError` where two of the lengths disagree."""
        if self.end is None and self.duration is None:
            return steps
        key = "end" if self.duration is None else "duration"
        if self.duration is None:
            end = date_of("The 'end' of argument 'time'", self.end, calendar)
            length = microseconds(start, end)
            shown = f"{shown_date(start)} to {shown_date(end)}"
        else:
            length, shown = self.duration, shown_duration(self.duration)
        count, rest = divmod(length, self.step)
        if rest or count < 1:
            raise ArgumentError(
                f"The '{key}' of argument 'time' must be a whole number of steps of"
                f" {shown_duration(self.step)} after the start, got {shown}.",
                hint="Change it, or give the number of steps as 'steps' instead.",
            )
        if steps not in (1, count):
            raise ArgumentError(
                f"Argument 'steps' is {steps}, but {shown} has {count} steps of"
                f" {shown_duration(self.step)}.",
                hint=f"Leave out 'steps', or the '{key}' of argument 'time'.",
            )
        return count


def _last(dataset: xr.Dataset) -> Any:
    """Return the time of a dataset that has no dimensions; None where there is none."""
    if "time" not in dataset.coords or dataset["time"].ndim:
        return None
    found = dataset["time"]
    value: Any = found.values[()]
    return found if is_date(value) and value == value else None  # NaT is not itself


def _calendar_of(variable: Any, value: object) -> str:
    """Return the calendar of a time."""
    own = calendar_of(value)
    told = dict(variable.encoding).get("calendar")
    return told if own == "standard" and told == "proleptic_gregorian" else own


def _check_last(clock: Clock) -> None:
    try:
        fits = clock.steps * clock.step < _LONGEST and clock.end is not None
    except OverflowError:
        fits = False
    if not fits:
        raise ArgumentError(
            f"The run would end {clock.steps} steps of {shown_duration(clock.step)} after"
            f" {shown_date(clock.start)}, which no date reaches.",
            hint="Give fewer or shorter steps.",
        )


def time_of(given: object) -> TimeRequest | None:
    """Return the argument `time`; raises `ArgumentError` where it is invalid."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or "step" not in given:
        raise ArgumentError(
            f"Argument 'time' must be a mapping with the length of a 'step', got {given!r}.",
            hint=f"Write for example time={_EXAMPLE}.",
        )
    told = cast("Mapping[str, Any]", given)
    for name in told:
        if name not in _KNOWN:
            raise ArgumentError(
                f"Argument 'time' has no '{name}'.",
                hint=f"It has {', '.join(map(repr, _KNOWN))}.",
            )
    if told.get("end") is not None and told.get("duration") is not None:
        raise ArgumentError(
            "Argument 'time' has an 'end' and a 'duration', expected one of them.",
            hint="Leave out the 'duration'.",
        )
    calendar, duration = told.get("calendar"), told.get("duration")
    return TimeRequest(
        step=duration_of("The 'step' of argument 'time'", told["step"]),
        start=told.get("start"),
        end=told.get("end"),
        duration=(
            None if duration is None else duration_of("The 'duration' of argument 'time'", duration)
        ),
        calendar=(
            None
            if calendar is None
            else calendar_name("The 'calendar' of argument 'time'", calendar)
        ),
        reference=told.get("reference"),
        methods=_methods(told.get("interpolate")),
        cyclic=_cyclic(told.get("cyclic")),
    )


def _methods(given: object) -> dict[str, Method]:
    if given is None:
        return {}
    several = cast("Mapping[Any, Any]", given)
    told = several if isinstance(given, Mapping) else {"": given}
    for name, method in told.items():
        if not isinstance(name, str) or method not in _METHODS:
            raise ArgumentError(
                f"The 'interpolate' of argument 'time' must be one of"
                f" {', '.join(map(repr, _METHODS))}, or one for each field, got {given!r}.",
                hint="Write for example 'interpolate': 'linear', or {'sst': 'previous'}.",
            )
    return dict(told)


def _cyclic(given: object) -> Cyclic:
    if given is None or given is False:
        return None
    if given is True:
        return "data"
    return "year" if given == "year" else duration_of("The 'cyclic' of argument 'time'", given)
