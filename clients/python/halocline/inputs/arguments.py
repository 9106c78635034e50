"""The arguments of the client's methods, checked before anything is sent.

An argument has the same type in every method, so that one table of names suffices. Messages have
the expected type, the actual value, and an example.
"""

from __future__ import annotations

import datetime as dt
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from halocline.errors import ArgumentError
from halocline.inputs.values import dtype_name, numbers, plain_externals
from halocline_engine.arguments import plain_number

__all__ = ["CHECKS", "by_name", "flag", "limited", "names", "place", "plain", "seconds", "text"]

_Check: TypeAlias = Callable[[str, Any], Any]


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as JSON, without None and empty ones.

    Raises ArgumentError if an argument has the wrong type.
    """
    checked = {
        name: CHECKS[name](name, value) if name in CHECKS else value
        for name, value in given.items()
        if value is not None
    }
    return {name: value for name, value in checked.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and not value)


def by_name(argument: str, given: Any) -> dict[str, Any]:
    """Return a mapping from names, empty for None."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _wrong(argument, "a mapping", given)
    mapping = cast("Mapping[Any, Any]", given)
    for name in mapping:
        if not isinstance(name, str):
            raise _wrong(argument, "a mapping from names", name)
    return dict(mapping)


def text(argument: str, given: Any) -> str:
    """Return a text."""
    if not isinstance(given, str):
        raise _wrong(argument, "text", given)
    try:
        given.encode()
    except UnicodeEncodeError:
        raise _wrong(argument, "text that UTF-8 can express", given) from None
    return given


def limited(argument: str, given: Any) -> int:
    """Return a whole number from 1."""
    count = _whole(argument, given)
    if count < 1:
        raise _wrong(argument, "a whole number from 1", given)
    return count


def seconds(argument: str, given: Any) -> float | None:
    """Return a number of seconds, or None for no limit."""
    if given is None:
        return None
    duration = float(_number(argument, given))
    if not duration >= 0:
        raise _wrong(argument, "a number of seconds", given)
    return duration


def flag(argument: str, given: Any) -> bool:
    """Return True or False."""
    if not isinstance(given, bool | np.bool_):
        raise _wrong(argument, "True or False", given)
    return bool(cast("Any", given))


def place(argument: str, given: Any) -> Path:
    """Return a path."""
    if isinstance(given, Path):
        return given
    path = text(argument, given)
    if not path or "\0" in path:
        raise _wrong(argument, "a path", given)
    return Path(path)


def names(argument: str, given: Any) -> list[str]:
    """Return a list of names; a single text is refused, as it iterates over its letters."""
    if not isinstance(given, str | bytes | Mapping):
        several: list[object] | None = None
        with suppress(TypeError):
            several = list(cast("Iterable[object]", given))
        if several is not None and all(isinstance(name, str) for name in several):
            return cast("list[str]", several)
    raise _wrong(argument, "a list of names", given)


def _names_by_name(argument: str, given: Any) -> dict[str, str]:
    mapping = by_name(argument, given)
    for name, value in mapping.items():
        if not isinstance(value, str):
            raise _wrong(argument, f"a mapping with a name for '{name}'", value)
    return mapping


def _axes(argument: str, given: Any) -> dict[str, str | None]:
    """Return dimensions by axis, None for an axis that the dataset lacks."""
    dims = by_name(argument, given)
    named = _names_by_name(argument, {name: dim for name, dim in dims.items() if dim is not None})
    return {name: named.get(name) for name in dims}


def _sizes(argument: str, given: Any) -> dict[str, int]:
    sizes = by_name(argument, given)
    return {name: _whole(f"{argument}['{name}']", size) for name, size in sizes.items()}


def _grid(argument: str, given: Any) -> dict[str, dict[str, str]]:
    found = by_name(argument, given)
    return {name: _names_by_name(f"{argument}['{name}']", found[name]) for name in found}


def _positions(argument: str, given: Any) -> dict[str, list[str]]:
    found = by_name(argument, given)
    return {name: names(f"{argument}['{name}']", found[name]) for name in found}


def _boundary(argument: str, given: Any) -> dict[str, Any]:
    rules = by_name(argument, given)
    for name, rule in rules.items():
        if not isinstance(rule, str | Mapping):
            raise _wrong(argument, f"a mapping with a rule for '{name}'", rule)
    return {name: _rule(rule) for name, rule in rules.items()}


