"""Records of a variable that varies with time, and what of them each step of a run needs.

The value of a field in a step is made of up to K records, as ``F0 + w1 * (F1 - F0) + ...`` with
weights that follow from the clock; a record that has the weight 0 leaves the sum as it is. So a
field has exactly the values of a record at its time, and equal records give these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.times.clock import Clock, Method, TimeRequest
from halocline_engine.datasets.times.dates import (
    calendar_of,
    date_of,
    later,
    microseconds,
    offsets,
    shown_date,
    shown_duration,
    year_of,
)
from halocline_engine.errors import ArgumentError, FieldError

__all__ = ["Windows", "time_dimension", "windows_of"]

#: Records that a step is made of, at most.
_MOST = 32


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The records of each step, [steps, K], and the weights of all but the first, [steps, K - 1].

    Records are numbered along the time dimension of their variable.
    """

    records: NDArray[np.int64]
    weights: NDArray[np.float64]

    @property
    def count(self) -> int:
        """How many records a step is made of."""
        return self.records.shape[1]

    @property
    def changes(self) -> NDArray[np.int64]:
        """The steps whose records are others than those of the step before."""
        return np.flatnonzero(np.any(np.diff(self.records, axis=0) != 0, axis=1)) + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """Times of records in microseconds from the start of a run, and their bounds, if any."""

    field: str
    dim: str
    times: NDArray[np.int64]
    bounds: NDArray[np.int64] | None

    def range(self, clock: Clock, low: int, high: int) -> str:
        """Return a range of times for a person."""
        return f"{shown_date(later(clock.start, low))} to {shown_date(later(clock.start, high))}"


def time_dimension(dataset: xr.Dataset, variable: str) -> str | None:
    """Return the dimension of a variable whose coordinate has dates; None where there is none.

    Raises `FieldError` where there are several.
    """
    dims = [str(dim) for dim in dataset[variable].dims]
    found = [dim for dim in dims if dim in dataset.variables and _has_dates(dataset[dim])]
    if len(found) > 1:
        raise FieldError(
            f"Variable '{variable}' varies along several dimensions of dates:"
            f" {', '.join(map(repr, found))}.",
            hint="Select one point along all but one of them.",
        )
    return found[0] if found else None


def windows_of(
    dataset: xr.Dataset, field: str, dim: str, clock: Clock, request: TimeRequest
) -> Windows:
    """Return the windows of records of a field along a dimension.

    Raises `ArgumentError` or `FieldError` where they do not cover the run, or have no such times.
    """
    named = _bounds_name(dataset, dim)
    method = request.method(field, bounds=named is not None)
    if method == "mean" and named is None:
        raise FieldError(
            f"The mean over a step of field '{field}' needs the time bounds of its records, but"
            f" '{dim}' has no attribute 'bounds' that names them.",
            hint="Add them by CF, or use 'interpolate': 'linear'.",
        )
    # Other bounds are not read.
    wanted = method == "mean" or request.cyclic == "data"
    axis = _axis(dataset, field, dim, clock, named if wanted else None)
    starts = clock.step * np.arange(clock.steps + 1, dtype=np.int64)
    period, first = _period(axis, request, method)
    if request.cyclic == "year":
        starts, period, first = _by_year(axis, clock, method, starts)
    if period is None:
        _check_range(axis, clock, method)
    if method == "mean":
        return _mean(axis, starts, period)
    at = starts[:-1]
    if period is not None:
        at = first + (at - first) % period
    return _at(axis.times, at, method, period)


def _bounds_name(dataset: xr.Dataset, dim: str) -> str | None:
    """Return the variable with the time bounds of records; None where there is none."""
    told: Any = dataset[dim].attrs.get("bounds", dataset[dim].encoding.get("bounds"))
    return str(told) if told in dataset.variables else None


