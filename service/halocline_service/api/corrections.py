"""Right values for wrong ones, so that a hint says what to write instead.

A value of the wrong type is converted where that is not a guess: `"200"` is meant as `200`. For
others the schema of an input gives an example.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from halocline_engine.interface.habits import RULES_HERE
from halocline_engine.interface.words import ARGUMENTS

__all__ = ["correction"]

_Path: TypeAlias = Sequence[str | int]
_Error: TypeAlias = Mapping[str, Any]
_Schema: TypeAlias = Mapping[str, Any]

_LONGEST = 100
#: What the context of an error has, by its type.
_BOUNDS: Mapping[str, str] = {"greater_than_equal": "ge", "less_than_equal": "le"}
#: Words of other tools for values here.
_MEANT: Mapping[str, Any] = {
    **RULES_HERE,
    **dict.fromkeys(("nc", "nc4", "netcdf4", "application/x-netcdf"), "netcdf"),
    **dict.fromkeys(("text", "txt", "text/csv"), "csv"),
    **dict.fromkeys(("fma", "contracted"), "fused"),
}
#: Names in examples, by what they are names of.
_NAMES: Mapping[str, str] = {
    "dataset": "upload:<id>",
    "variable": "t",
    "dimension": "lat",
    "field": "t",
    "scalar": "k",
    "input": "t",
    "output": "s",
}
_NONE: Any = object()
#: How values are called whose hints say what to write.
_WRITTEN = ("Input", "Member", "Parameter")


def correction(
    errors: Sequence[_Error], place: _Path, allowed: Sequence[_Schema], *, what: str
) -> str:
    """Return a hint with what to write at a place, or nothing where that is not known.

    The `errors` are those of one value, `what` such values are called, and `allowed` are the
    schemas that a value may have there.
    """
    of_type = [one for one in errors if one["type"] in _READERS]
    bound = _BOUNDS.get(errors[0]["type"])
    if what == "Parameter" and bound:
        return f"Write for example {place[0]}={errors[0]['ctx'][bound]}."
    if what not in _WRITTEN or not of_type:
        return ""
    value = of_type[0]["input"]
    readings = [_READERS[one["type"]](value, one) for one in of_type]
    if any("constant" in one.get("properties", ()) for one in allowed):
        readings.append(_constant(value))
    meant = next((one for one in readings if one is not _NONE), _NONE)
    example = _plain_example(of_type[0]) if what == "Parameter" else _first(allowed)
    told = example if meant is _NONE else meant
    written = "" if told is _NONE else _written(place, told, what)
    if not written:
        return ""
    return f"Write for example {written}." if meant is _NONE else f"Write {written}."


def _written(place: _Path, value: Any, what: str) -> str:
    """Return a value at its place as users write it; arguments in Python's notation.

    Errors are told in the words of an interface, which knows this notation. What is in a list is
    written without what surrounds it.
    """
    last = max((at for at, part in enumerate(place) if isinstance(part, int)), default=-1)
    names = [str(part) for part in place[last + 1 :]]
    if what == "Parameter":
        return f"{names[0]}={value}".lower() if names else ""
    for name in reversed(names[1:]):
        value = {name: value}
    if what == "Input" and names and names[0] in ARGUMENTS:
        text = f"{names[0]}={value!r}"
    else:
        text = f"{json.dumps(names[0])}: {json.dumps(value)}" if names else json.dumps(value)
    return text if len(text) <= _LONGEST and text.isprintable() else ""


def _number(value: Any, _: _Error) -> Any:
    if not isinstance(value, str):
        return _NONE
    try:
        number = float(value.replace("_", "x"))
    except ValueError:
        return _NONE
    if not math.isfinite(number):
        return _NONE
    return int(value) if value.strip().lstrip("+-").isdigit() else number


def _whole(value: Any, error: _Error) -> Any:
    number = _number(value, error)
    if number is _NONE or number != int(number):
        return _NONE
    return int(number)


def _flag(value: Any, _: _Error) -> Any:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return known.get(str(value).lower(), _NONE) if isinstance(value, str | int) else _NONE


def _text(value: Any, _: _Error) -> Any:
    match value:
        case bool():
            return _NONE
        case int() | float():
            return str(value)
        case [str(only)]:
            return only
        case _:
            return _NONE


def _list(value: Any, _: _Error) -> Any:
    match value:
        case str() if value:
            return value.split(",")
        case bool() | int() | float():
            return [value]
        case _:
            return _NONE


def _object(value: Any, _: _Error) -> Any:
    """Return an object that was written as text, in JSON or as on the command line."""
    if not isinstance(value, str):
        return _NONE
    try:
        inner = cast("object", json.loads(value))
    except ValueError:
        inner = dict(re.findall(r"([\w.]+)[=:]\s*([\w.+-]+)", value))
    return cast("Any", inner) if isinstance(inner, dict) and inner else _NONE


def _choice(value: Any, error: _Error) -> Any:
    """Return the choice that is meant, by the words of other tools or the nearest spelling."""
    known = [json.loads(one) for one in _choices(str(error["ctx"]["expected"]))]
    if isinstance(value, str):
        word = value.strip().lower()
        meant = _MEANT.get(word, word)
        if meant in known:
            return meant
        close = get_close_matches(word, [one for one in known if isinstance(one, str)], n=1)
        if close:
            return close[0]
    same = [one for one in known if str(one) == str(value).lower()]
    return same[0] if same else _NONE


def _choices(expected: str) -> list[str]:
    """Return the values of a sentence such as "'a', 'b' or 3", each as JSON.

    >>> _choices("'edge', 'none' or 3")
    ['"edge"', '"none"', '3']
    """
    return [one.replace("'", '"') for one in re.findall(r"'[^']*'|\d+", expected)]


def _constant(value: Any) -> Any:
    """Return the object that a word or a number stands for where a constant is allowed."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"constant": value}
    meant = _MEANT.get(value.strip().lower()) if isinstance(value, str) else None
    return cast("Any", meant) if isinstance(meant, dict) else _NONE


