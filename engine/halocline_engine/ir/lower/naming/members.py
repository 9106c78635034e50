"""Constants that are no numbers: axes, places on them, and objects with attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from halocline_engine.ir.types import Axis
from halocline_engine.language.source import Place
from halocline_engine.language.syntax import (
    Apply,
    Binding,
    Definition,
    Infix,
    Literal,
    Name,
    Prefix,
    Subscript,
    Term,
)

__all__ = ["Level", "axis_of", "level_of", "member_of"]


@dataclass(frozen=True, slots=True)
class Level:
    """A constant or an external that is a place on an axis: `K[index] + offset`."""

    axis: Axis
    index: int
    offset: int = 0


def level_of(term: Term) -> Level | None:
    """Return the place on an axis that a constant is, like `K[1]` or `I[-1] - 2`, or None."""
    match term:
        case Subscript(Name("I" | "J" | "K" as axis), (Literal(int() as index),)):
            return Level(Axis(axis), index)
        case Subscript(Name("I" | "J" | "K" as axis), (Prefix("-", Literal(int() as index)),)):
            return Level(Axis(axis), -index)
        case Infix("+" | "-" as sign, left, Literal(int() as shift)):
            found = level_of(left)
            by = shift if sign == "+" else -shift
            return found and replace(found, offset=found.offset + by)
        case _:
            return None


def axis_of(given: object) -> Axis | None:
    """Return the axis that a caller gives: by name, as `{"axis": "J"}`, or as GT4Py has it."""
    if isinstance(given, Mapping):
        found = cast("Mapping[str, object]", given)
        kind = found.get("axis") if set(found) == {"axis"} else None
    else:
        kind = None if hasattr(given, "axis") else getattr(given, "name", given)
    return Axis(kind) if isinstance(kind, str) and kind in tuple(Axis) else None


def member_of(definitions: Mapping[str, Definition], name: str, place: Place) -> Term | None:
    """Return what an attribute is of a constant that is a class, or made of one, or None.

    `C = Constants` and `C = Constants()` have what the class has, `C = Constants(G=9.8)` and
    `C = SimpleNamespace(G=9.8)` what is given by name before that. The `value` of a member of an
    enumeration is the member.
    """
    head, _, rest = name.rpartition(".")
    whole = definitions.get(head)
    if rest == "value" and "." in head and isinstance(whole, Binding):
        return Name(head, place)
    found = whole.term if isinstance(whole, Binding) else None
    if head and whole is None:
        found = member_of(definitions, head, place)
    match found:
        case Name(other):
            return Name(f"{other}.{rest}", place)
        case Apply(other, keywords=keywords):
            given = [one.value for one in keywords if one.name == rest]
            return given[0] if given else Name(f"{other}.{rest}", place)
        case _:
            return None
