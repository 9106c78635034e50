"""Printer of expressions as CUDA C++, with exactly the semantics of the language.

Every operator stands in parentheses, integers wrap around as NumPy's do, and float32 uses the
float32 functions, so nothing is computed in a wider type than the program says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import assert_never

import numpy as np

from halocline_engine.errors import InternalError
from halocline_engine.ir import nodes
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import is_uniform

__all__ = ["TYPES", "expression_text", "is_power_of_two", "literal"]

TYPES: Mapping[DType, str] = {
    DType.BOOL: "bool",
    DType.INT8: "signed char",
    DType.INT16: "short",
    DType.INT32: "int",
    DType.INT64: "long long",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
}

_LOGICAL = {"and": "&&", "or": "||"}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")

#: Functions of the C library; float32 takes the name with an 'f' behind it.
_LIBRARY = {
    nodes.FMA: "fma",
    "sqrt": "sqrt",
    "cbrt": "cbrt",
    "exp": "exp",
    "log": "log",
    "log10": "log10",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "atan2": "atan2",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
    "abs": "fabs",
    "erf": "erf",
    "erfc": "erfc",
    "gamma": "tgamma",
}
#: Functions of the prelude, overloaded for every type.
_OWN = {
    "abs": "absolute",
    "min": "minimum",
    "max": "maximum",
    "round_away_from_zero": "round_away",
    "isnan": "is_nan",
    "isinf": "is_inf",
    "isfinite": "is_finite",
}
_WHOLE_ALREADY = ("floor", "ceil", "trunc", "round", "round_away_from_zero")
_SMALL_POWERS = (2, 3, 4)


def expression_text(
    expr: nodes.Expr,
    read: Callable[[nodes.Read], str],
    parameter: Callable[[str], str],
    shared: Set[nodes.Expr] = frozenset(),
    quotient: str = "",
) -> str:
    """Return an expression as text; `read` and `parameter` give the places of values.

    By the divisors in `shared` so much is divided that it pays to compute their reciprocals. If not
    empty, `quotient` is the text of a division, with gaps for its operands.
    """

    def inner(node: nodes.Expr) -> str:
        return expression_text(node, read, parameter, shared, quotient)

    match expr:
        case nodes.Number():
            return literal(expr)
        case nodes.Read():
            return read(expr)
        case nodes.Parameter(name):
            return parameter(name)
        case nodes.Unary(operator, operand, dtype):
            return _unary(operator, inner(operand), dtype)
        case nodes.Binary("/", left, right) if quotient and not is_power_of_two(right):
            return quotient.format(inner(left), inner(right))
        case nodes.Binary("/", left, right, DType.FLOAT64) if (
            right in shared or _has_one_reciprocal(right)
        ):
            return f"quotient({inner(left)}, {inner(right)})"
        case nodes.Binary(operator, left, right, dtype):
            return _binary(operator, inner(left), inner(right), dtype)
        case nodes.Call(function, arguments, dtype):
            return _call(function, arguments, tuple(map(inner, arguments)), dtype)
        case nodes.Select(condition, then, otherwise):
            return f"({inner(condition)} ? {inner(then)} : {inner(otherwise)})"
        case nodes.Cast(dtype, operand):
            return _cast(dtype, inner(operand), operand.dtype)
        case _:
            assert_never(expr)


def literal(number: nodes.Number) -> str:
    """Return a number that reads back as the same bits.

    >>> literal(nodes.Number(DType.FLOAT32, 0.1)), literal(nodes.Number(DType.INT64, -3))
    ('0.1f', '(-3LL)')
    """
    dtype, value = number.dtype, number.value
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        return _float_literal(float(value), single=dtype is DType.FLOAT32)
    whole = int(value)
    if dtype is DType.INT64:
        text = f"{whole}LL" if whole > -(2**63) else f"{whole + 1}LL - 1"
    elif dtype is DType.INT32:
        text = f"{whole}" if whole > -(2**31) else f"{whole + 1} - 1"
    else:
        return f"(({TYPES[dtype]})({whole}))"
    return f"({text})" if whole < 0 else text


def _float_literal(value: float, *, single: bool) -> str:
    with np.errstate(over="ignore"):
        number = np.float32(value) if single else np.float64(value)
    if math.isnan(number):
        text = (
            "__int_as_float(0x7fffffff)" if single else "__longlong_as_double(0x7fffffffffffffffLL)"
        )
    elif math.isinf(number):
        text = (
            "__int_as_float(0x7f800000)" if single else "__longlong_as_double(0x7ff0000000000000LL)"
        )
        text = text if number > 0 else f"-{text}"
    else:
        text = str(number) + ("f" if single else "")
    return f"({text})" if text.startswith("-") else text


def _has_one_reciprocal(divisor: nodes.Expr) -> bool:
    """Whether all points divide by one value, whose reciprocal a thread computes once.

    Compilers themselves make products of divisions by powers of two.
    """
    if isinstance(divisor, nodes.Number):
        return not is_power_of_two(divisor)
    return is_uniform(divisor)


def is_power_of_two(divisor: nodes.Expr) -> bool:
    """Return whether something is divided by a power of two, of which products are exact."""
    return isinstance(divisor, nodes.Number) and abs(math.frexp(divisor.value)[0]) == 0.5


def _unsigned(dtype: DType) -> str:
    """Return the type in which the integers of `dtype` wrap around without undefined behaviour."""
    return "unsigned long long" if dtype is DType.INT64 else "unsigned int"


def _unary(operator: str, operand: str, dtype: DType) -> str:
    if operator == "not":
        return f"(!{operand})"
    if dtype.is_float:
        return f"(-{operand})"
    return f"(({TYPES[dtype]})(0u - ({_unsigned(dtype)}){operand}))"


def _binary(operator: str, left: str, right: str, dtype: DType) -> str:
    if operator in _LOGICAL:
        return f"({left} {_LOGICAL[operator]} {right})"
    if operator in _COMPARISONS:
        return f"({left} {operator} {right})"
    if operator == "%":
        return f"floored_remainder({left}, {right})"
    if dtype.is_float:
        return f"({left} {operator} {right})"
    if operator == "/":
        raise InternalError(f"Division in '{dtype}' reached code generation: expected floats.")
    kind = _unsigned(dtype)
    return f"(({TYPES[dtype]})(({kind}){left} {operator} ({kind}){right}))"


def _call(
    function: str, operands: tuple[nodes.Expr, ...], arguments: tuple[str, ...], dtype: DType
) -> str:
    if function == "pow":
        return _power(operands, arguments, dtype)
    operand = operands[0].dtype
    if function in _LIBRARY and operand.is_float:
        suffix = "f" if operand is DType.FLOAT32 else ""
        return f"{_LIBRARY[function]}{suffix}({', '.join(arguments)})"
    if function in _WHOLE_ALREADY and not operand.is_float:
        return arguments[0]
    if function in _OWN:
        return f"{_OWN[function]}({', '.join(arguments)})"
    raise InternalError(f"Function '{function}' of '{operand}' reached code generation.")


def _power(operands: tuple[nodes.Expr, ...], arguments: tuple[str, ...], dtype: DType) -> str:
    """Spell `**`; the small whole powers are the same products on every target."""
    exponent = operands[1]
    if (
        isinstance(exponent, nodes.Number)
        and exponent.dtype.is_integer
        and exponent.value in _SMALL_POWERS
    ):
        return f"power{int(exponent.value)}({arguments[0]})"
    if not dtype.is_float:
        return f"whole_power({arguments[0]}, (long long){arguments[1]})"
    suffix = "f" if dtype is DType.FLOAT32 else ""
    return f"pow{suffix}({arguments[0]}, ({TYPES[dtype]}){arguments[1]})"


def _cast(dtype: DType, operand: str, source: DType) -> str:
    if dtype is source:
        return operand
    if dtype is DType.BOOL:
        return f"({operand} != 0)"
    if dtype.is_integer and source.is_float:
        return f"truncated<{TYPES[dtype]}>({operand})"
    return f"(({TYPES[dtype]}){operand})"
