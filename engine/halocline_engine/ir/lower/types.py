"""Operations get their types: promotion as in C, every conversion an explicit `Cast`.

Differences to NumPy that GT4Py has and programs rely on: int64 with float32 gives float32, and so
does the quotient of two integers. Functions without an integer form (`sqrt`, `sin`, `round`, ...)
take integers as float32.
"""

from __future__ import annotations

import math

import numpy as np

from halocline_engine.errors import TypeRuleError
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.nodes import Binary, Call, Cast, Expr, Number, Select, Unary
from halocline_engine.ir.types import DType, promote
from halocline_engine.language.source import Place, fault

__all__ = [
    "apply",
    "arithmetic",
    "comparison",
    "condition",
    "convert",
    "negation",
    "number",
    "select",
]

_CLASSES = ("isnan", "isinf", "isfinite")
#: Functions that leave a whole number as it is.
_WHOLE = ("floor", "ceil", "trunc")
_INTEGER = ("abs", "min", "max")


def number(value: bool | int | float, dtype: DType, place: Place) -> Number:
    """Return a constant of a type, rounded to it as a conversion in C does."""
    if dtype is DType.BOOL:
        return Number(dtype, bool(value))
    if dtype.is_float:
        return Number(dtype, _rounded(float(value), dtype, place))
    bits = 8 * dtype.itemsize - 1
    whole = math.trunc(value)
    if not -(1 << bits) <= whole < 1 << bits:
        message = f"The number {value} does not fit into {dtype.value}."
        hint = "Write a smaller number, or use a wider type."
        raise fault(TypeRuleError, place, "numbers", message, hint)
    return Number(dtype, whole)


def convert(expr: Expr, dtype: DType, place: Place) -> Expr:
    """Return the expression as another type; constants are converted here."""
    if expr.dtype is dtype:
        return expr
    if isinstance(expr, Number):
        return number(expr.value, dtype, place)
    return Cast(dtype, expr)


def arithmetic(operator: str, left: Expr, right: Expr, place: Place) -> Expr:
    """Return `left operator right` for one of + - * / % and **."""
    dtype = promote(left.dtype, right.dtype)
    if dtype is DType.BOOL:
        message = f"The operator '{operator}' needs a number, but both operands are bools."
        hint = "Use 'and', 'or' and 'not', or convert with 'int(...)'."
        raise fault(TypeRuleError, place, "types", message, hint)
    if operator == "**":
        exponent = right if right.dtype.is_integer else convert(right, dtype, place)
        return Call("pow", (convert(left, dtype, place), exponent), dtype)
    if operator == "/" and not dtype.is_float:
        dtype = DType.FLOAT32
    return Binary(operator, convert(left, dtype, place), convert(right, dtype, place), dtype)


def comparison(operator: str, left: Expr, right: Expr, place: Place) -> Expr:
    """Return a comparison of both operands in their common type."""
    common = promote(left.dtype, right.dtype)
    first, second = convert(left, common, place), convert(right, common, place)
    return Binary(operator, first, second, DType.BOOL)


def condition(expr: Expr, place: Place, where: str) -> Expr:
    """Return the expression if it is a bool; nothing else is a condition."""
    if expr.dtype is DType.BOOL:
        return expr
    message = f"{where} must be a bool, but this is {expr.dtype.value}."
    raise fault(TypeRuleError, place, "conditions", message, "Compare it, like 'q != 0'.")


def negation(operator: str, operand: Expr, place: Place) -> Expr:
    """Return `-x`, `+x` or `not x`."""
    if operator == "not":
        return Unary("not", condition(operand, place, "The operand of 'not'"), DType.BOOL)
    if operand.dtype is DType.BOOL:
        message = f"The operator '{operator}' needs a number, but its operand is a bool."
        raise fault(
            TypeRuleError, place, "types", message, "Write 'not', or convert with 'int(...)'."
        )
    if operator == "+":
        return operand
    if isinstance(operand, Number):
        return number(-operand.value, operand.dtype, place)
    return Unary("-", operand, operand.dtype)


def select(mask: Expr, then: Expr, otherwise: Expr, place: Place) -> Expr:
    """Return `then if mask else otherwise`, with both branches in their common type."""
    dtype = promote(then.dtype, otherwise.dtype)
    checked = condition(mask, place, "The condition of 'if ... else'")
    return Select(checked, convert(then, dtype, place), convert(otherwise, dtype, place), dtype)


def apply(function: str, arguments: tuple[Expr, ...], place: Place) -> Expr:
    """Return a call of a function of the language."""
    expected = 2 if function == "mod" else FUNCTIONS[function]
    if len(arguments) != expected:
        noun = "argument" if expected == 1 else "arguments"
        message = f"'{function}' takes {expected} {noun}, but got {len(arguments)}."
        hint = f"Write '{function}({', '.join('ab'[:expected])})'."
        if function in ("min", "max") and len(arguments) > expected:
            hint = f"Write '{function}({function}(a, b), c)'."
        raise fault(TypeRuleError, place, "calls", message, hint)
    if function == "mod":
        return arithmetic("%", arguments[0], arguments[1], place)
    if function == "pow":
        return arithmetic("**", arguments[0], arguments[1], place)
    dtype = arguments[0].dtype
    for argument in arguments[1:]:
        dtype = promote(dtype, argument.dtype)
    if dtype is DType.BOOL and function in ("min", "max"):
        first, second = arguments
        return Binary("and" if function == "min" else "or", first, second, dtype)
    if not dtype.is_float and (function in _WHOLE or (dtype is DType.BOOL and function == "abs")):
        return arguments[0]
    if not dtype.is_float and function not in _INTEGER:
        dtype = DType.FLOAT32
    same = tuple(convert(argument, dtype, place) for argument in arguments)
    return Call(function, same, DType.BOOL if function in _CLASSES else dtype)


def _rounded(value: float, dtype: DType, place: Place) -> float:
    with np.errstate(over="ignore"):
        result = float(np.dtype(dtype.value).type(value))
    if not math.isfinite(result):
        message = f"The number {value} is too large for {dtype.value}."
        hint = "Write a smaller number, or use a wider type."
        raise fault(TypeRuleError, place, "numbers", message, hint)
    return result
