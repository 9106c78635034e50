"""Values of users as JSON carries them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from halocline.errors import ArgumentError

__all__ = ["dtype_name", "numbers", "plain_externals"]


def numbers(
    argument: str, values: Mapping[str, Any] | None
) -> dict[str, bool | int | float] | None:
    """Turn NumPy numbers into Python's; raise ArgumentError for what is no number."""
    plain: dict[str, bool | int | float] = {}
    for key, value in (values or {}).items():
        number = cast("Any", value).item() if isinstance(value, np.generic) else value
        if not isinstance(number, bool | int | float):
            raise ArgumentError(
                f"The value of '{key}' in '{argument}' must be a number, got "
                f"'{type(cast('object', value)).__name__}'."
            )
        plain[key] = number
    return plain or None


def plain_externals(values: Mapping[str, Any] | None) -> dict[str, bool | int | float] | None:
    """Like `numbers`, but refuse numbers whose type would be lost and change the program."""
    for key, value in (values or {}).items():
        kind = str(cast("Any", value).dtype) if isinstance(value, np.generic) else "float64"
        if kind not in ("bool", "int64", "float64"):
            raise ArgumentError(
                f"The value of '{key}' in 'externals' is '{kind}', a type that JSON "
                "does not carry.",
                hint="Write it as a constant in the program, such as 'HALF = np.float32(0.5)'.",
            )
    return numbers("externals", values)


def dtype_name(value: Any) -> str:
    """Return a type's NumPy name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            return cast("Any", np.dtype(value)).name
    except (DeprecationWarning, TypeError, ValueError, SyntaxError) as error:
        raise ArgumentError(f"'{value}' in 'dtypes' is not the type of a number.") from error