def _axis(dataset: xr.Dataset, field: str, dim: str, clock: Clock, told: str | None) -> _Axis:
    times = _offsets(dataset[dim], dim, clock)
    if np.any(np.diff(times) <= 0):
        at = int(np.flatnonzero(np.diff(times) <= 0)[0])
        raise FieldError(
            f"The times of field '{field}' must increase, but '{dim}' has"
            f" {shown_date(later(clock.start, int(times[at + 1])))} after"
            f" {shown_date(later(clock.start, int(times[at])))}.",
            hint=f"Sort them: dataset.sortby('{dim}').drop_duplicates('{dim}').",
        )
    if told is None:
        return _Axis(field, dim, times, None)
    given = dataset[told]
    if given.ndim != 2 or given.dims[0] != dim or given.shape[1] != 2 or not _has_dates(given):
        raise FieldError(
            f"The time bounds '{told}' of '{dim}' must be two dates for each record, got the"
            f" dimensions ({', '.join(map(str, given.dims))}) and the type '{given.dtype}'.",
            hint=f"Remove the attribute 'bounds' of '{dim}', or decode the times of the dataset.",
        )
    bounds = _offsets(given, told, clock)
    if np.any(bounds[1:, 0] != bounds[:-1, 1]) or np.any(bounds[:, 1] <= bounds[:, 0]):
        raise FieldError(
            f"Each record of field '{field}' must begin where the one before it ends, but the time"
            f" bounds '{told}' have gaps or overlap.",
            hint=f"Correct '{told}', or remove the attribute 'bounds' of '{dim}'.",
        )
    return _Axis(field, dim, times, bounds)


def _offsets(variable: xr.DataArray, name: str, clock: Clock) -> NDArray[np.int64]:
    """Return dates in microseconds from the start; raises `FieldError` for another calendar."""
    dates: NDArray[Any] = np.asarray(variable.values)
    missing = np.isnat(dates) if dates.dtype.kind == "M" else np.array([d != d for d in dates.flat])
    if np.any(missing):
        raise FieldError(
            f"The times '{name}' of records must be dates, but some are missing.",
            hint=f"Select those that are there: dataset.dropna('{name}').",
        )
    own = calendar_of(dates.flat[0])
    same = {own, clock.calendar} <= {"standard", "proleptic_gregorian"} or own == clock.calendar
    if not same:
        raise FieldError(
            f"The times '{name}' are of the calendar '{own}', but the run has '{clock.calendar}'.",
            hint=f"Give 'calendar': '{own}' in 'time', or convert them with"
            f" dataset.convert_calendar('{clock.calendar}').",
        )
    if dates.dtype.kind != "M" and clock.is_of_numpy:
        plain = [date_of(f"A time of '{name}'", one, clock.calendar) for one in dates.flat]
        dates = np.array(plain, "datetime64[us]").reshape(dates.shape)
    return offsets(clock.start, dates)


def _has_dates(variable: xr.DataArray) -> bool:
    if variable.dtype.kind == "M":
        return True
    if variable.dtype != np.dtype("O") or not variable.size:
        return False
    return hasattr(variable[(0,) * variable.ndim].values.item(), "calendar")


def _period(axis: _Axis, request: TimeRequest, method: Method) -> tuple[int | None, int]:
    """Return the period of records that repeat, and where one begins; None where none repeat."""
    first = int(axis.times[0] if method != "mean" or axis.bounds is None else axis.bounds[0, 0])
    if request.cyclic is None or request.cyclic == "year":
        return None, first
    spans = np.diff(axis.times)
    if axis.bounds is not None:
        spanned = int(axis.bounds[-1, 1] - axis.bounds[0, 0])
    elif spans.size and np.all(spans == spans[0]):
        spanned = int(spans[0]) * axis.times.size
    else:
        spanned = None
    if request.cyclic != "data":
        _check_period(axis, request.cyclic, method)
        return request.cyclic, first
    if spanned is None:
        raise ArgumentError(
            f"The period of field '{axis.field}' does not follow from its times, which are not"
            " equally far apart and have no bounds.",
            hint="Give it: 'cyclic': 'year', or a duration such as '24h'.",
        )
    return spanned, first


def _check_period(axis: _Axis, period: int, method: Method) -> None:
    if method == "mean" and axis.bounds is not None:
        span, fits = int(axis.bounds[-1, 1] - axis.bounds[0, 0]), "exactly"
        wrong = span != period
    else:
        span, fits = int(axis.times[-1] - axis.times[0]), "more than"
        wrong = span >= period
    if wrong:
        raise ArgumentError(
            f"The 'cyclic' of argument 'time' must be {fits} what the records of field"
            f" '{axis.field}' span, {shown_duration(span)}, got {shown_duration(period)}.",
            hint="Give the period after which the records repeat, or select those of one period.",
        )