def _rule(rule: Any) -> Any:
    """Return a rule, or a rule for each side, with Python's numbers."""
    if isinstance(rule, Mapping):
        return {side: _rule(each) for side, each in cast("Mapping[str, Any]", rule).items()}
    number = plain_number(rule)
    return rule if number is None else number


def _axis(argument: str, given: Any) -> str | dict[str, str]:
    return given if isinstance(given, str) else _names_by_name(argument, given)


def _scalars(argument: str, given: Any) -> dict[str, Any] | None:
    """Return the scalars of a request: numbers, clocks and values along a dimension."""
    told = by_name(argument, given)
    varying = {name: _varying(argument, name, one) for name, one in told.items() if _varies(one)}
    rest = {name: value for name, value in told.items() if name not in varying}
    return {**(numbers(argument, rest) or {}), **varying} or None


def _varies(value: Any) -> bool:
    return isinstance(value, Mapping) or bool(getattr(value, "dims", ()))


def _varying(argument: str, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        if len(value.dims) > 1:
            raise _wrong(f"{argument}['{name}']", "an array along one dimension", value)
        value = {"values": np.asarray(value.values), "dim": str(value.dims[0])}
    told = dict(cast("Mapping[str, Any]", value))
    if told.keys() not in ({"clock"}, {"values", "dim"}):
        raise _wrong(
            f"{argument}['{name}']", "a number, {'clock': ...} or {'values', 'dim'}", value
        )
    if isinstance(told.get("values"), np.ndarray | list | tuple):
        several = {str(at): one for at, one in enumerate(told["values"])}
        told["values"] = list((numbers(argument, several) or {}).values())
    return told


def _time(argument: str, given: Any) -> dict[str, Any]:
    """Return the argument `time` with dates and durations as text."""
    told = by_name(argument, given)
    # The time of a result says when the first run started.
    known = getattr(told.get("start"), "attrs", {}).get("halocline_start")
    if known is not None:
        told = {"reference": known, **told}
    return {name: _moment(value) for name, value in told.items()}


def _moment(value: Any) -> Any:
    one = value.values[()] if getattr(value, "dims", None) == () else value
    if isinstance(one, (np.timedelta64, dt.timedelta)):
        return f"{cast('Any', np).timedelta64(one, 'us').astype(np.int64)}us"
    if isinstance(one, (np.datetime64, dt.date)):
        return str(cast("Any", np).datetime64(one, "us"))
    return one.isoformat() if hasattr(one, "isoformat") else one


def _externals(argument: str, given: Any) -> dict[str, Any] | None:
    return plain_externals(by_name(argument, given))


def _dtypes(argument: str, given: Any) -> dict[str, str]:
    return {name: dtype_name(value) for name, value in by_name(argument, given).items()}


def _name_or_names(argument: str, given: Any) -> str | list[str]:
    return given if isinstance(given, str) else names(argument, given)


def _whole(argument: str, given: Any) -> int:
    number = plain_number(given)
    if type(number) is not int:
        raise _wrong(argument, "a whole number", given)
    return number


def _number(argument: str, given: Any) -> Any:
    number = plain_number(given)
    if number is None or isinstance(number, bool):
        raise _wrong(argument, "a number", given)
    return number


def _wrong(argument: str, expected: str, given: Any) -> ArgumentError:
    name = argument.partition("[")[0]
    kind = "nothing" if given is None else f"'{type(given).__name__}' {reprlib.repr(given)}"
    example = _EXAMPLES.get(name)
    hint = f"Write for example {name}={example}." if example else ""
    return ArgumentError(f"Argument '{argument}' must be {expected}, got {kind}.", hint=hint)


def _stages(argument: str, given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list | tuple):
        raise _wrong(argument, "a list of stages", given)
    made: list[dict[str, Any]] = []
    for number, stage in enumerate(cast("Sequence[Any]", given)):
        kinds = by_name(f"{argument}[{number}]", stage)
        if {*kinds} == {"repeat", "stages"}:
            place = f"{argument}[{number}]"
            count = _whole(f"{place}['repeat']", kinds["repeat"])
            made.append({"repeat": count, "stages": _stages(f"{place}['stages']", kinds["stages"])})
            continue
        if len(kinds) != 1:
            raise _wrong(f"{argument}[{number}]", "one kind with its arguments", stage)
        named = {kind: f"{argument}[{number}]['{kind}']" for kind in kinds}
        made.append({kind: plain(by_name(named[kind], own)) for kind, own in kinds.items()})
    return made


def _precision(argument: str, given: Any) -> int | dict[str, int]:
    if isinstance(given, Mapping):
        return {name: _whole(argument, bits) for name, bits in by_name(argument, given).items()}
    return _whole(argument, given)


def _until(argument: str, given: Any) -> dict[str, Any]:
    kinds: Mapping[str, _Check] = {"below": _number, "check_every": _whole}
    members = by_name(argument, given)
    return {name: kinds.get(name, text)(f"{argument}['{name}']", members[name]) for name in members}


def _diagnostics(argument: str, given: Any) -> dict[str, Any]:
    kinds: Mapping[str, _Check] = {
        "dims": names,
        "bins": _numbers,
        "skipna": flag,
        "every": _whole,
    }
    made: dict[str, Any] = {}
    for name, one in by_name(argument, given).items():
        place = f"{argument}['{name}']"
        made[name] = {
            key: kinds.get(key, text)(f"{place}['{key}']", value)
            for key, value in by_name(place, one).items()
            if value is not None
        }
    return made


def _numbers(argument: str, given: Any) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise _wrong(argument, "a list of numbers", given)
    return [_number(argument, number) for number in cast("Iterable[Any]", given)]


_EXAMPLES: Mapping[str, str] = {
    "fields": "{'t': 'temperature'}",
    "scalars": "{'strength': 0.2}",
    "externals": "{'ORDER': 2}",
    "dtypes": "{'float_type': 'float32'}",
    "axes": "{'I': 'lon', 'J': 'lat'}",
    "axis": "{'centre': 'z', 'face': 'z_f'}",
    "grid": "{'X': {'center': 'xh', 'right': 'xq'}}",
    "positions": "{'curl': ['yq', 'xq']}",
    "boundary": "{'lon': 'periodic'}",
    "feedback": "{'smoothed': 't'}",
    "time": "{'start': '2015-01-01', 'step': '15min'}",
    "until": "{'field': 'smoothed', 'below': 1e-6}",
    "chunks": "{'lat': 100, 'lon': 100}",
    "diagnostics": "{'heat': {'sum': 'rho * t', 'weights': 'area'}}",
    "inputs": "{'dataset': 'upload:...'}",
    "variables": "['u', 'v']",
    "dims": "['lat', 'lon']",
    "labels": "['nightly', 'sst']",
    "target_dims": "['lat', 'lon']",
    "results": "['u', 'v']",
    "rhs": "'rhs'",
    "stages": "[{'stencil': {'program': program}}, {'tridiagonal': {'rhs': 'b', ...}}]",
    "steps": "100",
    "snapshot_every": "10",
    "size": "100",
    "dry_run": "True",
    "periodic": "True",
    "pivoting": "True",
    "residual": "True",
    "progress": "False",
    "timeout": "60",
    "limit": "20",
    "at_once": "4",
    "identity": "'0192f0c1-...', as 'halocline ls' shows it",
    "process": "'stencil'",
}

_TEXTS = (
    *(
        "name",
        "stencil_name",
        "target",
        "mode",
        "order",
        "expression",
        "heights",
        "dtype",
        "dim",
        "lower",
    ),
    *("lower", "second_lower", "diagonal", "upper", "second_upper", "parent", "row_size", "source"),
    *("index", "left", "right", "out_of_range", "negative", "duplicates", "operation"),
    *("location", "job_name", "arithmetic"),
)
#: Conversion of each argument to JSON, by name.
CHECKS: Mapping[str, _Check] = {
    **dict.fromkeys(_TEXTS, text),
    **dict.fromkeys(("fields", "feedback"), _names_by_name),
    **dict.fromkeys(("variables", "dims", "target_dims", "labels", "results"), names),
    **dict.fromkeys(("periodic", "pivoting", "residual", "skipna", "dry_run"), flag),
    **dict.fromkeys(("steps", "snapshot_every", "size"), _whole),
    **dict.fromkeys(("na_thres", "fill", "radius"), _number),
    "axes": _axes,
    "axis": _axis,
    "boundary": _boundary,
    "chunks": _sizes,
    "diagnostics": _diagnostics,
    "dtypes": _dtypes,
    "externals": _externals,
    "grid": _grid,
    "literal_precision": _precision,
    "positions": _positions,
    "rhs": _name_or_names,
    "scalars": _scalars,
    "stages": _stages,
    "time": _time,
    "until": _until,
}
