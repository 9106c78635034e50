"""Dates of any CF calendar and exact durations, as whole microseconds.

Dates of the calendars `standard` and `proleptic_gregorian` are those of NumPy, others of cftime.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, cast

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError

__all__ = [
    "CALENDARS",
    "OF_NUMPY",
    "Date",
    "calendar_name",
    "calendar_of",
    "date_of",
    "duration_of",
    "is_date",
    "later",
    "microseconds",
    "offsets",
    "shown_date",
    "shown_duration",
    "year_of",
]

#: A date of NumPy's, in microseconds, or of cftime.
Date = Any

_CFTIME: Any = cast(Any, cftime)
_NUMPY: Any = cast(Any, np)
_SYNONYMS = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
#: The calendars whose dates are NumPy's.
OF_NUMPY = ("standard", "proleptic_gregorian")
#: The calendars of the CF conventions.
CALENDARS = (*OF_NUMPY, "julian", "noleap", "all_leap", "360_day")
#: The first date of the calendar `standard` that is also one of `proleptic_gregorian`.
_REFORM = np.datetime64("1582-10-15", "us")
_DATE = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?Z?", re.ASCII
)
_UNITS: Mapping[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "D": 86_400_000_000,
    "W": 604_800_000_000,
}
_DURATION = re.compile(r"(?:\d{1,18}\s*(?:us|ms|s|min|h|D|W)\s*)+", re.ASCII)
_PART = re.compile(r"(\d+)\s*([a-zA-Z]+)", re.ASCII)
#: Units of NumPy's that are always equally long.
_EXACT = ("W", "D", "h", "m", "s", "ms", "us", "ns")
#: The longest duration, in microseconds: some 290 000 years, as NumPy's dates have.
_LONGEST = 2**63 - 1


def is_date(given: object) -> bool:
    """Say whether a value is a date of NumPy, Python or cftime."""
    return isinstance(given, np.datetime64 | dt.date | _CFTIME.datetime)


def calendar_name(argument: str, given: object) -> str:
    """Return the name of a CF calendar; raises `ArgumentError` where there is no such calendar."""
    name = _SYNONYMS.get(given, given) if isinstance(given, str) else None
    if name not in CALENDARS:
        raise ArgumentError(
            f"{argument} must be one of {', '.join(map(repr, CALENDARS))}, got {given!r}.",
            hint="Leave it out: it is then that of the data, or 'standard'.",
        )
    return name


def calendar_of(date: Date) -> str:
    """Return the calendar of a date.

    >>> calendar_of(np.datetime64("2015-01-01"))
    'standard'
    """
    if not _is_plain(date):
        name = str(date.calendar)
        return _SYNONYMS.get(name, name)
    return "standard"


def date_of(argument: str, given: object, calendar: str) -> Date:
    """Return a date of a calendar; raises `ArgumentError` where it is none.

    >>> date_of("start", "2015-02-28 12:00", "noleap") + dt.timedelta(days=1)
    cftime.DatetimeNoLeap(2015, 3, 1, 12, 0, 0, 0, has_year_zero=True)
    """
    plain = _plain(given)
    if isinstance(plain, str):
        return _parsed(argument, plain, calendar)
    if not is_date(plain) or plain != plain:  # NaT is not itself
        raise _no_date(argument, given)
    return _of_calendar(argument, plain, calendar)


def _plain(given: Any) -> Any:
    """Return a date of NumPy or cftime, without dimensions or time zone; others as they are."""
    one: Any = given.values if getattr(given, "dims", None) == () else given
    one = one[()] if _is_array(one) and not one.ndim else one
    if getattr(one, "tzinfo", None) is not None:
        one = one.astimezone(dt.UTC).replace(tzinfo=None)
    return _NUMPY.datetime64(one, "us") if _is_plain(one) else one


def _is_array(one: object) -> bool:
    return isinstance(one, np.ndarray)


def _is_plain(one: object) -> bool:
    """Say whether a value is a date of NumPy or Python."""
    return isinstance(one, np.datetime64 | dt.date)


def _parsed(argument: str, text: str, calendar: str) -> Date:
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise _no_date(argument, text)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    clock = (hour, minute, second, int((found[7] or "").ljust(6, "0")))
    try:
        if calendar not in OF_NUMPY:
            return _CFTIME.datetime(year, month, day, *clock, calendar=calendar)
        date = np.datetime64(dt.datetime(year, month, day, *clock), "us")
    except ValueError as error:
        raise ArgumentError(
            f"{argument} is '{text}', which is no date of the calendar '{calendar}'.",
            hint="Check day and month, or give another 'calendar'.",
        ) from error
    return _of_calendar(argument, date, calendar)


def _of_calendar(argument: str, date: Date, calendar: str) -> Date:
    """Return a date that is one of a calendar; raises `ArgumentError` where it is of another."""
    own = calendar_of(date)
    if own in OF_NUMPY and calendar in OF_NUMPY:
        plain = date if _is_plain(date) else _NUMPY.datetime64(date.isoformat(), "us")
        if calendar == "standard" and plain < _REFORM:
            raise ArgumentError(
                f"{argument} is {plain}, but dates of the calendar 'standard' begin at"
                " 1582-10-15 here.",
                hint="Give 'calendar': 'proleptic_gregorian'.",
            )
        return plain
    if own != calendar:
        raise ArgumentError(
            f"{argument} is a date of the calendar '{own}', but the run has '{calendar}'.",
            hint=f"Give 'calendar': '{own}', or the date as text.",
        )
    return date


def _no_date(argument: str, given: object) -> ArgumentError:
    return ArgumentError(
        f"{argument} must be a date, got {given!r}.",
        hint="Write for example '2015-01-31' or '2015-01-31T06:00:00'.",
    )


def duration_of(argument: str, given: object) -> int:
    """Return a duration in microseconds; raises `ArgumentError` where it is none.

    >>> duration_of("step", "15min"), duration_of("step", "1h 30min") // 60_000_000
    (900000000, 90)
    """
    match given:
        case str():
            if not _DURATION.fullmatch(given.strip()):
                raise _no_duration(argument, given)
            parts = [(int(number), _UNITS[unit]) for number, unit in _PART.findall(given)]
            count = sum(number * unit for number, unit in parts)
        case dt.timedelta():
            count = given // dt.timedelta(microseconds=1)
        case np.timedelta64() if np.datetime_data(given.dtype)[0] in _EXACT and not np.isnat(given):
            count = int(given.astype("timedelta64[us]").astype(np.int64))
            if np.timedelta64(count, "us") != given:
                raise _no_duration(argument, given)
        case _:
            raise _no_duration(argument, given)
    if not 0 < count <= _LONGEST:
        raise _no_duration(argument, given)
    return count


def _no_duration(argument: str, given: object) -> ArgumentError:
    units = ", ".join(f"'{unit}'" for unit in _UNITS)
    return ArgumentError(
        f"{argument} must be an exact positive duration, got {given!r}.",
        hint=f"Write for example '15min' or '1h 30min'; units are {units}, months and years differ"
        " in length.",
    )


def microseconds(start: Date, date: Date) -> int:
    """Return how many microseconds after another date one is, of the same calendar."""
    if _is_plain(date):
        return int((date - start).astype("timedelta64[us]").astype(np.int64))
    return (date - start) // dt.timedelta(microseconds=1)


def later(start: Date, count: int) -> Date:
    """Return the date so many microseconds later."""
    if _is_plain(start):
        return start + np.timedelta64(count, "us")
    return start + dt.timedelta(microseconds=count)


def offsets(start: Date, dates: NDArray[Any]) -> NDArray[np.int64]:
    """Return the microseconds from a date to other dates of its calendar."""
    if dates.dtype.kind == "M":
        return (dates.astype("datetime64[us]") - start).astype(np.int64)
    counts = [microseconds(start, one) for one in dates.ravel()]
    return np.array(counts, np.int64).reshape(dates.shape)


def year_of(date: Date) -> tuple[Date, Date]:
    """Return the beginning of the year of a date, and that of the next year."""
    if _is_plain(date):
        year = date.astype("datetime64[Y]")
        return year.astype("datetime64[us]"), (year + 1).astype("datetime64[us]")
    year, calendar = int(date.year), date.calendar
    first, following = (_CFTIME.datetime(at, 1, 1, calendar=calendar) for at in (year, year + 1))
    return first, following


def shown_date(date: Date) -> str:
    """Return a date for a person.

    >>> shown_date(np.datetime64("2015-01-01", "us")), shown_date(np.datetime64("2015-01-01T06:30"))
    ('2015-01-01', '2015-01-01T06:30:00')
    """
    text = str(date.astype("datetime64[us]")) if _is_plain(date) else (date.isoformat())
    text = text.removesuffix(".000000")
    return text.removesuffix("T00:00:00")


def shown_duration(count: int) -> str:
    """Return a duration as text that `duration_of` reads.

    >>> shown_duration(900_000_000), shown_duration(86_400_000_000), shown_duration(90_000_000)
    ('15min', '1D', '90s')
    """
    unit = next(name for name in ("D", "h", "min", "s", "ms", "us") if count % _UNITS[name] == 0)
    return f"{count // _UNITS[unit]}{unit}"