def _by_year(
    axis: _Axis, clock: Clock, method: Method, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int, int]:
    """Return times as parts of the years of a run in the year of the records, and its length."""
    begin, end = (
        microseconds(clock.start, one) for one in year_of(later(clock.start, int(axis.times[0])))
    )
    last = int(axis.times[-1] if axis.bounds is None else axis.bounds[-1, 1])
    if last > end or (axis.bounds is not None and axis.bounds[0, 0] < begin):
        raise ArgumentError(
            f"With 'cyclic': 'year' the records of field '{axis.field}' must lie in one year, got"
            f" {axis.range(clock, int(axis.times[0]), last)}.",
            hint="Select those of one year.",
        )
    length, mapped, number = end - begin, list[int](), 0
    if method == "mean":
        _check_period(axis, length, method)
    low, high = (microseconds(clock.start, one) for one in year_of(clock.start))
    for at in map(int, starts):
        while at >= high:
            low, high = high, microseconds(clock.start, year_of(later(clock.start, high))[1])
            number += 1
        mapped.append(begin + number * length + (at - low) * length // (high - low))
    return np.array(mapped, np.int64), length, begin


def _check_range(axis: _Axis, clock: Clock, method: Method) -> None:
    """Raise where a step needs records before the first one, or after the last one."""
    times, last = axis.times, (clock.steps - 1) * clock.step
    spans = np.diff(times) if times.size > 1 else np.array([clock.steps * clock.step])
    low, high = int(times[0]), int(times[-1])
    match method:
        case "mean":
            assert axis.bounds is not None
            low, high, last = int(axis.bounds[0, 0]), int(axis.bounds[-1, 1]), last + clock.step
        case "previous":
            high += int(spans[-1]) - 1
        case "nearest":
            low, high = low - int(spans[0]) // 2, high + int(spans[-1]) // 2
        case "linear":
            pass
    if low <= 0 and last <= high:
        return
    raise ArgumentError(
        f"The run needs field '{axis.field}' from {axis.range(clock, 0, last)}, but its records"
        f" along '{axis.dim}' cover {axis.range(clock, low, high)} with '{method}'.",
        hint="Change the start or the number of steps, add records, or give 'cyclic' if they"
        " repeat.",
    )


def _at(
    times: NDArray[np.int64], at: NDArray[np.int64], method: Method, period: int | None
) -> Windows:
    """Return the windows for instants by previous, nearest or linear interpolation."""
    count = times.size
    wide = times if period is None else np.append(times, times[0] + period)
    if period is not None:  # the first record may lie behind the beginning of the period
        at = np.where(at < times[0], at + period, at)
    if method == "nearest":
        middles = wide[:-1] + (np.diff(wide) + 1) // 2
        records = np.searchsorted(middles, at, "right") % count
        return _whole(records)
    before = np.maximum(np.searchsorted(wide, at, "right") - 1, 0)
    if method == "previous" or count == 1:
        return _whole(np.minimum(before, count - 1))
    # At the last record itself, there is none after it, and none is needed.
    low = np.minimum(before, wide.size - 2)
    weights = np.where(before == low, (at - wide[low]) / (wide[low + 1] - wide[low]), 0.0)
    after = np.where(before == low, (before + 1) % count, before)
    records = np.stack([before, after], axis=1)
    return Windows(records.astype(np.int64), weights[:, np.newaxis])


def _whole(records: NDArray[Any]) -> Windows:
    return Windows(records.astype(np.int64)[:, np.newaxis], np.zeros((records.size, 0)))


def _mean(axis: _Axis, starts: NDArray[np.int64], period: int | None) -> Windows:
    """Return the records that steps overlap, each with its part of the step."""
    assert axis.bounds is not None
    edges = np.append(axis.bounds[:, 0], axis.bounds[-1, 1])
    count, first = axis.times.size, int(edges[0])
    begins, ends = starts[:-1], starts[1:]
    turns = np.zeros_like(begins)
    if period is not None:
        turns = (begins - first) // period
        begins, ends = begins - turns * period, ends - turns * period
        more = int(np.max(ends - first)) // period + 1
        edges = np.concatenate([edges[:-1] + turn * period for turn in range(more)])
        edges = np.append(edges, first + more * period)
    low = np.searchsorted(edges, begins, "right") - 1
    high = np.searchsorted(edges, ends, "left")
    most = int(np.max(high - low))
    if most > _MOST:
        raise ArgumentError(
            f"A step overlaps {most} records of field '{axis.field}', but the mean is taken of up"
            f" to {_MOST}.",
            hint="Make steps shorter, or average the records first.",
        )
    numbers = low[:, np.newaxis] + np.arange(most)
    inside = np.minimum(numbers, edges.size - 2)
    overlap = np.minimum(edges[inside + 1], ends[:, np.newaxis])
    overlap = overlap - np.maximum(edges[inside], begins[:, np.newaxis])
    overlap = np.where(numbers < high[:, np.newaxis], overlap, 0)
    weights = overlap[:, 1:] / (ends - begins)[:, np.newaxis]
    return Windows((inside % count).astype(np.int64), weights)
