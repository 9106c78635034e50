"""Sentences for the faults that pydantic finds: where, what was expected, and what it got."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

__all__ = ["Fault", "told"]

Fault = Mapping[str, Any]

_LONGEST = 60
# By the types of pydantic's errors, or how they begin; `ctx` fills the braces.
_EXPECTED: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string_type": "text",
    "string_unicode": "text that UTF-8 can express",
    "string_sub_type": "text",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "dict": "an object",
    "model": "an object",
    "mapping": "an object",
    "list": "a list",
    "tuple": "a list",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "greater_than": "more than {gt}",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "none_required": "null",
}
_KEY = "[key]"
_OF_NAMES = ("missing", "extra_forbidden")


def told(faults: Sequence[Fault], given: object, subject: str) -> tuple[str, str]:
    """Return the place of the first fault in what was `given`, and a sentence about it.

    `subject` says what has such a place, as "Input" does; the whole is "The body".
    """
    first = _nearest(faults, given)
    place = _place(first, given)
    name = f"{subject} '{place}'" if place else "The body"
    if first["type"] == "missing":
        return place, f"{name} of the request is missing."
    if first["type"] == "extra_forbidden":
        return place, f"{name} of the request is unknown."
    if first["type"] in ("value_error", "assertion_error"):
        reason = str(first["msg"]).partition(", ")[2].rstrip(".")
        return place, f"{name} of the request is wrong: {reason[:1].lower()}{reason[1:]}."
    there = [f for f in faults if f["type"] not in _OF_NAMES and _place(f, given) == place]
    wanted = " or ".join(dict.fromkeys(map(_expected, there)))
    if _KEY in first["loc"]:
        name = f"Each name in {name[:1].lower()}{name[1:]}"
    verb = "must have" if wanted.endswith(" items") else "must be"
    return place, f"{name} {verb} {wanted}, got {_shown(first['input'])}."


def _nearest(faults: Sequence[Fault], given: object) -> Fault:
    """Return the fault to tell: of the alternatives at the first place, the deepest one."""
    place = _place(faults[0], given)
    inside = [f for f in faults if f"{_place(f, given)}.".startswith(f"{place}." if place else "")]

    def depth(fault: Fault) -> tuple[bool, int]:
        own = fault["type"] not in _OF_NAMES
        return own, _place(fault, given).count(".")

    return max(inside, key=depth)


def _place(fault: Fault, given: object) -> str:
    """Return where a fault is, by names and numbers of what was given alone.

    Pydantic names the alternatives of a union, and functions that check, as if they were places.
    """
    parts: list[str] = []
    here: Any = given
    for part in fault["loc"]:
        match here:
            case dict() if part in here:
                here = cast("dict[Any, Any]", here)[part]
            case list() if isinstance(part, int) and part < len(cast("list[Any]", here)):
                here = cast("list[Any]", here)[part]
            case _:
                continue
        parts.append(str(part))
    if _KEY in fault["loc"] and parts:
        parts.pop()
    if fault["type"] == "missing":
        parts.append(str(fault["loc"][-1]))
    return ".".join(parts)


def _expected(fault: Fault) -> str:
    kind = str(fault["type"])
    words = next((_EXPECTED[start] for start in _starts(kind) if start in _EXPECTED), "")
    return words.format_map(fault.get("ctx", {})) if words else "something else"


def _starts(kind: str) -> Iterable[str]:
    yield kind
    yield re.split(r"_(type|parsing|from)", kind)[0]


def _shown(value: object) -> str:
    """Return a value as JSON has it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=True, default=lambda _: "...")
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
