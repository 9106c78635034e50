"""Values of scalars as a program uses them: they are checked before there is any data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from halocline_engine.analysis.named import check_scalars, given_scalars
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.nodes import Program, Scalar
from halocline_engine.ir.types import DType

__all__ = ["scalar_value", "scalars_of"]

_Value: TypeAlias = bool | int | float


def scalars_of(program: Program, given: Mapping[str, Any]) -> dict[str, _Value]:
    """Return the value of every scalar; a whole number will do where a float is expected."""
    check_scalars(program, given)
    values: dict[str, _Value] = {}
    for scalar in given_scalars(program):
        name = scalar.name
        value = given.get(name, scalar.default)
        if scalar.dtype.is_float and isinstance(value, int) and not isinstance(value, bool):
            value = _as_float(name, value)
        values[name] = scalar_value(scalar, value)
    return values


def _as_float(name: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ArgumentError(
            f"Scalar '{name}' has {value.bit_length()} bits, which are more than a float holds.",
            hint="Give it as a number of another magnitude.",
        ) from error


def scalar_value(scalar: Scalar, value: object) -> _Value:
    """Return a scalar argument as a Python number that its dtype holds exactly as it will be used.

    A Python bool, int or float fits any dtype of its kind; a NumPy scalar must have the dtype.
    """
    if type(value) is float and scalar.dtype.is_float:
        return value if scalar.dtype is DType.FLOAT64 else float(np.float32(value))
    dtype = np.dtype(scalar.dtype.value)
    own: object = getattr(value, "dtype", None)
    if own is not None:
        fits = isinstance(value, np.generic) and own == dtype
        got = f"a NumPy '{own}'" if isinstance(value, np.generic) else "an array"
    else:
        kinds = {DType.BOOL: bool, DType.FLOAT32: float, DType.FLOAT64: float}
        fits = type(value) is kinds.get(scalar.dtype, int)
        got = f"the {type(value).__name__} {value!r}"[:60]
    if not fits:
        raise ArgumentError(
            f"Scalar '{scalar.name}' must be a '{dtype}', but is {got}.",
            hint=_as_scalar(cast("object", value), dtype),
        )
    number = cast("_Value", value)
    if scalar.dtype.is_integer:
        limits = np.iinfo(dtype)
        if not limits.min <= int(number) <= limits.max:
            raise ArgumentError(
                f"Scalar '{scalar.name}' is {number}, which does not fit into a '{dtype}'.",
                hint=f"Use a number from {limits.min} to {limits.max}.",
            )
    return cast("_Value", dtype.type(number).item())


def _as_scalar(value: object, dtype: np.dtype[Any]) -> str:
    """Return how to give a value as a scalar of a dtype."""
    if isinstance(value, str):
        return "Give a number; units and expressions are not read."
    if getattr(value, "ndim", 0):
        return "Give one number; one that differs from point to point is a field."
    return f"Convert it first, for example with numpy.{dtype.name}(...)."
