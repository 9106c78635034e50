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
    Pack,
    Prefix,
    Subscript,
    Term,
    Text,
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
    `C = SimpleNamespace(G=9.8)` what is given by name before that, `C = Constants(9.8)` by the
    place of a field. The `value` of a member of an enumeration is the member.
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
        case Apply() as made:
            return _member_of_object(definitions, made, rest, place)
        case _:
            return None


def _member_of_object(
    definitions: Mapping[str, Definition], made: Apply, name: str, place: Place
) -> Term | None:
    """Return what an attribute is of an object that a class makes; None where it cannot be told."""
    kind: str | None = made.function
    fields: list[str] = []
    while kind is not None:
        if f"{kind}().{name}" in definitions:
            return Name(f"{kind}().{name}", place)
        fields = [*_fields(definitions, kind), *fields]
        whole = definitions.get(kind)
        base = whole.term if isinstance(whole, Binding) else None
        kind = base.name if isinstance(base, Name) and base.name != kind else None
    if len(made.arguments) > len(fields):
        return None
    given = dict(zip(fields, made.arguments, strict=False))
    given |= {one.name: one.value for one in made.keywords}
    return given.get(name) or Name(f"{made.function}.{name}", place)


def _fields(definitions: Mapping[str, Definition], kind: str) -> list[str]:
    """Return the fields of a class in their order, or of a named tuple."""
    listed = definitions.get(f"{kind}().")
    whole = definitions.get(kind)
    match whole.term if isinstance(whole, Binding) else None:
        case Apply("namedtuple" | "collections.namedtuple", (_, Text(names))):
            return names.replace(",", " ").split()
        case Apply("namedtuple" | "collections.namedtuple", (_, Pack(items))):
            return [item.value for item in items if isinstance(item, Text)]
        case _:
            pass
    if isinstance(listed, Binding) and isinstance(listed.term, Pack):
        return [item.value for item in listed.term.items if isinstance(item, Text)]
    return []
