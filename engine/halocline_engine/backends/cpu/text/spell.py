"""Expressions as text that Numba compiles, every value in exactly its node's dtype.

Numba promotes small integers to int64, so their results are cut back by a conversion; everything
else keeps its type by itself. The names used here are those of `cpu.builtins`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import assert_never

from halocline_engine.errors import InternalError
from halocline_engine.ir import nodes
from halocline_engine.ir.types import DType

__all__ = ["number", "spell"]

#: Functions of floating-point arguments, by their name in the generated text.
_FLOAT_FUNCTIONS: Mapping[str, str] = {
    nodes.FMA: "multiply_add",
    "sqrt": "math.sqrt",
    "cbrt": "np.cbrt",
    "exp": "exponential",
    "log": "logarithm",
    "log10": "math.log10",
    "pow": "power",
    "sin": "math.sin",
    "cos": "math.cos",
    "tan": "math.tan",
    "asin": "math.asin",
    "acos": "math.acos",
    "atan": "math.atan",
    "atan2": "math.atan2",
    "sinh": "math.sinh",
    "cosh": "math.cosh",
    "tanh": "math.tanh",
    "asinh": "math.asinh",
    "acosh": "math.acosh",
    "atanh": "math.atanh",
    "floor": "np.floor",
    "ceil": "np.ceil",
    "trunc": "np.trunc",
    "round": "np.rint",
    "round_away_from_zero": "round_away",
    "erf": "math.erf",
    "erfc": "math.erfc",
    "gamma": "math.gamma",
    "isnan": "math.isnan",
    "isinf": "math.isinf",
    "isfinite": "math.isfinite",
}
#: The same from the C library, which takes less time for one element but has no vectors.
_LIBRARY: Mapping[str, str] = {"exp": "math.exp", "log": "math.log", "pow": "math.pow"}
_IDENTITIES = ("floor", "ceil", "trunc", "round", "round_away_from_zero")
_TESTS: Mapping[str, str] = {"isnan": "False", "isinf": "False", "isfinite": "True"}


def spell(
    expr: nodes.Expr,
    read: Callable[[nodes.Read], str],
    parameter: Callable[[nodes.Parameter], str],
    library: Set[str] = frozenset(),
) -> str:
    """Return the text of an expression; it can stand as an operand.

    `library` has the functions that are those of the C library, as loops may not be vectorised.
    """

    def text(part: nodes.Expr) -> str:
        return spell(part, read, parameter, library)

    match expr:
        case nodes.Number(dtype, value):
            return number(dtype, value)
        case nodes.Read():
            return read(expr)
        case nodes.Parameter():
            return parameter(expr)
        case nodes.Unary("not", operand, _):
            return f"(not {text(operand)})"
        case nodes.Unary(_, operand, dtype):
            return _cut(f"(-{text(operand)})", dtype)
        case nodes.Binary(operator, left, right, dtype):
            return _binary(operator, text(left), text(right), left.dtype, dtype)
        case nodes.Call(function, arguments, dtype):
            called = _LIBRARY if function in library else _FLOAT_FUNCTIONS
            operands = arguments[0].dtype
            return _call(function, [text(a) for a in arguments], operands, dtype, called)
        case nodes.Select(condition, then, otherwise, _):
            return f"select({text(condition)}, {text(then)}, {text(otherwise)})"
        case nodes.Cast(DType.BOOL, operand) if operand.dtype is not DType.BOOL:
            return f"({text(operand)} != {number(operand.dtype, 0)})"
        case nodes.Cast(dtype, operand) if dtype.is_integer and operand.dtype.is_float:
            return f"truncated_{dtype}({text(operand)})"
        case nodes.Cast(dtype, operand):
            return text(operand) if operand.dtype is dtype else f"np.{dtype}({text(operand)})"
        case _:
            assert_never(expr)


def number(dtype: DType, value: float) -> str:
    """Return the text of a constant of a type.

    >>> number(DType.FLOAT32, 0.5), number(DType.FLOAT64, -1), number(DType.INT64, 3)
    ('np.float32(0.5)', '(-1.0)', '3')
    """
    if dtype is DType.BOOL:
        return str(bool(value))
    if dtype.is_integer:
        whole = int(value)
        text = str(whole) if whole > -(2**63) else f"({whole + 1} - 1)"
    else:
        text = _decimal(float(value))
    text = f"({text})" if text.startswith("-") else text
    return text if dtype in (DType.INT64, DType.FLOAT64) else f"np.{dtype}({text})"


def _decimal(value: float) -> str:
    if math.isnan(value):
        return "np.nan"
    if math.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def _cut(text: str, dtype: DType) -> str:
    """Cut an integer result back to a type smaller than int64."""
    if dtype.is_integer and dtype is not DType.INT64:
        return f"np.{dtype}({text})"
    return text


def _binary(operator: str, left: str, right: str, operands: DType, dtype: DType) -> str:
    match operator:
        case "and":
            return f"({left} & {right})"
        case "or":
            return f"({left} | {right})"
        case "%":
            function = "float_remainder" if operands.is_float else "integer_remainder"
            return _cut(f"{function}({left}, {right})", dtype)
        case _:
            return _cut(f"({left} {operator} {right})", dtype)


def _call(
    function: str,
    arguments: list[str],
    operands: DType,
    dtype: DType,
    called: Mapping[str, str],
) -> str:
    joined = ", ".join(arguments)
    match function:
        case "min":
            return f"minimum({joined})"
        case "max":
            return f"maximum({joined})"
        case "abs" if operands.is_float:
            return f"math.fabs({joined})"
        case "abs":
            return _cut(f"abs({joined})", dtype)
        case "pow" if not operands.is_float:
            return _cut(f"integer_power({joined})", dtype)
        case "pow":
            return f"{called[function]}({arguments[0]}, np.{operands}({arguments[1]}))"
        case _ if operands.is_float:
            return f"{called[function]}({joined})"
        case _ if function in _IDENTITIES:
            return arguments[0]
        case _ if function in _TESTS:
            return _TESTS[function]
        case _:
            raise InternalError(f"Function '{function}' has no meaning for '{operands}'.")