_READERS: Mapping[str, Callable[[Any, _Error], Any]] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _whole),
    **dict.fromkeys(("float_type", "float_parsing"), _number),
    **dict.fromkeys(("bool_type", "bool_parsing"), _flag),
    "string_type": _text,
    "list_type": _list,
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _object),
    "literal_error": _choice,
}


def _plain_example(error: _Error) -> Any:
    """Return a value that an error does not refuse, where no schema is known."""
    match error["type"]:
        case "int_type" | "int_parsing" | "int_from_float":
            return 10
        case "float_type" | "float_parsing":
            return 0.5
        case "bool_type" | "bool_parsing":
            return True
        case "literal_error":
            return json.loads(_choices(str(error["ctx"]["expected"]))[0])
        case _:
            return _NONE


def _first(schemas: Sequence[_Schema]) -> Any:
    """Return a value that one of several schemas allows."""
    return next((one for one in map(_example, schemas) if one is not _NONE), _NONE)


def _example(schema: _Schema) -> Any:
    """Return a value that a schema allows."""
    if "default" in schema and schema["default"] not in (None, {}, []):
        return schema["default"]
    match schema:
        case {"anyOf": [*choices]}:
            return _first(choices)
        case {"enum": [first, *_]} | {"const": first}:
            return first
        case {"x-names": str() as kind}:
            return _NAMES.get(kind, _NONE)
        case {"type": "integer"}:
            return max(10, schema.get("minimum", 10))
        case {"type": "number"}:
            return 0.5
        case {"type": "boolean"}:
            return True
        case {"type": "array", "items": inner}:
            item = _example(inner)
            return _NONE if item is _NONE else [item]
        case {"type": "object", "properties": inner}:
            names = schema.get("required") or list(inner)[:1]
            return _members({name: _example(inner[name]) for name in names})
        case {"type": "object", "additionalProperties": dict()}:
            key = _example(schema.get("propertyNames", {}))
            inner = _example(schema["additionalProperties"])
            return _members({"name" if key is _NONE else key: inner})
        case _:
            return _NONE


def _members(made: dict[str, Any]) -> Any:
    return _NONE if any(one is _NONE for one in made.values()) else made
