"""Types that a caller gives: as text, as NumPy has them, or as GT4Py has types of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from halocline_engine.errors import ArgumentError, ProgramError
from halocline_engine.ir.types import DType
from halocline_engine.language.gtscript import read_type_text
from halocline_engine.language.python.collect import type_text
from halocline_engine.language.source import START
from halocline_engine.language.syntax import Binding

__all__ = ["given_type", "given_types"]


def given_types(
    dtypes: Mapping[str, object], externals: Mapping[str, object]
) -> tuple[dict[str, Binding], dict[str, DType]]:
    """Return the types of fields and of numbers that `dtypes` gives, and those in `externals`."""
    found = {name: given_type(name, value) for name, value in externals.items()}
    found |= {
        name: _field_type(name, value) or _dtype(name, value) for name, value in dtypes.items()
    }
    fields = {name: one for name, one in found.items() if isinstance(one, Binding)}
    return fields, {name: one for name, one in found.items() if isinstance(one, DType)}


def given_type(name: str, value: object) -> Binding | DType | None:
    """Return the type that an external is, or None where it is something else."""
    if isinstance(value, str) or type_text(value) is None:
        return None
    return _field_type(name, value) or _dtype(name, value)


def _field_type(name: str, value: object) -> Binding | None:
    """Return a type of fields, or a type of numbers with a shape, or None for any other."""
    text = value if isinstance(value, str) else type_text(value)
    if text is None or ("[" not in text and "(" not in text):
        return None
    try:
        return Binding(name, read_type_text(text), START)
    except ProgramError as error:
        message = f"The type of '{name}' cannot be read: {value!r}."
        hint = "Write it as in a program, like 'Field[IJ, np.float64]'."
        raise ArgumentError(message, hint=hint) from error


def _dtype(name: str, value: object) -> DType:
    try:
        return DType(np.dtype(cast(Any, value)).name)
    except (TypeError, ValueError) as error:
        known = ", ".join(dtype.value for dtype in DType)
        message = f"The dtype of '{name}' must be one of {known}, but got {value!r}."
        hint = "A type of fields is a text, like 'Field[IJ, np.float64]'."
        raise ArgumentError(message, hint=hint) from error
