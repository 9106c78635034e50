"""Integers of 64 bits whose values fit 32, which are computed as such.

A device has instructions for 32 bits, and makes several of each one for 64. Indices of levels that
programs search through come from literals, which are int64, and from the index along K.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from halocline_engine.ir.integers import MOST_LEVELS, Integers, Known, Range
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    If,
    Number,
    Parameter,
    Program,
    Read,
    Select,
    Statement,
    Unary,
    While,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import rewrite
from halocline_engine.schedule.nodes import Kernel

__all__ = ["SMALL", "narrowed"]

#: What scalars may be where they are said to be small: a power of two, which float32 has, and whose
#: double fits.
SMALL = 2**29
_FITTING: Range = (-(2.0**31), 2.0**31 - 1)


def narrowed(kernel: Kernel, program: Program, small: Iterable[str] = ()) -> Kernel:
    """Return a kernel on arrays of less than 2**31 elements with integers of 32 bits.

    The scalars in `small` are between -`SMALL` and `SMALL`.
    """
    limits = dict.fromkeys(small, (-SMALL, SMALL))
    limits |= dict.fromkeys((limit.name for limit in program.limits), _FITTING)
    levels = {
        one.name: (0, MOST_LEVELS)
        for one in program.positions
        if one.axis is Axis.K and one.span is None
    }
    registers = {one.name: one.dtype for one in kernel.registers}
    integers = Integers({**limits, **levels}, registers.keys())
    ranges: dict[str, Range] = dict.fromkeys(registers, (0, 0))

    def see(statement: Statement, known: Known) -> None:
        if isinstance(statement, Assign) and statement.target in registers:
            (low, high), new = ranges[statement.target], integers.of(statement.value, known)
            ranges[statement.target] = min(low, new[0]), max(high, new[1])

    for section in kernel.sections:
        # Registers are zero in front of a section.
        integers.scan(section.body, dict.fromkeys(registers, (0, 0)), see)
    wide = {name for name, dtype in registers.items() if dtype is DType.INT64}
    fitting = {name for name in wide if _fits(ranges[name])}
    narrower = _Narrower(integers, ranges, fitting)
    return replace(
        kernel,
        sections=tuple(
            replace(section, body=narrower.body(section.body)) for section in kernel.sections
        ),
        registers=tuple(
            replace(one, dtype=DType.INT32) if one.name in fitting else one
            for one in kernel.registers
        ),
    )


def _fits(found: Range) -> bool:
    return found[0] >= _FITTING[0] and found[1] <= _FITTING[1]


@dataclass(frozen=True, slots=True)
class _Narrower:
    """Rewrites bodies with the registers in `fitting` as int32; `ranges` are those of all."""

    integers: Integers
    ranges: Known
    fitting: Set[str]

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return the statements of a body."""
        return tuple(map(self._statement, body))

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case Assign(target, value, place, level):
                found = rewrite(value, self._change)
                at = None if level is None else rewrite(level, self._change)
                if target in self.fitting:
                    found = self._thin(found) or Cast(DType.INT32, found)
                return Assign(target, found, place, at)
            case While(condition, body):
                test = rewrite(condition, self._change)
                return replace(statement, condition=test, body=self.body(body))
            case If(condition, then, otherwise):
                test = rewrite(condition, self._change)
                sides = {"then": self.body(then), "otherwise": self.body(otherwise)}
                return replace(statement, condition=test, **sides)

    def _change(self, expr: Expr) -> Expr:
        """Return an expression whose operands are changed already: wide outside, narrow inside."""
        match expr:
            case Read(name, offset, DType.INT64, None) if name in self.fitting:
                return Cast(DType.INT64, Read(name, offset, DType.INT32))
            case Binary("<" | "<=" | ">" | ">=" | "==" | "!=", left, right):
                one, two = self._thin(left), self._thin(right)
                return expr if one is None or two is None else replace(expr, left=one, right=two)
            case Cast(dtype, operand) if dtype.is_float:
                return Cast(dtype, self._thin(operand) or operand)
            case Call("min" | "max" as function, (left, right), DType.INT64) if (
                one := self._nearer(function, left, right)
            ) is not None:
                return one
            case _ if expr.dtype is DType.INT64 and _fits(self.integers.of(expr, self.ranges)):
                thin = self._computed(expr)
                return expr if thin is None else Cast(DType.INT64, thin)
            case _:
                return expr

    def _nearer(self, function: str, left: Expr, right: Expr) -> Expr | None:
        """Return the operand that surely is the result of `min` or `max`, as an index in bounds."""
        (a, b), (c, d) = (self.integers.of(one, self.ranges) for one in (left, right))
        if function == "max":
            return left if a >= d else right if c >= b else None
        return left if b <= c else right if d <= a else None

    def _computed(self, expr: Expr) -> Expr | None:
        """Return an operation in 32 bits, if its operands are."""
        match expr:
            case Unary("-", operand):
                one = self._thin(operand)
                return None if one is None else Unary("-", one, DType.INT32)
            case Binary("+" | "-" | "*" as operator, left, right):
                one, two = self._thin(left), self._thin(right)
                if one is None or two is None:
                    return None
                return Binary(operator, one, two, DType.INT32)
            case Call("min" | "max" as function, arguments):
                several = tuple(map(self._thin, arguments))
                fit = tuple(one for one in several if one is not None)
                return Call(function, fit, DType.INT32) if len(fit) == len(several) else None
            case Select(condition, then, otherwise):
                one, two = self._thin(then), self._thin(otherwise)
                if one is None or two is None:
                    return None
                return Select(condition, one, two, DType.INT32)
            case _:
                return None

    def _thin(self, expr: Expr) -> Expr | None:
        """Return an integer of 64 bits as one of 32, if it comes from one or surely fits."""
        match expr:
            case Cast(DType.INT64, inner) if inner.dtype is DType.INT32:
                return inner
            case Number(DType.INT64, value) if _fits((value, value)):
                return Number(DType.INT32, value)
            case Read(name) | Parameter(name) if name in self.integers.given:
                return Cast(DType.INT32, expr)
            case Cast(DType.INT64, inner) if _fits(self.integers.of(expr, self.ranges)):
                return Cast(DType.INT32, inner)
            case _:
                return None
