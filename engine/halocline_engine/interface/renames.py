"""Old names of arguments, from before the first release, and their new names.

Functions refuse old names and suggest the new ones. Stored jobs, requests and job files with old
names are translated when they are read. Workspaces are identified by old names, so that jobs resume
from passes that were finished before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, cast

__all__ = ["RENAMED", "complement", "with_new_names", "with_old_names"]

#: New names by old ones, by function; a process has the names of its function.
RENAMED: Mapping[str, Mapping[str, str]] = {
    "stencil": {"name": "stencil_name", "every": "snapshot_every"},
    "sequence": {"every": "snapshot_every"},
    "regrid": {"missing": "skipna", "least": "na_thres"},
    "until": {"every": "check_every"},
    "job": {"name": "job_name"},
    "Options": {
        "memory": "memory_limit",
        "device_memory": "device_memory_limit",
        "share": "memory_fraction",
        "cache": "chunk_cache",
    },
}
_SKIPS = {"renormalise": True, "propagate": False}


def complement(share: Any) -> Any:
    """Return 1 minus a share in decimal arithmetic; other values are returned unchanged.

    >>> complement(0.7), 1 - 0.7, complement(0.3)
    (0.3, 0.30000000000000004, 0.7)
    """
    if isinstance(share, bool) or not isinstance(share, int | float):
        return share
    try:
        return float(1 - Decimal(repr(float(share))))
    except OverflowError:
        return share


#: Conversion of values of arguments whose meaning changed with the name.
_VALUES: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("regrid", "missing"): lambda rule: _SKIPS.get(rule, rule) if isinstance(rule, str) else rule,
    ("regrid", "least"): complement,
}
_OLD_VALUES: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("regrid", "skipna"): lambda skips: "renormalise" if skips else "propagate",
    ("regrid", "na_thres"): complement,
}


def with_new_names(process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a process, including those of stages, with new names.

    An old name is kept if the new one is given too, so that the conflict is reported.

    >>> with_new_names("regrid", {"missing": "propagate", "least": 0.25})
    {'skipna': False, 'na_thres': 0.75}
    >>> with_new_names("sequence", {"stages": [{"stencil": {"name": "f"}}], "every": 2})
    {'stages': [{'stencil': {'stencil_name': 'f'}}], 'snapshot_every': 2}
    """
    return _translated(process, inputs, RENAMED, _VALUES)


def with_old_names(process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with old names, which identify workspaces.

    >>> with_old_names("stencil", {"stencil_name": "f", "until": {"check_every": 2}})
    {'name': 'f', 'until': {'every': 2}}
    """
    return _translated(process, inputs, _BEFORE, _OLD_VALUES)


_BEFORE: Mapping[str, Mapping[str, str]] = {
    process: {new: old for old, new in names.items()} for process, names in RENAMED.items()
}


def _translated(
    process: str,
    inputs: Mapping[str, Any],
    names: Mapping[str, Mapping[str, str]],
    values: Mapping[tuple[str, str], Callable[[Any], Any]],
) -> dict[str, Any]:
    own = names.get(process, {})
    made: dict[str, Any] = {}
    for name, value in inputs.items():
        known = name if own.get(name) in inputs else own.get(name, name)
        change = values.get((process, name), _same) if known != name else _same
        made[known] = _inside(process, name, change(value), inputs, names, values)
    return made


def _same(value: Any) -> Any:
    return value


def _inside(
    process: str,
    name: str,
    value: Any,
    beside: Mapping[str, Any],
    names: Mapping[str, Mapping[str, str]],
    values: Mapping[tuple[str, str], Callable[[Any], Any]],
) -> Any:
    """Return the value of an input, with translated names if it contains inputs."""

    def again(kind: str, inner: Any) -> Any:
        if not isinstance(inner, Mapping):
            return inner
        return _translated(kind, cast("Mapping[str, Any]", inner), names, values)

    match process, name, value:
        case "plan", "inputs", Mapping():
            return again(str(beside.get("process")), value)
        case "stencil", "until", Mapping():
            return again("until", value)
        case "sequence", "stages", list() | tuple():
            return [
                {kind: again(kind, own) for kind, own in cast("Mapping[str, Any]", stage).items()}
                if isinstance(stage, Mapping)
                else stage
                for stage in cast("list[Any]", value)
            ]
        case _:
            return value
