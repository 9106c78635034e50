"""Compile-time values: constants of the text are computed here, and nothing is executed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from halocline_engine.errors import SyntaxRuleError, TypeRuleError
from halocline_engine.ir.types import DType
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Apply,
    Choice,
    Infix,
    Literal,
    Name,
    Prefix,
    Term,
)

__all__ = ["CASTS", "Value", "dtype_name", "fold"]

#: A constant: Python's own where the literal's precision decides, NumPy's where its type is fixed.
Value: TypeAlias = "bool | int | float | np.generic[Any]"

#: What a call that converts is named; "int" and "float" take the precision of literals.
CASTS: Mapping[str, str] = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "i32": "int32",
    "i64": "int64",
    "f32": "float32",
    "f64": "float64",
    **{dtype.value: dtype.value for dtype in DType},
    **{f"np.{dtype.value}": dtype.value for dtype in DType},
    "np.bool_": "bool",
    "np.double": "float64",
    "np.float_": "float64",
    "np.int_": "int64",
    "np.intc": "int32",
    "np.single": "float32",
}

_NAMED = (
    *("sqrt", "exp", "log", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("floor", "ceil", "trunc"),
)


def _rounded(number: Any, *places: Any) -> Any:
    """Return what Python's `round` does, which would compute a power of ten of any size."""
    return round(number, *(max(-_MOST_PLACES, min(_MOST_PLACES, given)) for given in places))


#: Functions of modules that constants may be computed by.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"math.{name}": getattr(math, name) for name in _NAMED},
    **{f"np.{name}": getattr(np, name) for name in _NAMED},
    **{f"math.{name}": getattr(math, name) for name in ("asin", "acos", "atan", "atan2", "pow")},
    "math.erf": math.erf,
    "math.fabs": math.fabs,
    "math.gamma": math.gamma,
    "math.radians": math.radians,
    "np.abs": np.abs,
    "np.arccos": np.arccos,
    "np.arcsin": np.arcsin,
    "np.arctan": np.arctan,
    "np.deg2rad": np.deg2rad,
    "np.power": np.power,
    "np.radians": np.radians,
    "abs": abs,
    "max": max,
    "min": min,
    "pow": pow,
    "round": _rounded,
}

_PYTHON: Mapping[str, type[bool] | type[int] | type[float]] = {
    "bool": bool,
    "int": int,
    "float": float,
}

#: Rounding to more places, or to a higher power of ten, changes no number of 64 bits any more.
_MOST_PLACES = 400
_MOST_BITS = 256  # of a whole number on the way, as many as the digits of a literal have
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_BITS = ("&", "|", "^")
_LARGEST_EXPONENT = 1024


def dtype_name(value: Value) -> str:
    """Return the type that a constant carries, "" where the literal's precision decides."""
    return value.dtype.name if isinstance(value, np.generic) else ""


def fold(term: Term, look_up: Callable[[Name], Value], casts: Mapping[str, str] = CASTS) -> Value:
    """Return the value of a constant expression.

    `look_up` gives the values of names, or raises; `casts` are the calls that convert.
    """

    def inner(term: Term) -> Value:
        return fold(term, look_up, casts)

    match term:
        case Literal(value, dtype=dtype):
            return np.dtype(dtype).type(value) if dtype else value
        case Name():
            return look_up(term)
        case Prefix(sign, operand, place):
            return _prefix(sign, inner(operand), place)
        case Infix("and" | "or" as word, left, right):
            first, second = inner(left), inner(right)
            return second if bool(first) == (word == "and") else first
        case Infix(spelling, left, right, place) if spelling != "@":
            return _infix(spelling, inner(left), inner(right), place)
        case Choice(condition, then, otherwise):
            return inner(then if inner(condition) else otherwise)
        case Apply(function, (argument,), ()) if function in casts:
            return _convert(casts[function], inner(argument), term.place)
        case Apply(function, arguments, ()) if function in _FUNCTIONS:
            return _called(function, [inner(argument) for argument in arguments], term.place)
        case _:
            message = "This is not a compile-time constant."
            hint = "Use numbers, constants, externals, operators and casts."
            raise fault(SyntaxRuleError, term.place, "constants", message, hint)


