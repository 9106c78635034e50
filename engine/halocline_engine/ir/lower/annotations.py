"""Types as they are written: `Field[...]`, aliases of it, scalar types and names from `dtypes`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from halocline_engine.errors import NameRuleError, TypeRuleError
from halocline_engine.ir.lower.naming.aliases import ndsl_field
from halocline_engine.ir.lower.naming.names import Names, nearest
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language import syntax
from halocline_engine.language.source import fault

__all__ = ["FieldType", "LookupType", "TableType", "Type", "read_type"]

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

#: What an annotation means.
Type: TypeAlias = "FieldType | TableType | LookupType | DType"

#: The most neighbours that a point may have.
_SLOTS = 32
_FORM = "Write 'Field[np.float64]', 'Field[IJ, np.float64]' or a scalar type like 'float'."


@dataclass(frozen=True, slots=True)
class FieldType:
    """An array type: its element type, its axes, and the shape of what it has at a point."""

    dtype: DType
    axes: tuple[Axis, ...]
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LookupType:
    """The type of a `GlobalTable`: an array of a shape that has nothing to do with the domain."""

    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TableType:
    """The type of a table: so many numbers for each point along I."""

    dtype: DType
    slots: int


def read_type(term: syntax.Term, names: Names, *, temporary: bool = False) -> Type:
    """Return the type that an annotation means.

    `int` and `float` have 64 bits, but for a temporary the precision of literals.
    """
    return _read(term, names, (), temporary)


def _read(term: syntax.Term, names: Names, trail: tuple[str, ...], temporary: bool) -> Type:
    match term:
        case syntax.Name(name) | syntax.Text(name):
            return _named(name, term, names, trail, temporary)
        case syntax.Subscript(syntax.Name("Field"), indices):
            return _field(indices, term, names, trail, temporary)
        case syntax.Subscript(syntax.Name("Table"), indices):
            return _table(indices, term, names, trail)
        case syntax.Subscript(syntax.Name("GlobalTable"), indices):
            return _lookup(indices, term, names, trail, temporary)
        case syntax.Apply("set_4d_field_size", (size, element)) if term.function in names.foreign:
            items = (element, syntax.Pack((size,), size.place))
            kind, shape = _data(items, term, names, trail, temporary)
            return FieldType(kind, _AXES["IJK"], shape)
        case syntax.Subscript(syntax.Name(name)):
            message = f"The type '{name}[...]' is unknown."
            hint = nearest(name, ["Field", "Table"]) or _FORM
            raise fault(NameRuleError, term.place, "types", message, hint)
        case _:
            raise fault(TypeRuleError, term.place, "types", "This is not a type.", _FORM)


def _named(
    name: str,
    term: syntax.Name | syntax.Text,
    names: Names,
    trail: tuple[str, ...],
    temporary: bool,
) -> Type:
    is_builtin = isinstance(term, syntax.Name) and name in ("bool", "float", "int")
    given = names.dtypes.get(f"<{name}>" if is_builtin else name)
    if given is not None:
        return given
    match names.definitions.get(name):
        case syntax.Binding(term=inner) if name not in trail:
            return _read(inner, names, (*trail, name), temporary)
        case syntax.Broken(error=error):
            raise copy(error)
        case _:
            pass
    known = names.casts.get(name)
    if known is not None:
        integer = names.integer if temporary else DType.INT64
        floating = names.floating if temporary else DType.FLOAT64
        return {"int": integer, "float": floating}.get(known) or DType(known)
    alias = ndsl_field(name, names.foreign, names.casts)
    if alias is not None:
        return FieldType(*alias)
    if name == "Field":
        message = "A field needs the type of its elements."
        raise fault(TypeRuleError, term.place, "types", message, _FORM)
    if isinstance(term, syntax.Text):
        message = f"The type '{name}' is given as a string, but 'dtypes' has no entry for it."
        hint = f"Pass dtypes={{'{name}': 'float64'}}."
        raise fault(NameRuleError, term.place, "types", message, hint)
    match names.type_of_module(name):
        case syntax.Binding(term=inner):
            return _read(inner, names, trail, temporary)
        case DType() as found:
            return found
        case _:
            pass
    if name.partition(".")[0] in names.foreign:
        message = f"The type '{name}' is imported from a module, and modules are not read."
        hint = f"Pass dtypes={{'{name}': 'Field[np.float64]'}}, with what it is there."
        raise fault(NameRuleError, term.place, "types", message, hint)
    message = f"The type '{name}' is unknown."
    hint = nearest(name, [*names.all(), *names.casts, "Field"])
    if "*" in names.foreign:
        hint = hint or f"If an 'import *' brings it, pass dtypes={{'{name}': 'Field[np.float64]'}}."
    raise fault(NameRuleError, term.place, "types", message, hint or _FORM)


def _field(
    indices: tuple[syntax.Term, ...],
    term: syntax.Subscript,
    names: Names,
    trail: tuple[str, ...],
    temporary: bool,
) -> FieldType:
    axes = _AXES["IJK"]
    match indices:
        case (first, element) if (known := _axes(first, names)) is not None:
            axes = known
        case (_, size) if _is_size(size, names):
            kind, shape = _data(indices, term, names, trail, temporary)
            return FieldType(kind, axes, shape)
        case (element,):
            pass
        case (first, *_):
            message = "The first part of 'Field[..., ...]' must be axes."
            hint = f"Use one of {', '.join(_AXES)}."
            raise fault(TypeRuleError, first.place, "types", message, hint)
        case _:
            raise fault(TypeRuleError, term.place, "types", "A field needs a type.", _FORM)
    element = _packed(element, names)
    if isinstance(element, syntax.Pack):
        kind, shape = _data(element.items, term, names, trail, temporary)
        return FieldType(kind, axes, shape)
    dtype = _read(element, names, trail, temporary)
    if not isinstance(dtype, DType):
        message = "The elements of a field are numbers, but got a field."
        raise fault(TypeRuleError, element.place, "types", message, _FORM)
    return FieldType(dtype, axes)


def _lookup(
    indices: tuple[syntax.Term, ...],
    term: syntax.Subscript,
    names: Names,
    trail: tuple[str, ...],
    temporary: bool,
) -> LookupType:
    packed = _packed(indices[0], names) if len(indices) == 1 else None
    items = packed.items if isinstance(packed, syntax.Pack) else indices
    if len(items) != 2:
        message = "A 'GlobalTable' needs the type of its elements and its shape."
        hint = "Write 'GlobalTable[(np.float64, (100,))]'."
        raise fault(TypeRuleError, term.place, "types", message, hint)
    return LookupType(*_data(items, term, names, trail, temporary))


def _packed(term: syntax.Term, names: Names) -> syntax.Term:
    """Return the tuple that a constant of the text is: a shape, or a type with a shape."""
    found = names.definitions.get(term.name) if isinstance(term, syntax.Name) else None
    return (
        found.term
        if isinstance(found, syntax.Binding) and isinstance(found.term, syntax.Pack)
        else term
    )


def _axes(term: syntax.Term, names: Names) -> tuple[Axis, ...] | None:
    """Return the axes that are written as `IJ`, or as a constant that is, or None."""
    found = names.definitions.get(term.name) if isinstance(term, syntax.Name) else None
    term = found.term if isinstance(found, syntax.Binding) else term
    return _AXES.get(term.name) if isinstance(term, syntax.Name) else None


def _is_size(term: syntax.Term, names: Names) -> bool:
    """Say whether a shape is written, or one size alone, and no type."""
    found = names.definitions.get(term.name) if isinstance(term, syntax.Name) else None
    term = found.term if isinstance(found, syntax.Binding) else term
    return isinstance(term, syntax.Pack | syntax.Literal | syntax.Infix | syntax.Prefix)


def _data(
    items: tuple[syntax.Term, ...],
    term: syntax.Term,
    names: Names,
    trail: tuple[str, ...],
    temporary: bool,
) -> tuple[DType, tuple[int, ...]]:
    """Return what `(np.float64, (3,))` means: a type and a shape."""
    form = "Write a type and a shape: 'Field[(np.float64, (3,))]'."
    match items:
        case (element, size):
            shape = _packed(size, names)
            sizes = shape.items if isinstance(shape, syntax.Pack) else (shape,)
        case _:
            message = "Data dimensions need the type of an element and a shape."
            raise fault(TypeRuleError, term.place, "types", message, form)
    dtype = _read(element, names, trail, temporary)
    shape = tuple(_whole(size, names) or 0 for size in sizes)
    if not isinstance(dtype, DType) or not shape or min(shape) < 1:
        message = "Data dimensions need a type of numbers, and sizes that are whole numbers."
        raise fault(TypeRuleError, term.place, "types", message, form)
    return dtype, shape


def _table(
    indices: tuple[syntax.Term, ...], term: syntax.Subscript, names: Names, trail: tuple[str, ...]
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


def _whole(term: syntax.Term, names: Names) -> int | None:
    """Return a whole number, or a constant of the text that is one."""
    match term:
        case syntax.Literal(int() as value) if not isinstance(value, bool):
            return value
        case syntax.Literal() | syntax.Text() | syntax.Pack():
            return None
        case syntax.Name(name) if name not in names.definitions and not names.is_brought(name):
            return None
        case _:
            found = names.folded(term)
            if isinstance(found, bool | np.bool_) or int(cast("int", found)) != found:
                return None
            return int(cast("int", found))
