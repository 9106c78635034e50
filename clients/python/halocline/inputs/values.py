"""Conversion of numbers, externals and types to JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from halocline.errors import ArgumentError
from halocline_engine.arguments import plain_number

__all__ = ["dtype_name", "numbers", "plain_externals"]


def numbers(
    argument: str, values: Mapping[str, Any] | None
) -> dict[str, bool | int | float] | None:
    """Convert numbers of any library to Python's; raise ArgumentError for other values."""
    plain: dict[str, bool | int | float] = {}
    for key, value in (values or {}).items():
        number = plain_number(value)
        if number is None:
            raise ArgumentError(
                f"The value of '{key}' in '{argument}' must be a number, got "
                f"'{type(cast('object', value)).__name__}'.",
                hint=f"Write for example {argument}={{'{key}': 0.5}}.",
            )
        if isinstance(number, float) and not math.isfinite(number):
            raise ArgumentError(
                f"The value of '{key}' in '{argument}' must be finite, got {number}.",
                hint="Write values that may be missing into a variable of the dataset, as NaN.",
            )
        plain[key] = number
    return plain or None


def plain_externals(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Like `numbers`, but refuse numbers whose type JSON would lose, as it affects the program.

    Texts and mappings, such as positions on an axis and constants of a module, are kept.
    """
    held: dict[str, Any] = {}
    for key, value in (values or {}).items():
        if isinstance(value, Mapping):
            held[key] = plain_externals(cast("Mapping[str, Any]", value)) or {}
        elif isinstance(value, str):
            held[key] = value
        elif hasattr(value, "axis") and hasattr(value, "index"):
            axis = getattr(value.axis, "name", value.axis)
            held[key] = {"axis": axis, "index": value.index, "offset": getattr(value, "offset", 0)}
        one = cast("Any", value)
        kind = "float64" if plain_number(one) is None else str(getattr(one, "dtype", "float64"))
        if kind not in ("bool", "int64", "float64"):
            raise ArgumentError(
                f"The value of '{key}' in 'externals' is '{kind}', a type that JSON does not have.",
                hint="Write it as a constant in the program, such as 'HALF = np.float32(0.5)'.",
            )
    rest = {key: value for key, value in (values or {}).items() if key not in held}
    return {**held, **(numbers("externals", rest) or {})} or None


def dtype_name(value: Any) -> str:
    """Return the NumPy name of a type; the type of a field is kept as text."""
    if isinstance(value, str) and "[" in value:
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            return cast("Any", np.dtype(value)).name
    except (DeprecationWarning, TypeError, ValueError, SyntaxError) as error:
        raise ArgumentError(f"'{value}' in 'dtypes' is not the type of a number.") from error
