"""The fields, scalars and temporaries of a stencil while its body is lowered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from halocline_engine.errors import LimitError, NameRuleError, TypeRuleError
from halocline_engine.ir.lower.annotations import FieldType, LookupType, TableType, read_type
from halocline_engine.ir.lower.inline import Inliner
from halocline_engine.ir.lower.naming.members import Level
from halocline_engine.ir.lower.naming.names import Names
from halocline_engine.ir.lower.naming.scope import Scope
from halocline_engine.ir.lower.types import number
from halocline_engine.ir.nodes import (
    Components,
    Gather,
    Interval,
    Limit,
    Location,
    Lookup,
    Position,
    Scalar,
    Table,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language.faults import Faults
from halocline_engine.language.limits import Limits
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import Argument, Name, Stencil
from halocline_engine.program_warning import ProgramWarning

__all__ = ["LOOPS", "Symbols", "check_arrays", "make_symbols"]


@dataclass(slots=True)
class Symbols:
    """Meaning of a stencil's names; all but fields and scalars grow as its text is lowered.

    `gathers` are fields that are made of others by a table, with where they are first read;
    `positions` are fields over an axis that hold indices along it, `scratch` temporaries over I and
    J; `shifted` is the first read at a horizontal offset. `components` are the arrays with data
    dimensions, temporaries among them; `loops` the places of those that may not end, and
    `endless` says that one may not although numbers of the caller are small. `untyped` are
    the temporaries that have the type of their first value, with where they get it.
    """

    fields: dict[str, FieldType]
    scalars: dict[str, Scalar]
    limits: Limits
    temporaries: dict[str, DType] = field(default_factory=dict[str, DType])
    read: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])
    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    gathers: dict[str, tuple[Gather, Place]] = field(
        default_factory=dict[str, tuple[Gather, Place]]
    )
    scratch: set[str] = field(default_factory=set[str])
    positions: dict[str, Position] = field(default_factory=dict[str, Position])
    shifted: Place | None = None
    components: dict[str, Components] = field(default_factory=dict[str, Components])
    lookups: dict[str, Lookup] = field(default_factory=dict[str, Lookup])
    level_limits: dict[str, Limit] = field(default_factory=dict[str, Limit])
    loops: list[Location] = field(default_factory=list[Location])
    endless: bool = False
    untyped: dict[str, Place] = field(default_factory=dict[str, Place])
    warnings: list[ProgramWarning] = field(default_factory=list[ProgramWarning])
    spent: dict[str, int] = field(default_factory=dict[str, int])

    def spend(self, what: str, count: int, place: Place) -> None:
        """Count statements or terms that data dimensions make, and raise where they are too many.

        An index of the run stands for a choice among all components, and a statement on a whole
        array for one on each of them.
        """
        self.spent[what] = self.spent.get(what, 0) + count
        most: int = getattr(self.limits, what)
        if self.spent[what] > most:
            message = f"The program has more than {most} {what} for all components of its arrays."
            hint = "Use fewer components, or split it into several programs."
            raise fault(LimitError, place, "limits", message, hint)

    def component(self, name: str, number: int) -> str:
        """Return the field, or the temporary, that is one component of an array."""
        whole = self.components[name]
        part = whole.field(number)
        if name in self.temporaries:
            self.temporaries.setdefault(part, whole.dtype)
        else:
            self.fields.setdefault(part, FieldType(whole.dtype, whole.axes))
        return part

    def limit(self, name: str, *, last: bool) -> str:
        """Return the scalar of the first or the last level that an array has."""
        of = name if name in self.fields else None
        scalar = f".{'last' if last else 'first'}{'' if of is None else f'.{of}'}"
        self.level_limits.setdefault(scalar, Limit(scalar, of, last))
        self.scalars.setdefault(scalar, Scalar(scalar, DType.INT64))
        return scalar

    def limited(self, place: Location) -> tuple[str, int]:
        """Return the field that says which loop did not end, and the number of a new one."""
        self.loops.append(place)
        self.fields[LOOPS] = FieldType(DType.INT16, (Axis.I, Axis.J, Axis.K))
        self.written.add(LOOPS)
        return LOOPS, len(self.loops)

    def position(self, axis: Axis, span: Interval | None = None) -> str:
        """Return the field of the index along an axis, or of whether it is in a span.

        No text can spell it.
        """
        bounds = () if span is None else (span.start, span.end)
        marks = ":".join(f"{'end' if b.from_end else ''}{b.offset}" for b in bounds)
        name = f".{axis.value}{marks}"
        self.positions.setdefault(name, Position(name, axis, span))
        self.fields[name] = FieldType(DType.INT64 if span is None else DType.BOOL, (axis,))
        return name


#: The field that says which loop did not end.
LOOPS = ".loops"


def make_symbols(stencil: Stencil, names: Names, inliner: Inliner, limits: Limits) -> Symbols:
    """Return the symbols of a stencil's arguments."""
    symbols = Symbols({}, {}, limits)
    faults = Faults()
    for argument in stencil.arguments:
        with faults.collecting():
            _add(symbols, argument, names, inliner)
    faults.raise_found()
    columns = sum(len(table.columns) - 1 for table in symbols.tables.values())
    fields = len(symbols.fields) + len(symbols.components) - columns
    _check_count("fields", fields, stencil, limits)
    return symbols


