"""Values of scalars as a program uses them: they are checked before there is any data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from halocline_engine.analysis.named import check_scalars, given_scalars
from halocline_engine.arguments import PlainNumber, as_held, plain_number, written
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.nodes import Program, Scalar
from halocline_engine.ir.types import DType

__all__ = ["scalar_value", "scalars_of"]

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def scalars_of(program: Program, given: Mapping[str, Any]) -> dict[str, PlainNumber]:
    """Return the value of every scalar of a program; all must be finite.

    NaN would make every point NaN, and JSON has no such number.
    """
    check_scalars(program, given)
    return {
        scalar.name: _finite(scalar, given.get(scalar.name, scalar.default))
        for scalar in given_scalars(program)
    }


def _finite(scalar: Scalar, value: object) -> PlainNumber:
    number = scalar_value(scalar, value)
    if not math.isfinite(number):
        raise ArgumentError(
            f"Scalar '{scalar.name}' must be finite, got {number}.",
            hint="Write values that may be missing into a variable of the dataset, as NaN.",
        )
    return number


def scalar_value(scalar: Scalar, value: object) -> PlainNumber:
    """Return a scalar argument as the Python number that its type holds.

    Numbers of any library fit where `as_held` takes them, truth values only a `bool`.
    """
    if type(value) is float and scalar.dtype.is_float:
        if scalar.dtype is DType.FLOAT64:
            return value
        if abs(value) <= _LARGEST_FLOAT32:
            return float(np.float32(value))
    dtype = np.dtype(scalar.dtype.value)
    number = plain_number(value)
    if number is None or isinstance(number, bool) is not (scalar.dtype is DType.BOOL):
        raise _wrong_kind(scalar, value, dtype)
    held = as_held(number, dtype)
    if held is None:
        raise _not_held(scalar, number, dtype)
    return held


def _wrong_kind(scalar: Scalar, value: object, dtype: np.dtype[Any]) -> ArgumentError:
    if getattr(value, "ndim", 0):
        got, hint = "an array", "Give one number; one that differs from point to point is a field."
    else:
        got = f"the {type(value).__name__} {value!r}"[:60]
        hint = f"Convert it first, for example with numpy.{dtype.name}(...)."
    if isinstance(value, str):
        hint = "Give a number; units and expressions are not read."
    return ArgumentError(f"Scalar '{scalar.name}' must be a '{dtype}', but is {got}.", hint=hint)


def _not_held(scalar: Scalar, number: PlainNumber, dtype: np.dtype[Any]) -> ArgumentError:
    if dtype.kind == "f" and isinstance(number, int):
        hint = "Give a number with fewer digits, or float(...), which rounds it."
    elif dtype.kind == "f":
        hint = f"Use a number up to {np.finfo(dtype).max}, or another type in the program."
    elif isinstance(number, float):
        hint = "Give a whole number, or make the parameter a 'float' in the program."
    else:
        limits = np.iinfo(dtype)
        hint = f"Use a number from {limits.min} to {limits.max}."
    return ArgumentError(
        f"Scalar '{scalar.name}' is {written(number)}, which does not fit into a '{dtype}'.",
        hint=hint,
    )
