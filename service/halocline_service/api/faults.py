"""Faults of a request in sentences: the place, the expected and the given value.

Pydantic reports a fault for each member of a union, at a location that contains the names of
members. Here the location is resolved in the request, and the faults of one value are merged into
one sentence. Of an input with several wrong values, the innermost is reported, as the values around
it are valid.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias, cast

from halocline_engine.interface.absent import Door, way_out
from halocline_engine.interface.habits import hint_of_argument, hint_of_axes, hint_of_rule
from halocline_service.api.corrections import correction

__all__ = ["Told", "plain", "shown", "told"]

_Path: TypeAlias = tuple[str | int, ...]
_Error: TypeAlias = Mapping[str, Any]

_LONGEST = 100
_MOST = 20  # inputs that are reported
_KEY = "[key]"  # last part of the location of a wrong name

#: Expectation by the type of a fault, with placeholders for the context.
_EXPECTED: Mapping[str, str] = {
    **dict.fromkeys(("string_type", "string_unicode"), "be text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "be a whole number"),
    "int_parsing_size": "be a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "be a number"),
    "finite_number": "be a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "be true or false"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "be an object"),
    "list_type": "be a list",
    "literal_error": "be {expected}",
    "greater_than": "be more than {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be less than {lt}",
    "less_than_equal": "be at most {le}",
    "string_too_short": "be text of {min_length} characters or more",
    "string_too_long": "be text of {max_length} characters or fewer",
    "too_short": "have {min_length} items or more",
    "too_long": "have {max_length} items or fewer",
    "string_pattern_mismatch": "match the pattern {pattern}",
}


@dataclass(frozen=True, slots=True)
class Told:
    """Fault of one input: its place, message and hint."""

    place: _Path
    message: str
    hint: str = ""
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault at its place in the request; with `of_name`, the last name of the place is wrong."""

    place: _Path
    error: _Error
    of_name: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        """Order of faults: values before unknown names, and these before others."""
        order = {"missing": 2, "extra_forbidden": 1}
        return -len(self.place), order.get(self.error["type"], 0)


def told(
    errors: Sequence[_Error],
    given: object,
    *,
    what: str,
    schema: Mapping[str, Any],
    below: Collection[str] = (),
) -> list[Told]:
    """Return one fault for each wrong input, in the order of the model.

    `what` is the term for an input, and `schema` the schema of the model without references. Names
    in `below` belong below 'inputs'.
    """
    inputs: dict[_Path, list[_Fault]] = {}
    for error in errors:
        fault = _located(error, given)
        inputs.setdefault(fault.place[:1], []).append(fault)
    first = islice(inputs.values(), _MOST)
    return [_below(below, _sentence(faults, given, what, schema)) for faults in first]


def _below(names: Collection[str], fault: Told) -> Told:
    """Return a fault with the right place for a name that stands beside 'inputs'."""
    if len(fault.place) != 1 or fault.place[0] not in names or not fault.is_unknown:
        return fault
    hint = f'Write it below "inputs": {{"inputs": {{"{fault.place[0]}": ...}}}}.'
    return replace(fault, hint=hint)


def shown(value: object) -> str:
    """Return a value as JSON, text in single quotes, truncated if it is long.

    >>> print(shown("edge"), shown(None), shown([1, True]))
    'edge' null [1, true]
    """
    if isinstance(value, str):
        return f"'{plain(value)}'"
    return plain(json.dumps(value, default=str))


