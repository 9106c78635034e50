"""Types of variables, which are those of their fields."""

from __future__ import annotations

import numpy as np
import xarray as xr

from halocline_engine.datasets.variables import hint_of_conversion
from halocline_engine.errors import FieldError
from halocline_engine.ir.nodes import Field
from halocline_engine.ir.types import DType

__all__ = ["check_dtype"]


def check_dtype(field: Field, variable: xr.DataArray) -> None:
    """Raise `FieldError` where a variable has another type than its field."""
    got = variable.dtype.newbyteorder("=").name
    if got != field.dtype.value:
        raise FieldError(
            f"Field '{field.name}' is {field.dtype.value}, but variable '{variable.name}' is"
            f" {got}.",
            hint=hint_of_conversion(variable, _as_type(field.dtype, variable.dtype)),
        )


def _as_type(wanted: DType, dtype: np.dtype[np.generic]) -> str:
    """Return how a variable becomes one of the type that a field has."""
    got = dtype.newbyteorder("=").name
    match dtype.kind:
        case "c":
            return "Give its parts as two variables: .real and .imag."
        case "U" | "S" | "O":
            return "Its values are text or objects: select a variable of numbers, or convert it."
        case "M" | "m":
            return (
                "Its values are times: subtract one, divide by np.timedelta64(1, 's'), and cast "
                f"what that gives with .astype('{wanted.value}')."
            )
        case _:
            known = f", or annotate the field with np.{got}." if got in tuple(DType) else "."
            return f"Cast the variable with .astype('{wanted.value}'){known}"
