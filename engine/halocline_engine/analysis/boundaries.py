"""Boundary conditions of a request, checked before there is any data.

Raises `BoundaryError` with what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, cast

from halocline_engine.analysis.named import near
from halocline_engine.arguments import plain_number
from halocline_engine.errors import BoundaryError
from halocline_engine.ir.types import Axis

__all__ = [
    "OPEN",
    "UNMADE",
    "Kind",
    "MadeSides",
    "Rules",
    "Side",
    "cells_of",
    "check_boundary",
    "is_negated",
    "rules_of",
    "unknown_dimension",
]


class Kind(StrEnum):
    """Values beyond one end of an axis.

    PERIODIC cells are read from the other end of the data; WRAP is the same for a block that
    holds the whole axis and so finds them in its own memory.
    """

    NONE = "none"
    PERIODIC = "periodic"
    WRAP = "wrap"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"
    ANTISYMMETRIC = "antisymmetric"
    EXTRAPOLATE = "extrapolate"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Side:
    """One end of an axis; `value` belongs to CONSTANT."""

    kind: Kind = Kind.NONE
    value: float = 0.0


#: An end beyond which there is nothing.
OPEN = Side()


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules at both ends of a dimension, with the exceptions of single `fields`."""

    sides: tuple[Side, Side] = (OPEN, OPEN)
    fields: Mapping[str, tuple[Side, Side]] = field(default_factory=dict[str, tuple[Side, Side]])

    def sides_of(self, name: str) -> tuple[Side, Side]:
        """Return both ends for a field."""
        return self.fields.get(name, self.sides)


#: For I, J and K, the kinds of both ends whose ghosts are made of cells near them; NONE elsewhere.
MadeSides: TypeAlias = tuple[tuple[Kind, Kind], tuple[Kind, Kind], tuple[Kind, Kind]]
#: No ghosts are made.
UNMADE: MadeSides = ((Kind.NONE, Kind.NONE), (Kind.NONE, Kind.NONE), (Kind.NONE, Kind.NONE))

_WORDS = (
    Kind.PERIODIC,
    Kind.EDGE,
    Kind.REFLECT,
    Kind.SYMMETRIC,
    Kind.ANTISYMMETRIC,
    Kind.EXTRAPOLATE,
    Kind.NONE,
)
_EXAMPLE = "For example boundary={'x': 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0}}}."
_EXAMPLE_OF_FIELDS = "For example boundary={'y': {'fields': {'h': 'edge', 'v': {'constant': 0}}}}."


def cells_of(kind: Kind, distance: int) -> tuple[int, ...]:
    """Return which cells a ghost is made of that is `distance` cells beyond an end of an axis.

    They are counted inwards, from 0 for the last cell of the data. A ghost is a copy of one cell;
    of two, `a` and `b`, it is on the straight line through them, `a + distance * (a - b)`. Of a
    kind that `is_negated` it is the negative of a cell. A kind of which ghosts are no function of
    cells near the end has none.

    >>> [cells_of(kind, 2) for kind in (Kind.EDGE, Kind.REFLECT, Kind.EXTRAPOLATE)]
    [(0,), (2,), (0, 1)]
    """
    match kind:
        case Kind.EDGE:
            return (0,)
        case Kind.REFLECT:
            return (distance,)
        case Kind.SYMMETRIC | Kind.ANTISYMMETRIC:
            return (distance - 1,)
        case Kind.EXTRAPOLATE:
            return 0, 1
        case Kind.NONE | Kind.CONSTANT | Kind.PERIODIC | Kind.WRAP:
            return ()


def is_negated(kind: Kind) -> bool:
    """Whether ghosts are the negatives of cells."""
    return kind is Kind.ANTISYMMETRIC


def check_boundary(
    boundary: Mapping[str, Any],
    dims: Mapping[Axis, str] | None,
    fields: Mapping[str, Sequence[str]],
) -> None:
    """Refuse invalid boundaries, and boundaries of unknown dimensions if `dims` is known.

    `fields` are the arguments of the program; see `rules_of`.
    """
    for dim, spec in boundary.items():
        rules_of(dim, spec, fields)
        if dims is not None and dim not in dims.values():
            raise unknown_dimension(dim, spec, dims)