def plain(text: str) -> str:
    """Return text that is valid UTF-8, truncated if it is long."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return short.encode("utf-8", "backslashreplace").decode()


def _located(error: _Error, given: object) -> _Fault:
    """Return a fault at its place; parts of the location without a value are union members."""
    location: _Path = error["loc"]
    if location and location[-1] == _KEY:
        return _Fault((*_place(location[:-2], given, None), location[-2]), error, of_name=True)
    if error["type"] == "missing":
        return _Fault(_place(location[:-1], given, error["input"]) + location[-1:], error)
    return _Fault(_place(location, given, error["input"]), error)


def _place(location: _Path, given: object, value: object) -> _Path:
    """Return the place of a value, as far as it can be determined."""
    ways = list(_ways(location, given, ()))
    return next((way for way, reached in ways if reached is value), ways[0][0] if ways else ())


def _ways(location: _Path, value: object, way: _Path) -> Iterator[tuple[_Path, object]]:
    """Yield the interpretations of a location, the one with the longest place first."""
    if not location:
        yield way, value
        return
    head, rest = location[0], location[1:]
    inner = _inner(value, head)
    if inner:
        yield from _ways(rest, inner[0], (*way, head))
    if isinstance(head, str):
        yield from _ways(rest, value, way)


def _inner(value: object, name: str | int) -> list[object]:
    """Return the member of a value with a name, or nothing."""
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)
        return [items[name]] if name in items else []
    if isinstance(value, list) and isinstance(name, int):
        return cast("list[object]", value)[name : name + 1]
    return []


def _sentence(
    faults: Sequence[_Fault], given: object, what: str, schema: Mapping[str, Any]
) -> Told:
    """Return the innermost fault of an input, with all expectations at its place."""
    first = min(faults, key=lambda fault: fault.rank)
    here = [one for one in faults if (one.place, one.rank) == (first.place, first.rank)]
    subject, kind = _subject(first.place, what), first.error["type"]
    if kind == "missing":
        return Told(first.place, f"{subject} is missing.", _description(schema, first.place))
    if kind == "extra_forbidden":
        return _unknown(first.place, given, what, schema)
    if kind == "value_error":
        reason = str(first.error["msg"]).removeprefix("Value error, ").rstrip(".")
        return Told(first.place, f"{subject} is wrong: {reason[:1].lower()}{reason[1:]}.")
    expected = _listed(list(dict.fromkeys(_expected(one.error) for one in here)))
    if first.of_name:
        within = _subject(first.place[:-1], what.lower())
        subject = f"The name {shown(first.place[-1])} in {within}"
        hint = _of_others(first.place[:-1], given) or _description(schema, first.place)
        return Told(first.place, f"{subject} must {expected}.", hint)
    allowed = _schemas_at(schema, first.place)
    right = correction([one.error for one in here], first.place, allowed, what=what)
    return Told(
        first.place,
        f"{subject} must {expected}, got {_got(kind, first.error['input'])}.",
        right or _of_others(first.place, given) or _description(schema, first.place),
    )


def _of_others(place: _Path, given: object) -> str:
    """Return how a rule or axes are written that have the form of another package, or ""."""
    value = _at(place, given)
    match place:
        case (*_, "boundary", str(dim)):
            return hint_of_rule(dim, value)
        case (*_, "boundary", str(dim), str(end)) if end in ("low", "high"):
            return hint_of_rule(dim, value, end)
        case (*_, "axes") if isinstance(value, Mapping):
            return hint_of_axes(cast("Mapping[str, object]", value))
        case _:
            return ""


def _subject(place: _Path, what: str) -> str:
    if not place:
        return "The body of the request"
    return f"{what} '{'.'.join(plain(str(part)) for part in place)}'"


def _expected(error: _Error) -> str:
    context: Mapping[str, Any] = error.get("ctx") or {}
    if context.get("min_length") == 1:
        return "not be empty"
    return _EXPECTED.get(error["type"], "be of another kind").format(**context)


def _listed(expected: list[str]) -> str:
    """Join the expected types, or return the first expectation if there are none."""
    if "be a number" in expected and "be a whole number" in expected:
        expected.remove("be a whole number")
    whole = [one for one in expected if one.startswith("be ")] or expected[:1]
    if len(whole) == 1:
        return whole[0]
    kinds = [one.removeprefix("be ") for one in whole]
    comma = "," if any(" or " in kind for kind in kinds) else ""
    return f"be {', '.join(kinds[:-1])}{comma} or {kinds[-1]}"


def _got(kind: str, value: object) -> str:
    match kind:
        case "string_too_long" | "too_long":
            return f"{len(cast('Any', value))}"
        case _:
            return shown(value)


def _unknown(place: _Path, given: object, what: str, schema: Mapping[str, Any]) -> Told:
    """Return the fault of an unknown name, or of a name that conflicts with others."""
    name, outer = str(place[-1]), place[:-1]
    sets = [list(one.get("properties", ())) for one in _schemas_at(schema, outer)]
    sets = [names for names in sets if names]
    known = [known for names in sets for known in names]
    if name not in known:
        value = _at(place, given)
        hint = (
            way_out(Door.REQUEST, name)
            or hint_of_argument(name, value, known)
            or _meant(name, known)
        )
        return Told(place, f"{_subject(place, what)} is unknown.", hint, is_unknown=True)
    value = _at(outer, given)
    taken = ", or ".join(_named(names) for names in sets)
    got = _named(list(value))
    return Told(outer, f"{_subject(outer, what)} takes {taken}, but got {got}.", "Leave one out.")


def _at(place: _Path, given: object) -> Any:
    """Return the value at a place in what was sent."""
    value: Any = given
    for part in place:
        value = value[part]
    return value


def _named(names: Sequence[str]) -> str:
    *others, last = [f"'{plain(name)}'" for name in names]
    return f"{', '.join(others)} and {last}" if others else last


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name[:_LONGEST], known, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"There are {', '.join(known)}." if known else ""


def _description(schema: Mapping[str, Any], place: _Path) -> str:
    """Return the description of an input in the model."""
    described: Mapping[str, Any] = schema.get("properties", {})
    return str(described.get(str(place[0]), {}).get("description", "")) if place else ""


def _schemas_at(schema: Mapping[str, Any], place: _Path) -> list[Mapping[str, Any]]:
    """Return the possible schemas of a value at a place."""
    schemas = _choices(schema)
    for part in place:
        schemas = [choice for one in schemas for choice in _choices(_schema_of(one, part))]
    return schemas


def _schema_of(schema: Mapping[str, Any], name: str | int) -> Mapping[str, Any]:
    if isinstance(name, int):
        return schema.get("items", {})
    inner: Any = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


def _choices(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "anyOf" not in schema:
        return [schema]
    return [inner for one in schema["anyOf"] for inner in _choices(one)]