def _prefix(sign: str, value: Value, place: Place) -> Value:
    if sign == "not":
        return not value
    if sign == "~":
        return ~_bits(value, place)
    number = _arithmetic(value, place)
    return _checked(lambda: -number if sign == "-" else number, place)


def _infix(spelling: str, left: Value, right: Value, place: Place) -> Value:
    if spelling in _COMPARISONS:
        return bool(_compute(spelling, left, right))
    if spelling in _BITS:
        return _compute(spelling, _bits(left, place), _bits(right, place))
    first, second = _arithmetic(left, place), _arithmetic(right, place)
    if spelling == "**" and abs(second) > _LARGEST_EXPONENT:
        message = f"The exponent of a constant is at most {_LARGEST_EXPONENT}, but got {second}."
        raise fault(SyntaxRuleError, place, "constants", message, "Write the result.")
    return _checked(lambda: _compute(spelling, first, second), place)


def _compute(spelling: str, left: Any, right: Any) -> Any:
    """Return what Python makes of an operator on two numbers."""
    results: Mapping[str, Callable[[], Any]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "%": lambda: left % right,
        "**": lambda: left**right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
        "==": lambda: left == right,
        "!=": lambda: left != right,
        "&": lambda: left & right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
    }
    return results[spelling]()


def _arithmetic(value: Value, place: Place) -> Any:
    if isinstance(value, bool | np.bool_):
        message = "Arithmetic needs numbers, but got a bool."
        raise fault(TypeRuleError, place, "types", message, "Write '1 if b else 0'.")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise _not_finite(place)
    return value


def _bits(value: Value, place: Place) -> Any:
    if isinstance(value, int | np.integer | np.bool_):
        return cast(Any, value)
    message = f"Operators of bits need whole numbers or bools, but got {value!r}."
    raise fault(TypeRuleError, place, "types", message, "Write 'and', 'or' or 'not'.")


def _convert(name: str, value: Value, place: Place) -> Value:
    kind = _PYTHON.get(name) or np.dtype(name).type
    if name.startswith("int") and name != "int":
        return _checked(lambda: kind(_whole(value, name, place)), place)
    return _checked(lambda: kind(cast(Any, value)), place)


def _called(name: str, values: Sequence[Value], place: Place) -> Value:
    """Return what a function makes of constants; powers go the way of the operator."""
    numbers = [_arithmetic(value, place) for value in values]
    if name.endswith("pow") and len(numbers) == 2:
        return _infix("**", numbers[0], numbers[1], place)
    try:
        return _checked(lambda: _FUNCTIONS[name](*numbers), place)
    except TypeError as error:
        message = f"The function '{name}' cannot be called with {len(numbers)} arguments."
        hint = "Give it the numbers that Python's function of this name takes."
        raise fault(SyntaxRuleError, place, "constants", message, hint) from error


def _whole(value: Value, name: str, place: Place) -> int:
    """Return a constant without its fraction; raises where the type does not hold it."""
    whole, limits = int(cast(Any, value)), np.iinfo(name)
    if not limits.min <= whole <= limits.max:
        message = f"The number {value} does not fit into {name}."
        hint = "Write a smaller number, or use a wider type."
        raise fault(TypeRuleError, place, "numbers", message, hint)
    return whole


def _checked(compute: Callable[[], Any], place: Place) -> Value:
    """Return a computed constant, refusing what is no finite number of 64 bits."""
    try:
        with np.errstate(all="ignore"):
            value = compute()
    except ZeroDivisionError as error:
        message = "A constant is divided by zero."
        hint = "Change the constants or externals in it."
        raise fault(SyntaxRuleError, place, "constants", message, hint) from error
    except (OverflowError, ValueError) as error:
        raise _not_finite(place) from error
    if isinstance(value, complex | np.complexfloating):
        raise _not_finite(place)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise _not_finite(place)
    if isinstance(value, float | np.floating) and not math.isfinite(cast(float, value)):
        raise _not_finite(place)
    return cast(Value, value)


def _not_finite(place: Place) -> SyntaxRuleError:
    message = "A constant must be a finite number of at most 64 bits, but this one is not."
    hint = "Change the constants or externals in it."
    return fault(SyntaxRuleError, place, "constants", message, hint)
