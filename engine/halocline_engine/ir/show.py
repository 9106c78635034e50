"""A program as text: the same program gives the same text, on every machine and in every process.

The text names every type and every number exactly, and leaves out locations, so that two programs
have the same text exactly when they are equal; the fingerprint of a program is made from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import assert_never

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Bound,
    Call,
    Cast,
    Expr,
    Field,
    If,
    Interval,
    Number,
    Parameter,
    Program,
    Read,
    Scalar,
    Select,
    Statement,
    Unary,
    While,
)

__all__ = ["show", "show_body", "show_expr", "show_interval"]


def show(program: Program) -> str:
    """Return the program as text, ending with a newline."""
    return "".join(f"{line}\n" for line in _program(program))


def show_body(body: Iterable[Statement], indent: int = 0) -> list[str]:
    """Return the lines of a body."""
    return [line for statement in body for line in _statement(statement, " " * indent)]


def show_interval(interval: Interval) -> str:
    """Return an interval as `[start, end)`.

    >>> show_interval(Interval(Bound(False, 1), Bound(True, -1)))
    '[1, end-1)'
    """
    return f"[{_bound(interval.start)}, {_bound(interval.end)})"


def show_expr(expr: Expr) -> str:
    """Return an expression with every operator in parentheses.

    >>> from halocline_engine.ir.types import DType
    >>> show_expr(Cast(DType.FLOAT32, Read("a", (1, 0, 0), DType.FLOAT64)))
    'float32(a[1, 0, 0])'
    """
    match expr:
        case Number(dtype, value):
            return f"{value!r}:{dtype.value}"
        case Read(name, (i, j, k), _, level):
            return f"{name}[{i}, {j}, {k if level is None else f'at {show_expr(level)}'}]"
        case Parameter(name):
            return name
        case Unary(operator, operand):
            return f"({operator} {show_expr(operand)})"
        case Binary(operator, left, right):
            return f"({show_expr(left)} {operator} {show_expr(right)})"
        case Call(function, arguments, dtype):
            inside = ", ".join(show_expr(argument) for argument in arguments)
            return f"{function}({inside}):{dtype.value}"
        case Select(condition, then, otherwise):
            return f"({show_expr(then)} if {show_expr(condition)} else {show_expr(otherwise)})"
        case Cast(dtype, operand):
            return f"{dtype.value}({show_expr(operand)})"
        case _:
            assert_never(expr)


def _program(program: Program) -> Iterator[str]:
    yield f"program {program.name}({', '.join(program.arguments)})"
    yield from (_field(field) for field in program.fields)
    for table in program.tables:
        yield f"table {table.name}: {table.dtype.value}[I, {table.slots}]"
    for gather in program.gathers:
        yield f"gather {gather.name} = {gather.field}[{gather.index}]"
    for position in program.positions:
        where = "" if position.span is None else f" in {show_interval(position.span)}"
        yield f"position {position.name} along {position.axis.value}{where}"
    for scratch in program.scratch:
        yield f"scratch {scratch.name}"
    for one in program.components:
        axes = ", ".join(axis.value for axis in one.axes)
        yield f"components {one.name}: {one.dtype.value}[{axes}] {one.shape}"
    for lookup in program.lookups:
        known = lookup.values
        digest = "" if known is None else f" = {hashlib.sha256(known).hexdigest()}"
        yield f"lookup {lookup.name} {lookup.shape}{digest}"
    for choice in program.choices:
        yield f"choice {choice.name} = [{', '.join(choice.parts)}][{show_expr(choice.index)}]"
    for limit in program.limits:
        of = "the temporaries" if limit.field is None else limit.field
        yield f"limit {limit.name} is the {'last' if limit.last else 'first'} level of {of}"
    yield from (_scalar(scalar) for scalar in program.scalars)
    for temporary in program.temporaries:
        yield f"temporary {temporary.name}: {temporary.dtype.value}"
    for computation in program.computations:
        yield f"computation {computation.order.value}"
        for block in computation.blocks:
            yield f"  interval {show_interval(block.interval)}"
            yield from show_body(block.body, indent=4)


def _field(field: Field) -> str:
    uses = [word for word, used in (("read", field.read), ("written", field.written)) if used]
    axes = ", ".join(axis.value for axis in field.axes)
    return f"field {field.name}: {field.dtype.value}[{axes}] {' and '.join(uses) or 'unused'}"


def _scalar(scalar: Scalar) -> str:
    default = "" if scalar.default is None else f" = {scalar.default!r}"
    return f"scalar {scalar.name}: {scalar.dtype.value}{default}"


def _bound(bound: Bound) -> str:
    if not bound.from_end:
        return str(bound.offset)
    return f"end{bound.offset:+d}" if bound.offset else "end"


def _statement(statement: Statement, margin: str) -> Iterator[str]:
    match statement:
        case Assign(target, value, _, level):
            where = "" if level is None else f"[at {show_expr(level)}]"
            yield f"{margin}{target}{where} = {show_expr(value)}"
        case While(condition, body):
            yield f"{margin}while {show_expr(condition)}"
            for inner in body:
                yield from _statement(inner, margin + "  ")
        case If(condition, then, otherwise):
            yield f"{margin}if {show_expr(condition)}"
            for inner in then:
                yield from _statement(inner, margin + "  ")
            if otherwise:
                yield f"{margin}else"
                for inner in otherwise:
                    yield from _statement(inner, margin + "  ")
        case _:
            assert_never(statement)
