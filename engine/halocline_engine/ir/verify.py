"""The promises of `ir.nodes`, checked: a program that breaks one is a fault of Halocline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from halocline_engine.errors import InternalError
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    ARITHMETIC,
    COMPARISONS,
    FMA,
    LOGICAL,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Expr,
    Field,
    If,
    Number,
    Parameter,
    Program,
    Read,
    Select,
    Temporary,
    Unary,
    While,
)
from halocline_engine.ir.show import show_expr, show_interval
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import (
    assignments,
    children,
    expressions,
    program_bodies,
    reads,
    statements,
    walk,
)

__all__ = ["verify"]

_TESTS = ("isnan", "isinf", "isfinite")
_ANY_NUMBER = (
    "abs",
    "min",
    "max",
    "pow",
    "floor",
    "ceil",
    "trunc",
    "round",
    "round_away_from_zero",
)


def verify(program: Program) -> None:
    """Raise `InternalError` where a program breaks a promise of `ir.nodes`."""
    arrays = {item.name: item for item in (*program.fields, *program.temporaries)}
    scalars = {scalar.name: scalar.dtype for scalar in program.scalars}
    parts = {one.field(n) for one in program.components for n in range(math.prod(one.shape))}
    parts |= {one.name for one in program.choices}
    made = program.made | parts | {name for table in program.tables for name in table.columns}
    fields, tables = [field.name for field in program.fields], [t.name for t in program.tables]
    names = [*fields, *scalars, *tables, *(one.name for one in program.components)]
    given = sorted(name for name in names if name not in made)
    # An array whose elements are known is an argument still, which no caller gives any more.
    known = {lookup.name for lookup in program.lookups if lookup.values is not None}
    expected = sorted({*program.arguments} - known)
    _require(given == expected, "The arguments are not the parameters.")
    everything = [*names, *(temporary.name for temporary in program.temporaries)]
    _require(len(set(everything)) == len(everything), "A name is declared twice.")
    _uses(program)
    _gathers(program)
    _positions(program)
    elements = {lookup.name: math.prod(lookup.shape) for lookup in program.lookups}
    checker = _Checker(arrays, scalars, elements)
    for computation in program.computations:
        for block in computation.blocks:
            checker.block(block)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InternalError(message)


def _uses(program: Program) -> None:
    """Check that fields say truly whether they are read and written."""
    read: set[str] = set()
    written: set[str] = set()
    for body in program_bodies(program):
        read.update(r.name for r in reads(body))
        written.update(a.target for a in assignments(body))
    read.update(name for g in program.gathers for name in (g.field, g.index))
    for field in program.fields:
        truly = (field.name in read, field.name in written)
        _require(
            truly == (field.read, field.written),
            f"Field '{field.name}' is declared (read, written) = {(field.read, field.written)}, "
            f"and is {truly}.",
        )


def _gathers(program: Program) -> None:
    """Check that what is gathered has its own type and is not written, along I alone."""
    fields = {field.name: field for field in program.fields}
    for gather in program.gathers:
        made, field, index = (fields[n] for n in (gather.name, gather.field, gather.index))
        fits = (made.dtype, made.axes) == (field.dtype, field.axes) and Axis.I in field.axes
        whole = index.axes == (Axis.I,) and index.dtype.is_integer
        written = made.written or field.written or index.written
        _require(fits and whole and not written, f"'{gather.name}' cannot be gathered.")
    shifted = (r.offset[:2] != (0, 0) for body in program_bodies(program) for r in reads(body))
    _require(not program.gathers or not any(shifted), "A gather stands beside an offset.")


def _positions(program: Program) -> None:
    """Check that positions are integers along their axis, and not written."""
    fields = {field.name: field for field in program.fields}
    for scratch in program.scratch:
        axes = tuple(Axis) if scratch.loops else (Axis.I, Axis.J)
        _require(fields[scratch.name].axes == axes, f"'{scratch.name}' has other axes.")
    for limit in program.limits:
        array = None if limit.field is None else fields[limit.field]
        _require(array is None or Axis.K in array.axes, f"'{limit.name}' is no limit.")
    for lookup in program.lookups:
        table = fields[lookup.name]
        _require(table.axes == (Axis.K,) and not table.written, f"'{lookup.name}' is no lookup.")
    for position in program.positions:
        made = fields[position.name]
        dtype = DType.INT64 if position.span is None else DType.BOOL
        fits = (made.axes, made.dtype) == ((position.axis,), dtype)
        _require(fits and not made.written, f"'{position.name}' is no position.")


@dataclass(frozen=True, slots=True)
class _Checker:
    """Declarations against which every node is checked, and the numbers of elements of tables."""

    arrays: Mapping[str, Field | Temporary]
    scalars: Mapping[str, DType]
    elements: Mapping[str, int]

    def block(self, block: Block) -> None:
        start, end = block.interval.start, block.interval.end
        _require(
            start.from_end <= end.from_end
            and (start.from_end != end.from_end or start.offset < end.offset),
            f"The interval {show_interval(block.interval)} is empty.",
        )
        for expr in expressions(block.body):
            wrong = next((node for node in walk(expr) if not self.fits(node)), None)
            # Showing every node would take time that grows with the depth squared.
            if wrong is not None:
                raise InternalError(f"Wrong types or names in '{show_expr(wrong)}'.")
        for statement in statements(block.body):
            match statement:
                case Assign(target, value, _, level):
                    declared = self.arrays.get(target)
                    _require(
                        level is None or _is_bounded(level, self.elements.get(target)),
                        f"The level of '{target}' has no bounds.",
                    )
                    _require(
                        declared is not None and declared.dtype is value.dtype,
                        f"'{target}' is not declared as {value.dtype.value}.",
                    )
                case If(condition, then) | While(condition, then):
                    _require(len(then) > 0, "A condition decides on nothing.")
                    _require(
                        condition.dtype is DType.BOOL,
                        f"The condition '{show_expr(condition)}' is not a bool.",
                    )
                case _:
                    assert_never(statement)

    def fits(self, expr: Expr) -> bool:
        """Whether one node, without its operands, keeps the promises."""
        operands = [child.dtype for child in children(expr)]
        match expr:
            case Number(dtype, value):
                kinds = (bool,) if dtype is DType.BOOL else (float,) if dtype.is_float else (int,)
                return type(value) in kinds
            case Read():
                return self.read_fits(expr)
            case Parameter(name, dtype):
                return self.scalars.get(name) is dtype
            case Unary("-", _, dtype):
                return operands == [dtype] and dtype is not DType.BOOL
            case Unary("not", _, dtype):
                return operands == [dtype] == [DType.BOOL]
            case Unary():
                return False
            case Binary(operator, _, _, dtype):
                return _binary_fits(operator, operands, dtype)
            case Call(function, _, dtype):
                return _call_fits(function, operands, dtype)
            case Select(_, _, _, dtype):
                return operands == [DType.BOOL, dtype, dtype]
            case Cast():
                return True
            case _:
                assert_never(expr)

    def read_fits(self, read: Read) -> bool:
        """Whether a read names an array of its dtype, with no offset along an absent axis."""
        array = self.arrays.get(read.name)
        if array is None or array.dtype is not read.dtype:
            return False
        axes = array.axes if isinstance(array, Field) else tuple(Axis)
        if read.level is not None:
            bounded = _is_bounded(read.level, self.elements.get(read.name))
            bounded = bounded and Axis.K in axes and read.offset[2] == ANY_LEVEL
            return bounded and all(
                axis in axes or step == 0
                for axis, step in zip((Axis.I, Axis.J), read.offset[:2], strict=True)
            )
        return all(axis in axes or step == 0 for axis, step in zip(Axis, read.offset, strict=True))


def _is_bounded(level: Expr, elements: int | None) -> bool:
    """Whether a level lies between two limits, or in a table of so many elements."""
    match level:
        case Call("min", (Call("max", (_, Number(_, 0))), Number(_, last)), DType.INT64):
            return elements is not None and last == elements - 1
        case Call("min", (Call("max", (_, Parameter(first))), Parameter(last)), DType.INT64):
            return first.startswith(".") and last.startswith(".")
        case Call("min", (Call("max", (_, Number(_, 0))), Parameter(last)), DType.INT64):
            return last.startswith(".")
        case Number(DType.INT64, 0):
            return True
        case _:
            return False


def _binary_fits(operator: str, operands: list[DType], dtype: DType) -> bool:
    if operator in ARITHMETIC:
        whole = dtype is DType.BOOL or (operator == "/" and not dtype.is_float)
        return operands == [dtype, dtype] and not whole
    if operator in COMPARISONS:
        return operands[0] is operands[1] and dtype is DType.BOOL
    return operator in LOGICAL and operands == [DType.BOOL, DType.BOOL] and dtype is DType.BOOL


def _call_fits(function: str, operands: list[DType], dtype: DType) -> bool:
    if function == FMA:
        return operands == [dtype] * 3 and dtype.is_float
    if FUNCTIONS.get(function) != len(operands):
        return False
    if function in _TESTS:
        return dtype is DType.BOOL
    if function == "pow":
        return operands[0] is dtype and (operands[1] is dtype or operands[1].is_integer)
    return set(operands) == {dtype} and (dtype.is_float or function in _ANY_NUMBER)
