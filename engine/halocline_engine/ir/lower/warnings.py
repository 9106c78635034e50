"""Warnings about types that numbers take silently, as they do in GT4Py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from halocline_engine.ir.nodes import Expr, Number
from halocline_engine.ir.types import DType
from halocline_engine.language.source import Place
from halocline_engine.program_warning import ProgramWarning

__all__ = ["of_integers", "of_truncation"]


def of_integers(
    what: str, operands: Sequence[Expr], result: Expr, place: Place
) -> Iterator[ProgramWarning]:
    """Warn where a value that is made of integers alone is float32."""
    if result.dtype is not DType.FLOAT32 or any(each.dtype.is_float for each in operands):
        return
    yield ProgramWarning(
        f"{what} of integers is float32, which has seven digits.",
        hint="Convert an operand with 'float64(...)', or write it with a point: '2.0'.",
        rule="float32",
        line=place.line,
        column=place.column,
    )


def of_truncation(
    name: str,
    dtype: DType,
    value: Expr,
    untyped: Mapping[str, Place],
    place: Place,
    *,
    is_field: bool,
) -> Iterator[ProgramWarning]:
    """Warn where a value loses its fraction in a field, or in a temporary with a whole first value.

    Whole numbers of the text lose nothing.
    """
    if not dtype.is_integer or not value.dtype.is_float or _is_whole(value):
        return
    if is_field:
        reason = f"Field '{name}' is {dtype.value}, so this value loses its fraction."
        hint = f"Write '{dtype.value}(...)' if that is meant, or give the field a type of floats."
    elif name in untyped:
        reason = (
            f"'{name}' is {dtype.value}, as is its first value on line {untyped[name].line}, so "
            "this one loses its fraction."
        )
        hint = f"Write the first value with a point, or declare the type: '{name}: float64 = 0'."
    else:
        return
    yield ProgramWarning(reason, hint=hint, rule="truncation", line=place.line, column=place.column)


def _is_whole(value: Expr) -> bool:
    return isinstance(value, Number) and float(value.value).is_integer()