def unknown_dimension(
    dim: str, spec: Any, dims: Mapping[Axis, str], others: Iterable[str] = ()
) -> BoundaryError:
    """Return the error for a boundary of an unknown dimension.

    It may be an axis of xgcm, or one of the program. Fields may have `others` beside `dims`.
    """
    from halocline_engine.interface.habits import axis_called

    axis = axis_called(dim)
    meant = dims.get(Axis(axis)) if axis else None
    hint = near(dim, {*dims.values(), *others})
    if meant:
        hint = f"'{dim}' is the dimension '{meant}': boundary={{'{meant}': {spec!r}}}."
    return BoundaryError(
        f"A boundary was given for '{dim}', which is not a dimension of the program's fields.",
        hint=hint,
    )


def rules_of(dim: str, spec: Any, fields: Mapping[str, Sequence[str]]) -> Rules:
    """Return what lies before and after a dimension.

    `spec` is one of the words for both ends, {"constant": value}, or {"low": ..., "high": ...}; an
    end that is not named is "none". The latter may have {"fields": {name: ...}} with rules of
    single arguments of the program; `fields` says which fields each of these is.
    """
    if not isinstance(spec, Mapping) or "fields" not in spec:
        return Rules(_sides(dim, spec))
    ends = dict(cast("Mapping[str, Any]", spec))
    own = ends.pop("fields")
    if not isinstance(own, Mapping):
        raise BoundaryError(
            f"The 'fields' of the boundary of '{dim}' must be a mapping, got {own!r}.",
            hint=_EXAMPLE_OF_FIELDS,
        )
    sides = _sides(dim, ends)
    several = {
        name: _sides(dim, rule, f" for field '{name}'")
        for name, rule in cast("Mapping[str, Any]", own).items()
    }
    for name, ends_of_field in several.items():
        if name not in fields:
            raise BoundaryError(
                f"The boundary of '{dim}' has a rule for '{name}', which is not a field of the"
                " program.",
                hint=near(name, fields),
            )
        if Kind.PERIODIC in (sides[0].kind, ends_of_field[0].kind):
            raise BoundaryError(
                f"The boundary of '{dim}' must be periodic for all fields or for none, got a rule"
                f" for '{name}'.",
                hint=f"Write boundary={{'{dim}': 'periodic'}}.",
            )
    return Rules(sides, {one: ends for name, ends in several.items() for one in fields[name]})


def _sides(dim: str, spec: Any, whose: str = "") -> tuple[Side, Side]:
    if isinstance(spec, Mapping) and "constant" not in spec:
        ends = cast("Mapping[str, Any]", spec)
        wrong = [key for key in ends if key not in ("low", "high")]
        if wrong:
            raise BoundaryError(
                f"The boundary of '{dim}'{whose} must have 'low' and 'high', got '{wrong[0]}'.",
                hint=_EXAMPLE,
            )
        low, high = (_side(dim, ends.get(end, "none"), whose, end) for end in ("low", "high"))
    else:
        low = high = _side(dim, spec, whose)
    if (low.kind is Kind.PERIODIC) != (high.kind is Kind.PERIODIC):
        raise BoundaryError(
            f"The boundary of '{dim}'{whose} must be periodic at both ends, got"
            f" '{low.kind.value}' and '{high.kind.value}'.",
            hint=f"Write boundary={{'{dim}': 'periodic'}} for both ends.",
        )
    return low, high


def _side(dim: str, spec: Any, whose: str, end: str = "") -> Side:
    if isinstance(spec, str) and spec in _WORDS:
        return Side(Kind(spec))
    if isinstance(spec, Mapping):
        mapping = cast("Mapping[str, Any]", spec)
        value = plain_number(mapping.get("constant"))
        if set(mapping) == {"constant"} and value is not None:
            return Side(Kind.CONSTANT, value)
    from halocline_engine.interface.habits import hint_of_rule

    words = ", ".join(f"'{word.value}'" for word in _WORDS)
    raise BoundaryError(
        f"The boundary of '{dim}'{whose} must be one of {words} or {{'constant': number}}, got"
        f" {spec!r}.",
        hint=(not whose and hint_of_rule(dim, cast("object", spec), end)) or _EXAMPLE,
    )