def _add(symbols: Symbols, argument: Argument, names: Names, inliner: Inliner) -> None:
    """Add what a parameter is."""
    if argument.annotation is None:
        message = f"The parameter '{argument.name}' has no type."
        hint = "Write 'q: Field[np.float64]' for a field or 'c: float' for a scalar."
        if argument.name in ("self", "cls"):
            message = f"A stencil is a function, but the parameter '{argument.name}' is a method's."
            hint = "Leave it out; what it would give are scalar parameters or externals."
        raise fault(TypeRuleError, argument.place, "parameters", message, hint)
    kind = read_type(argument.annotation, names)
    if isinstance(kind, FieldType) and kind.shape:
        symbols.components[argument.name] = Components(
            argument.name, kind.dtype, kind.axes, _checked(kind.shape, argument, symbols.limits)
        )
        _check_field_default(argument)
    elif isinstance(kind, FieldType):
        symbols.fields[argument.name] = kind
        _check_field_default(argument)
    elif isinstance(kind, LookupType):
        symbols.fields[argument.name] = FieldType(kind.dtype, (Axis.K,))
        symbols.lookups[argument.name] = Lookup(argument.name, kind.shape)
        _check_field_default(argument)
    elif isinstance(kind, TableType):
        table = Table(argument.name, kind.dtype, kind.slots)
        symbols.tables[argument.name] = table
        symbols.fields |= dict.fromkeys(table.columns, FieldType(kind.dtype, (Axis.I,)))
        _check_field_default(argument)
    else:
        symbols.scalars[argument.name] = _scalar(argument, kind, inliner)


def _checked(shape: tuple[int, ...], argument: Argument, limits: Limits) -> tuple[int, ...]:
    """Return a shape of data dimensions that has not too many numbers."""
    numbers = math.prod(shape)
    if numbers > limits.components:
        message = (
            f"'{argument.name}' has {numbers} numbers at each point, but at most"
            f" {limits.components} are allowed."
        )
        hint = (
            f"Pass limits=halocline_engine.Limits(components={numbers}), split it into several"
            " fields, or read it as a 'GlobalTable'."
        )
        raise fault(LimitError, argument.place, "limits", message, hint)
    return shape


def check_arrays(arrays: int, stencil: Stencil, limits: Limits) -> None:
    """Raise where a stencil has too many arrays, with columns and what is read through them."""
    _check_count("arrays", arrays, stencil, limits)


def _check_count(what: str, count: int, stencil: Stencil, limits: Limits) -> None:
    most: int = getattr(limits, what)
    if count > most:
        message = f"The stencil has {count} {what}, but at most {most} are allowed."
        hint = "Split it into several programs."
        raise fault(LimitError, stencil.place, "limits", message, hint)


def _check_field_default(argument: Argument) -> None:
    default = argument.default
    if default is not None and not (isinstance(default, Name) and default.name == "None"):
        message = f"The default of the field '{argument.name}' must be None."
        hint = "Remove the default, or write None where the field may be left out."
        raise fault(TypeRuleError, default.place, "parameters", message, hint)


def _scalar(argument: Argument, dtype: DType, inliner: Inliner) -> Scalar:
    if argument.default is None:
        return Scalar(argument.name, dtype)
    try:
        value = inliner.constant(argument.default, Scope({}, frozenset()))
    except NameRuleError as error:
        if isinstance(argument.default, Name):
            raise
        message = f"The default of '{argument.name}' cannot be computed: {error.message}"
        hint = f"Write the number, or remove the default and pass '{argument.name}' in the call."
        raise fault(NameRuleError, argument.default.place, "parameters", message, hint) from None
    if value is None:
        return Scalar(argument.name, dtype)
    place = argument.default.place
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, Level) or (isinstance(plain, float) and not dtype.is_float):
        message = f"The default of '{argument.name}' must be {dtype.value}, but got {plain!r}."
        hint = "Change the default, or the type of the parameter."
        raise fault(TypeRuleError, place, "parameters", message, hint)
    return Scalar(argument.name, dtype, number(plain, dtype, place).value)
