"""Types as they are written: `Field[...]`, aliases of it, scalar types and names from `dtypes`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

from halocline_engine.errors import NameRuleError, TypeRuleError
from halocline_engine.ir.lower.naming.fold import CASTS
from halocline_engine.ir.lower.naming.names import Names, nearest
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language.source import fault
from halocline_engine.language.syntax import (
    Binding,
    Broken,
    Literal,
    Name,
    Pack,
    Subscript,
    Term,
    Text,
)
from halocline_engine.language.terms import not_yet

__all__ = ["FieldType", "TableType", "read_type"]

_AXES: Mapping[str, tuple[Axis, ...]] = {
    "".join(axes): axes
    for axes in (
        (Axis.I, Axis.J, Axis.K),
        (Axis.I, Axis.J),
        (Axis.I, Axis.K),
        (Axis.J, Axis.K),
        (Axis.I,),
        (Axis.J,),
        (Axis.K,),
    )
}

#: The most neighbours that a point may have.
_SLOTS = 32
_DATA = "Pass each component as a field of its own."
_FORM = "Write 'Field[np.float64]', 'Field[IJ, np.float64]' or a scalar type like 'float'."


@dataclass(frozen=True, slots=True)
class FieldType:
    """An array type: its element type and its axes."""

    dtype: DType
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class TableType:
    """The type of a table: so many numbers for each point along I."""

    dtype: DType
    slots: int


def read_type(
    term: Term, names: Names, *, temporary: bool = False
) -> FieldType | TableType | DType:
    """Return the type that an annotation means.

    `int` and `float` have 64 bits, but for a temporary the precision of literals.
    """
    return _read(term, names, (), temporary)


def _read(
    term: Term, names: Names, trail: tuple[str, ...], temporary: bool
) -> FieldType | TableType | DType:
    match term:
        case Name(name) | Text(name):
            return _named(name, term, names, trail, temporary)
        case Subscript(Name("Field"), indices):
            return _field(indices, term, names, trail, temporary)
        case Subscript(Name("Table"), indices):
            return _table(indices, term, names, trail)
        case Subscript(Name("GlobalTable")):
            raise not_yet(term.place, "tables 'GlobalTable[...]'", _DATA)
        case Subscript(Name(name)):
            message = f"The type '{name}[...]' is unknown."
            hint = nearest(name, ["Field", "Table"]) or _FORM
            raise fault(NameRuleError, term.place, "types", message, hint)
        case _:
            raise fault(TypeRuleError, term.place, "types", "This is not a type.", _FORM)


def _named(
    name: str, term: Name | Text, names: Names, trail: tuple[str, ...], temporary: bool
) -> FieldType | TableType | DType:
    given = names.dtypes.get(name)
    if given is not None:
        return given
    match names.definitions.get(name):
        case Binding(term=inner) if name not in trail:
            return _read(inner, names, (*trail, name), temporary)
        case Broken(error=error):
            raise copy(error)
        case _:
            pass
    known = CASTS.get(name)
    if known is not None:
        integer = names.integer if temporary else DType.INT64
        floating = names.floating if temporary else DType.FLOAT64
        return {"int": integer, "float": floating}.get(known) or DType(known)
    if name == "Field":
        message = "A field needs the type of its elements."
        raise fault(TypeRuleError, term.place, "types", message, _FORM)
    if isinstance(term, Text):
        message = f"The type '{name}' is given as a string, but 'dtypes' has no entry for it."
        hint = f"Pass dtypes={{'{name}': 'float64'}}."
        raise fault(NameRuleError, term.place, "types", message, hint)
    message = f"The type '{name}' is unknown."
    known_names = [*names.all(), *names.dtypes, *CASTS, "Field"]
    raise fault(NameRuleError, term.place, "types", message, nearest(name, known_names) or _FORM)


def _field(
    indices: tuple[Term, ...],
    term: Subscript,
    names: Names,
    trail: tuple[str, ...],
    temporary: bool,
) -> FieldType:
    axes = _AXES["IJK"]
    match indices:
        case (Name(name), element) if name in _AXES:
            axes = _AXES[name]
        case (element,) | (_, Pack() as element):
            pass
        case (first, *_):
            message = "The first part of 'Field[..., ...]' must be axes."
            hint = f"Use one of {', '.join(_AXES)}."
            raise fault(TypeRuleError, first.place, "types", message, hint)
        case _:
            raise fault(TypeRuleError, term.place, "types", "A field needs a type.", _FORM)
    if isinstance(element, Pack):
        raise not_yet(term.place, "data dimensions 'Field[(dtype, (n,))]'", _DATA)
    dtype = _read(element, names, trail, temporary)
    if not isinstance(dtype, DType):
        message = "The elements of a field are numbers, but got a field."
        raise fault(TypeRuleError, element.place, "types", message, _FORM)
    return FieldType(dtype, axes)


def _table(
    indices: tuple[Term, ...], term: Subscript, names: Names, trail: tuple[str, ...]
) -> TableType:
    """Read `Table[3]` and `Table[3, np.float64]`; the numbers are int64 if no type is given."""
    form = "Write 'Table[3]' for three neighbours, or 'Table[3, np.float64]' for three values."
    slots = _whole(indices[0], names) if len(indices) in (1, 2) else None
    if slots is None:
        message = "A table needs the number of its columns."
        raise fault(TypeRuleError, term.place, "types", message, form)
    if not 1 <= slots <= _SLOTS:
        message = f"A table has from 1 to {_SLOTS} columns, but got {slots}."
        raise fault(TypeRuleError, term.place, "types", message, "Split it into several tables.")
    dtype = DType.INT64
    for element in indices[1:]:
        found = _read(element, names, trail, False)
        if not isinstance(found, DType):
            message = "The elements of a table are numbers, but got a field."
            raise fault(TypeRuleError, element.place, "types", message, form)
        dtype = found
    return TableType(dtype, slots)


def _whole(term: Term, names: Names) -> int | None:
    """Return a whole number, or a constant of the text that is one."""
    match term:
        case Literal(int() as value) if not isinstance(value, bool):
            return value
        case Name(name):
            found = names.definitions.get(name)
            bound = found.term if isinstance(found, Binding) else None
            return _whole(bound, names) if isinstance(bound, Literal) else None
        case _:
            return None
