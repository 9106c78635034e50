"""Tables of neighbours: fields at the points that a column names, and loops over the columns.

`q[table[2]]` is `q` at the point that column 2 of the table names, and `q[index]` at the one that
a field over I names. In `neighbor_sum(expression)`, `max_over` and `min_over` a table without a
number stands for each of its columns in turn; columns that name no point are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from halocline_engine.errors import ProgramError, SyntaxRuleError, TypeRuleError
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.nodes import (
    Binary,
    Call,
    Expr,
    Gather,
    Number,
    Offset,
    Read,
    Select,
    Table,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language import syntax
from halocline_engine.language.source import Place, fault

__all__ = [
    "as_index",
    "at_slot",
    "check_components",
    "check_gathers",
    "combined",
    "gathered",
    "no_column",
    "slots_of",
]

_HERE: Offset = (0, 0, 0)
_WIDE = (DType.INT32, DType.INT64)


def as_index(term: syntax.Term, symbols: Symbols) -> str | None:
    """Return the field over I that a term is if it can name points, such as a column.

    None where the term is something else, such as an offset.
    """
    match term:
        case syntax.Subscript(syntax.Name(name), indices, place) if name in symbols.tables:
            table = symbols.tables[name]
            match indices:
                case (syntax.Literal(int() as slot),) if not isinstance(slot, bool):
                    if 0 <= slot < table.slots:
                        return table.columns[slot]
                case _:
                    pass
            message = f"A column of '{name}' is a whole number from 0 to {table.slots - 1}."
            raise fault(SyntaxRuleError, place, "tables", message, f"Write '{name}[0]'.")
        case syntax.Name(name, place) if name in symbols.tables:
            raise no_column(symbols.tables[name], place)
        case syntax.Name(name):
            field = symbols.fields.get(name)
            if field is None or field.axes != (Axis.I,) or field.dtype not in _WIDE:
                return None
            return name
        case _:
            return None


def no_column(table: Table, place: Place) -> ProgramError:
    """Return the error for a table without a column, where it has no value."""
    message = f"'{table.name}' has {table.slots} columns, but this access does not choose one."
    hint = f"Write '{table.name}[0]', or put the expression into 'neighbor_sum(...)'."
    return fault(SyntaxRuleError, place, "tables", message, hint)


def gathered(symbols: Symbols, name: str, index: str, term: syntax.Subscript) -> Read:
    """Return the read of a field at the points that the field `index` names."""
    place = term.place
    if len(term.indices) > 1:
        message = "A table stands alone between the brackets."
        hint = "Assign it to a temporary, and read that at an offset along K."
        raise fault(SyntaxRuleError, place, "tables", message, hint)
    check_components(name, term, symbols)
    field = symbols.fields.get(name)
    if field is None:
        message = "Only a parameter can be read at points that a table names, not a temporary."
        hint = "Write it to a field, and read that in a program that runs after this one."
        raise fault(SyntaxRuleError, place, "tables", message, hint)
    if Axis.I not in field.axes:
        message = f"A table names points along I, and '{name}' has no axis I."
        raise fault(SyntaxRuleError, place, "tables", message, f"Write '{name}'.")
    dtype = symbols.fields[index].dtype
    if dtype not in _WIDE:
        message = f"A table that names points holds int32 or int64, but this one {dtype.value}."
        hint = "Change the type of the table."
        raise fault(TypeRuleError, place, "tables", message, hint)
    made = Gather(f"{name}@{index}", name, index)
    symbols.gathers.setdefault(made.name, (made, place))
    symbols.read |= {name, index}
    return Read(made.name, _HERE, field.dtype)


def check_components(name: str, term: syntax.Subscript, symbols: Symbols) -> None:
    """Raise where what has data dimensions is read at points that a table names."""
    if name in symbols.components and term.indices and as_index(term.indices[0], symbols):
        message = f"'{name}' has data dimensions, and cannot be read at points that a table names."
        hint = "Make a component that other points need a parameter of its own."
        raise fault(SyntaxRuleError, term.place, "tables", message, hint)


def check_gathers(symbols: Symbols) -> None:
    """Raise where something is gathered that cannot be, now that the whole text is known."""
    for gather, place in symbols.gathers.values():
        if gather.field in symbols.written:
            message = (
                f"'{gather.field}' is written by this program, so what other points hold depends "
                "on the order."
            )
            hint = "Write another field, and feed it back from step to step."
            raise fault(SyntaxRuleError, place, "tables", message, hint)
        if symbols.shifted is not None:
            message = "A program that reads through a table has no offsets along I and J."
            hint = "Name the neighbours along I by a table as well."
            raise fault(SyntaxRuleError, symbols.shifted, "tables", message, hint)


def slots_of(term: syntax.Apply, symbols: Symbols) -> tuple[int, tuple[str, ...]]:
    """Return how many columns a loop has, and which of its tables name points."""
    if len(term.arguments) != 1:
        message = f"'{term.function}' takes 1 argument, but got {len(term.arguments)}."
        hint = f"Write '{term.function}(q[table])'."
        raise fault(TypeRuleError, term.place, "calls", message, hint)
    found = list(_tables(term.arguments[0], symbols, False))
    sizes = {name: symbols.tables[name].slots for name, _ in found}
    if not sizes:
        message = f"'{term.function}' loops over the columns of a table, but got no table."
        hint = f"Write '{term.function}(q[table])'."
        raise fault(SyntaxRuleError, term.place, "tables", message, hint)
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"'{name}' has {count}" for name, count in sizes.items())
        message = f"All tables of one '{term.function}' need as many columns, but {listed}."
        hint = "Use a loop for each."
        raise fault(SyntaxRuleError, term.place, "tables", message, hint)
    indices = dict.fromkeys(name for name, is_index in found if is_index)
    return next(iter(sizes.values())), tuple(indices)


def at_slot(term: syntax.Term, slot: int, symbols: Symbols) -> syntax.Term:
    """Return a term with one column in the place of every table that has no number."""

    def inner(part: syntax.Term) -> syntax.Term:
        return at_slot(part, slot, symbols)

    match term:
        case syntax.Name(name, place) if name in symbols.tables:
            return syntax.Subscript(term, (syntax.Literal(slot, place),), place)
        case syntax.Literal() | syntax.Text() | syntax.Name() | syntax.Pack() | syntax.Inside():
            return term
        case syntax.Prefix() | syntax.Infix() | syntax.Choice() | syntax.Apply():
            return syntax.with_operands(term, inner)
        case syntax.At():
            data = tuple(inner(one) for one in term.data)
            return replace(term, level=inner(term.level), data=data)
        case syntax.Subscript(base, indices):
            if isinstance(base, syntax.Name):
                if base.name in symbols.tables:
                    return term
            else:
                base = inner(base)
            return replace(term, base=base, indices=tuple(inner(one) for one in indices))
        case _:
            assert_never(term)


def combined(term: syntax.Apply, values: Sequence[Expr], columns: Sequence[Sequence[Read]]) -> Expr:
    """Return the values of all columns that name a point as one: their sum, or the extreme."""
    dtype = values[0].dtype
    if dtype is DType.BOOL:
        message = f"'{term.function}' needs numbers, but got bool."
        hint = "Write '1.0 if condition else 0.0'."
        raise fault(TypeRuleError, term.place, "calls", message, hint)
    name = term.function.removesuffix("_over")
    nothing = _number(dtype, 0) if name == "neighbor_sum" else _beyond(dtype, name)
    result: Expr | None = None
    for value, reads in zip(values, columns, strict=True):
        there = _there(reads)
        part = value if there is None else Select(there, value, nothing, dtype)
        if result is None:
            result = part
        elif name == "neighbor_sum":
            result = Binary("+", result, part, dtype)
        else:
            result = Call(name, (result, part), dtype)
    assert result is not None
    return result


def _tables(term: syntax.Term, symbols: Symbols, inside: bool) -> Iterator[tuple[str, bool]]:
    """Yield each table without a number, and whether it stands between the brackets of a field."""
    match term:
        case syntax.Name(name):
            if name in symbols.tables:
                yield name, inside
        case syntax.Literal() | syntax.Text() | syntax.Pack() | syntax.Inside():
            pass
        case syntax.Prefix(_, operand):
            yield from _tables(operand, symbols, False)
        case syntax.Infix(_, left, right):
            yield from _tables(left, symbols, False)
            yield from _tables(right, symbols, False)
        case syntax.Choice(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from _tables(part, symbols, False)
        case syntax.Apply(_, arguments):
            for part in arguments:
                yield from _tables(part, symbols, False)
        case syntax.At(_, level, data):
            for part in (level, *data):
                yield from _tables(part, symbols, False)
        case syntax.Subscript(syntax.Name(name)) if name in symbols.tables:
            pass
        case syntax.Subscript(base, indices):
            yield from _tables(base, symbols, False)
            for part in indices:
                yield from _tables(part, symbols, True)
        case _:
            assert_never(term)


def _there(reads: Sequence[Read]) -> Expr | None:
    """Return the condition that all columns name a point; None where there is none of them."""
    found: Expr | None = None
    for read in reads:
        test = Binary(">=", read, _number(read.dtype, 0), DType.BOOL)
        found = test if found is None else Binary("and", found, test, DType.BOOL)
    return found


def _number(dtype: DType, value: int) -> Number:
    return Number(dtype, float(value) if dtype.is_float else value)


def _beyond(dtype: DType, name: str) -> Number:
    """Return what the extreme of nothing is: the other end of all numbers."""
    if dtype.is_float:
        return Number(dtype, float("-inf") if name == "max" else float("inf"))
    limits = np.iinfo(dtype.value)
    return Number(dtype, int(limits.min if name == "max" else limits.max))
