"""Functions of the language, conversions and constants, drawn at random.

What a library computes differs in its last bits from target to target: a conversion to float32
hides them.
"""

from __future__ import annotations

from drawing_modules import CONSTANTS
from drawing_scope import Scope

__all__ = ["constant", "library", "property_of", "whole"]

_OF_FLOATS = (
    *("sqrt", "cbrt", "exp", "log", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma"),
)
_EXACT = ("floor", "ceil", "trunc", "round", "round_away_from_zero", "abs")
_WHOLE = ("int", "int8", "int16", "int32", "int64")
#: How many of the constants a peer takes.
_OF_PEERS = 8


def constant(scope: Scope) -> str:
    return scope.pick(*(CONSTANTS[:_OF_PEERS] if scope.peer else CONSTANTS))


def library(scope: Scope, one: str, two: str) -> str:
    """Return a function of one value or two."""
    match scope.number(0, 6):
        case 0 | 1:
            return f"float32({scope.pick(*_OF_FLOATS)}(float64({one})))"
        case 2 if not scope.peer:
            return f"float32(atan2(float64({one}), float64({two})))"
        case 3:
            return f"float32(abs(float64({one})) ** {scope.pick('1.5', '(0.5 * m)', '-2', 'm')})"
        case 4:
            return f"mod({one}, {two})" if scope.number(0, 1) else f"({one} % {two})"
        case 5 if not scope.peer:
            return f"{scope.pick(*_WHOLE)}({one} * 4.0)"
        case _:
            return f"{scope.pick(*_EXACT)}({one} * 1.5)"


def property_of(scope: Scope, one: str) -> str:
    """Return a condition that a function gives, of a value."""
    return f"{scope.pick('isnan', 'isinf', 'isfinite')}({one})"


def whole(scope: Scope, one: str, two: str) -> str:
    """Return a whole number made of two, with the types and the wrapping of small ones."""
    match scope.number(0, 6):
        case 0:
            return f"{scope.pick('min', 'max')}({one}, {two})"
        case 1:
            return f"abs(-({one}))"
        case 2:
            return f"(({one}) ** {scope.number(2, 4)})"
        case 3 if not scope.peer:
            return f"({scope.pick('tiny', 'low', 'int8(m)')} * {scope.pick('tiny', 'low')})"
        case 4 if not scope.peer:
            return f"(({one}) ** ({two}))"
        case 5:
            return f"mod({one}, {two})"
        case _:
            return f"({one} + {scope.pick('kn', 'gi.A[m % 6]', 'Phase.ICE', 'COUNT')})"
