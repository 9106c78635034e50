"""The functions of the language."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FUNCTIONS"]

#: The functions of the language and how many arguments each takes. `pow` is the operator `**`,
#: `mod` is the operator `%` written as a call and is lowered to it.
FUNCTIONS: Mapping[str, int] = {
    "abs": 1,
    "min": 2,
    "max": 2,
    "sqrt": 1,
    "cbrt": 1,
    "exp": 1,
    "log": 1,
    "log10": 1,
    "pow": 2,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "asin": 1,
    "acos": 1,
    "atan": 1,
    "atan2": 2,
    "sinh": 1,
    "cosh": 1,
    "tanh": 1,
    "asinh": 1,
    "acosh": 1,
    "atanh": 1,
    "floor": 1,
    "ceil": 1,
    "trunc": 1,
    "round": 1,
    "round_away_from_zero": 1,
    "erf": 1,
    "erfc": 1,
    "gamma": 1,
    "isnan": 1,
    "isinf": 1,
    "isfinite": 1,
}
