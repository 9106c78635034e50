"""The value of an expression on a box of points, with NumPy; other targets must agree with it.

Arithmetic of IEEE 754 gives the same bits however it is done. The library functions do not have to,
so they always see contiguous arrays: NumPy may compute strided ones with other code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

import numpy as np

from halocline_engine.backends.base import HostArray, Value
from halocline_engine.backends.reference.multiply_add import multiply_add
from halocline_engine.ir import nodes
from halocline_engine.ir.types import DType

__all__ = ["FUNCTIONS", "Prepared", "Reader", "evaluate", "prepare"]

#: Gives a value for what the arrays hold now.
Prepared: TypeAlias = Callable[[], HostArray]
#: Gives what gives the values of a read on the box at hand, broadcastable to its shape.
Reader: TypeAlias = Callable[[nodes.Read], Prepared]

_BINARY: Mapping[str, Callable[[Any, Any], HostArray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "%": np.remainder,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def evaluate(
    expr: nodes.Expr, read: Callable[[nodes.Read], HostArray], scalars: Mapping[str, Value]
) -> HostArray:
    """Return the value of an expression; its dtype is the expression's.

    The result may be 0-dimensional or share memory with a field.
    """
    return prepare(expr, lambda one: _constant(read(one)), scalars)()


def prepare(expr: nodes.Expr, read: Reader, scalars: Mapping[str, Value]) -> Prepared:
    """Return what gives the value of an expression, for what the arrays hold when it is called.

    `read` is asked once for each read, for what is looked at each time.
    """
    match expr:
        case nodes.Number(dtype, value):
            return _constant(np.asarray(value, dtype.value))
        case nodes.Parameter(name, dtype):
            return _constant(np.asarray(scalars[name], dtype.value))
        case nodes.Read():
            return read(expr)
        case nodes.Unary(operator, operand):
            function = np.negative if operator == "-" else np.logical_not
            a = prepare(operand, read, scalars)
            return lambda: np.asarray(function(a()))
        case nodes.Binary(operator, left, right):
            apply = _BINARY[operator]
            a, b = (prepare(side, read, scalars) for side in (left, right))
            return lambda: np.asarray(apply(a(), b()))
        case nodes.Call("pow", (base, nodes.Number(kind, n))) if kind.is_integer and n in _POWERS:
            power, a = _POWERS[int(n)], prepare(base, read, scalars)
            return lambda: power(a())
        case nodes.Call(function, arguments, dtype):
            parts = tuple(prepare(argument, read, scalars) for argument in arguments)
            return lambda: _call(function, tuple(part() for part in parts), dtype)
        case nodes.Select(condition, then, otherwise):
            test, a, b = (prepare(part, read, scalars) for part in (condition, then, otherwise))
            return lambda: np.where(test(), a(), b())
        case nodes.Cast(dtype, operand):
            a = prepare(operand, read, scalars)
            return lambda: _cast(a(), dtype)
        case _:
            assert_never(expr)


def _constant(value: HostArray) -> Prepared:
    return lambda: value


def _cast(value: HostArray, dtype: DType) -> HostArray:
    """Convert: truncate to an integer, compare with zero to a bool."""
    if dtype is DType.BOOL:
        return np.asarray(value != 0)
    if dtype.is_integer and np.issubdtype(value.dtype, np.floating):
        return _truncated(value, np.iinfo(dtype.value))
    return np.ascontiguousarray(value).astype(dtype.value).reshape(value.shape)


def _truncated(value: HostArray, limits: Any) -> HostArray:
    """Return whole numbers towards zero: the nearest limit for what lies beyond it, 0 for NaN."""
    lowest = value.dtype.type(limits.min)
    above, below = value >= -lowest, value < lowest
    inside = np.where(above | below | np.isnan(value), value.dtype.type(0), value)
    whole = inside.astype(limits.dtype)
    return np.where(above, limits.max, np.where(below, limits.min, whole)).astype(limits.dtype)


def _call(function: str, arguments: tuple[HostArray, ...], dtype: DType) -> HostArray:
    """Apply a function of the language to arrays of one shape after broadcasting."""
    shape = np.broadcast(*arguments).shape
    flat = [_flat(argument, shape) for argument in arguments]
    return np.asarray(FUNCTIONS[function](*flat)).astype(_result(function, dtype)).reshape(shape)


def _flat(array: HostArray, shape: tuple[int, ...]) -> HostArray:
    """Return an array broadcast to a shape, contiguous and with one dimension."""
    if array.shape != shape:
        whole = np.empty(shape, array.dtype)
        whole[...] = array
        return whole.reshape(-1)
    return np.ascontiguousarray(array).reshape(-1)


def _result(function: str, dtype: DType) -> str:
    return "bool" if function in ("isnan", "isinf", "isfinite") else dtype.value


def _power(base: HostArray, exponent: HostArray) -> HostArray:
    """Raise to a power; an integer to a negative one is 1 / base**n, truncated (0 for base 0)."""
    if np.issubdtype(base.dtype, np.floating):
        return np.asarray(np.power(base, exponent.astype(base.dtype)))
    positive = np.asarray(np.power(base, np.maximum(exponent, 0)))
    sign = np.where(exponent % 2 == 0, 1, base)
    return np.where(exponent >= 0, positive, np.where(np.abs(base) == 1, sign, 0))


def _nearest(x: HostArray) -> HostArray:
    """Round half to even; NumPy takes large integers through doubles."""
    return np.rint(x) if np.issubdtype(x.dtype, np.floating) else x


def _away(x: HostArray) -> HostArray:
    """Round half away from zero, as floor(|x| + 0.5) with the sign of x."""
    if not np.issubdtype(x.dtype, np.floating):
        return x
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def _gamma(x: float) -> float:
    """Return the gamma function as C does: poles and overflow give a value, not an error."""
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.copysign(math.inf, x) if x == 0 else math.nan


def _scalar_function(function: Callable[[float], float]) -> Callable[[HostArray], HostArray]:
    """Apply a function of one double point by point; single precision is rounded at the end."""
    ufunc = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(ufunc(x)).astype(x.dtype)


_POWERS: Mapping[int, Callable[[HostArray], HostArray]] = {
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    4: lambda x: (x * x) * (x * x),
}

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "pow": _power,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _nearest,
    "round_away_from_zero": _away,
    "erf": _scalar_function(math.erf),
    "erfc": _scalar_function(math.erfc),
    "gamma": _scalar_function(_gamma),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    nodes.FMA: multiply_add,
}
