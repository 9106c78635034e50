"""Refusals of calls whose arguments a function does not have, or lacks, with the way out."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from halocline_engine.errors import ArgumentError
from halocline_engine.interface.absent import Door, shown, way_out
from halocline_engine.interface.habits import RULES, WEIGHTS, hint_of_argument, hint_of_rule
from halocline_engine.interface.renames import RENAMED, with_new_names

__all__ = ["nearest", "refusal", "refuse_missing", "renamed_to", "unknown"]

_FROM_SELF = ("self", "cls")


def refusal(
    function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> ArgumentError | None:
    """Return why a call does not fit the signature of a function; None where it does."""
    parameters = _parameters(function)
    for name in named:
        if name not in parameters and not _takes(parameters, inspect.Parameter.VAR_KEYWORD):
            return unknown(function, name, named[name], args)
    positional = [
        name
        for name, one in parameters.items()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if len(args) > len(positional) and not _takes(parameters, inspect.Parameter.VAR_POSITIONAL):
        return _too_many(function, parameters, positional, len(args))
    by_place = positional[: len(args)]
    for name in by_place:
        if name in named:
            return ArgumentError(
                f"{_called(function)} has the argument '{name}' twice, by position and by name.",
                hint="Give it once.",
            )
    missing = [
        name
        for name, one in parameters.items()
        if one.default is one.empty
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        and name not in (*by_place, *named)
    ]
    return refuse_missing(function, missing) if missing else None


def unknown(
    function: Callable[..., Any], name: str, value: Any, args: Sequence[Any] = ()
) -> ArgumentError:
    """Return the error for an argument that a function does not have."""
    parameters = _parameters(function)
    known = [each for each, one in parameters.items() if one.kind is not one.VAR_KEYWORD]
    called = _called(function)
    for new, translated in _renamed(function, name, value).items():
        return ArgumentError(
            f"{called} has no argument '{name}': it was renamed to '{new}'.",
            hint=f"Write {new}={shown(translated)}{_or_job(known, new, value)}.",
        )
    if name == "dataset" and "client" in known:
        hint = "Leave it out: it is the dataset that '.halocline' belongs to."
        return ArgumentError(f"{called} has no argument '{name}'.", hint=hint)
    of_service = function.__module__.partition(".")[0] == "halocline"
    door = Door.SERVICE if of_service else Door.LIBRARY
    if ("job_name" if of_service else "options") in known and (hint := way_out(door, name, value)):
        what = "A job in a service has no" if of_service else f"{called} has no argument"
        return ArgumentError(f"{what} '{name}'.", hint=hint)
    return ArgumentError(
        f"{called} has no argument '{name}'.", hint=_way_out(known, name, value, args)
    )


def _or_job(known: Sequence[str], new: str, value: Any) -> str:
    """Return the end of a hint where the name of a job may be meant, and not of a stencil."""
    is_either = new == "stencil_name" and "job_name" in known
    return f", or job_name={shown(value)} for the name of the job" if is_either else ""


def _way_out(known: Sequence[str], name: str, value: Any, args: Sequence[Any]) -> str:
    is_number = isinstance(value, bool | int | float) or getattr(value, "ndim", None) == 0
    of_program = bool(args) and _is_parameter(args[0], name)
    close = nearest(name, known)
    dims = [dim for each in args for dim in _dims_of(each)]
    if not of_program and (hint := hint_of_argument(name, value, known, dims)):
        return hint
    if close and not of_program:
        return f"Did you mean '{close}'?"
    if "scalars" in known and is_number:
        return f"Scalars of the program are given by name: scalars={{'{name}': {shown(value)}}}."
    is_rule = isinstance(value, str) and (name in dims or value in RULES)
    if "boundary" in known and is_rule and hint_of_rule(name, value):
        written = hint_of_rule(name, value).removeprefix("Write ")
        return f"Boundaries are given by dimension: {written}"
    if "fields" in known and of_program and isinstance(value, str):
        return f"Variables are given by field: fields={{'{name}': {shown(value)}}}."
    if of_program:
        return f"Fields are variables of the dataset: dataset.assign({name}=...)."
    return f"It takes {', '.join(known)}." if known else "It takes no arguments."


def _dims_of(dataset: Any) -> list[str]:
    """Return the dimensions of the variable of a dataset that has most of them."""
    variables = [*getattr(dataset, "data_vars", {}).values()] or [dataset]
    widest = max(variables, key=lambda each: len(getattr(each, "dims", ())))
    return [str(dim) for dim in getattr(widest, "dims", ())]


def _is_parameter(program: Any, name: str) -> bool:
    """Say whether a program has a parameter of a name, as far as can be told at once."""
    if isinstance(program, str):
        return re.search(rf"[(,\s]{re.escape(name)}\s*:", program) is not None
    if inspect.isfunction(program):
        return name in inspect.signature(program).parameters
    signature = getattr(program, "__signature__", None)
    return isinstance(signature, inspect.Signature) and name in signature.parameters


def renamed_to(process: str, name: str) -> str:
    """Return the end of a sentence that says what replaced an argument, or nothing.

    >>> renamed_to("stencil", "name")
    ": it was renamed to 'stencil_name'"
    """
    new = RENAMED.get(process, {}).get(name)
    return "" if new is None else f": it was renamed to '{new}'"


def refuse_missing(function: Callable[..., Any], names: Sequence[str]) -> ArgumentError:
    """Return the error for arguments that a function needs."""
    several = "arguments" if len(names) > 1 else "argument"
    listed = ", ".join(f"'{name}'" for name in names)
    written = ", ".join(f"{name}=..." for name in names)
    return ArgumentError(
        f"{_called(function)} needs the {several} {listed}.",
        hint=f"Give {'them' if len(names) > 1 else 'it'}: {_name(function)}(..., {written}).",
    )


def _too_many(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    positional: Sequence[str],
    count: int,
) -> ArgumentError:
    by_name = next((name for name in parameters if name not in positional), None)
    hint = f"Give the others by name, such as {by_name}=..." if by_name else ""
    if "weights" in positional:
        hint = WEIGHTS
    taken = f"{len(positional)} ({', '.join(positional)})" if positional else "none"
    return ArgumentError(
        f"{_called(function)} got {count} arguments by position, but takes {taken}.",
        hint=hint or "Leave some out.",
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another, or None.

    >>> nearest("boundry", ["boundary", "steps"]), nearest("mem", ["order", "memory_limit"])
    ('boundary', 'memory_limit')
    """
    names = list(known)
    close = difflib.get_close_matches(name.lower(), names, 1, 0.72)
    if close:
        return close[0]
    begun = [each for each in names if each.startswith(name) or name.startswith(f"{each}_")]
    return begun[0] if begun and len(name) > 2 else None


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that callers see: without the object that a method belongs to."""
    return {name: one for name, one in _whole(function).items() if name not in _FROM_SELF}


def _whole(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _takes(parameters: Mapping[str, inspect.Parameter], kind: Any) -> bool:
    return any(one.kind is kind for one in parameters.values())


def _renamed(function: Callable[..., Any], name: str, value: Any) -> Mapping[str, Any]:
    """Return the argument that an old name stands for now, if it is one."""
    own = {"run": "stencil", "jobs": "job", "submit": "job"}.get(_name(function), _name(function))
    return with_new_names(own, {name: value}) if name in RENAMED.get(own, {}) else {}


def _called(function: Callable[..., Any]) -> str:
    return f"{_name(function)}()"


def _name(function: Callable[..., Any]) -> str:
    names = function.__qualname__.split(".")
    return names[-2] if names[-1] == "__init__" else names[-1]
