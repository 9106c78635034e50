"""Values of scalars as a program uses them: they are checked before there is any data.

Those of a run may vary: from step to step, along dimensions that are looped over, or as its clock
tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.analysis.named import check_scalars, given_scalars
from halocline_engine.arguments import PlainNumber, as_held, plain_number, written
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.nodes import Program, Scalar
from halocline_engine.ir.types import DType

__all__ = [
    "STEP",
    "ClockScalar",
    "GivenScalars",
    "ScalarSeries",
    "given_scalars_of",
    "scalar_value",
    "scalars_of",
]

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

#: The dimension of values that vary from step to step.
STEP = "step"
#: What a clock tells, and whether these are whole numbers.
_QUANTITIES = {"step": True, "seconds": False, "day_of_year": False, "time_of_day": False}


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


@dataclass(frozen=True, slots=True)
class ClockScalar:
    """A scalar that the clock gives at the beginning of each step."""

    quantity: str


@dataclass(frozen=True, slots=True, eq=False)
class ScalarSeries:
    """Values of a scalar along some dimensions, of the type that the program has for it."""

    dims: tuple[str, ...]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class GivenScalars:
    """The scalars of a run: constants, and series along steps or members."""

    constant: Mapping[str, PlainNumber]
    varying: Mapping[str, ClockScalar | ScalarSeries]


def given_scalars_of(program: Program, given: Mapping[str, Any]) -> GivenScalars:
    """Return the scalars of a program; raises `ArgumentError` where one has no such value."""
    check_scalars(program, given)
    constant: dict[str, PlainNumber] = {}
    varying: dict[str, ClockScalar | ScalarSeries] = {}
    for scalar in given_scalars(program):
        value = given.get(scalar.name, scalar.default)
        if isinstance(value, Mapping):
            varying[scalar.name] = _of_mapping(scalar, cast("Mapping[str, Any]", value))
        elif hasattr(value, "dims") and hasattr(value, "values"):
            array: Any = value
            dims = tuple(str(dim) for dim in array.dims)
            if dims:
                varying[scalar.name] = _series(scalar, dims, np.asarray(array.values))
            else:
                constant[scalar.name] = _finite(scalar, array.values.item())
        else:
            constant[scalar.name] = _finite(scalar, value)
    return GivenScalars(constant, varying)


def _of_mapping(scalar: Scalar, given: Mapping[str, Any]) -> ClockScalar | ScalarSeries:
    if set(given) == {"clock"}:
        return _of_clock(scalar, given["clock"])
    if set(given) == {"values", "dim"}:
        dim, values = given["dim"], given["values"]
        if isinstance(dim, str) and isinstance(values, list | tuple | np.ndarray):
            return _series(scalar, (dim,), np.asarray(values, object))
    raise ArgumentError(
        f"Scalar '{scalar.name}' must be a number, or vary as"
        f" {{'values': [...], 'dim': 'step'}} or {{'clock': 'seconds'}}, got {dict(given)!r}"[:300]
        + ".",
        hint=f"Write for example {{'{scalar.name}': {{'values': [0.1, 0.2], 'dim': 'step'}}}}.",
    )


def _of_clock(scalar: Scalar, quantity: object) -> ClockScalar:
    if not isinstance(quantity, str) or quantity not in _QUANTITIES:
        raise ArgumentError(
            f"The 'clock' of scalar '{scalar.name}' must be one of"
            f" {', '.join(map(repr, _QUANTITIES))}, got {quantity!r}.",
            hint=f"Write for example {{'{scalar.name}': {{'clock': 'seconds'}}}}.",
        )
    if not (scalar.dtype.is_float or (scalar.dtype.is_integer and _QUANTITIES[quantity])):
        raise ArgumentError(
            f"Scalar '{scalar.name}' is '{scalar.dtype.value}', but the '{quantity}' of a clock is"
            " no such number.",
            hint="Make the parameter a 'float' in the program.",
        )
    return ClockScalar(quantity)


def _series(scalar: Scalar, dims: tuple[str, ...], values: NDArray[Any]) -> ScalarSeries:
    """Return values along dimensions; each must be one that the scalar may have."""
    if values.ndim != len(dims) or not values.size:
        raise ArgumentError(
            f"The values of scalar '{scalar.name}' must be numbers along '{', '.join(dims)}', got"
            f" an array of the shape {values.shape}.",
            hint="Give as many numbers as there are steps, or points of the dimension.",
        )
    numbers = [_finite(scalar, one) for one in values.ravel().tolist()]
    dtype = np.dtype(bool if scalar.dtype is DType.BOOL else scalar.dtype.value)
    return ScalarSeries(dims, np.array(numbers, dtype).reshape(values.shape))
