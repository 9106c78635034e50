"""Request of a column program, checked before there is any data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from halocline_engine.analysis.named import near
from halocline_engine.errors import ArgumentError, AxisError
from halocline_engine.language.columns_syntax import ColumnSyntax, names_in

__all__ = [
    "check_axis",
    "check_fields",
    "check_periodic",
    "check_result_names",
    "check_scalars",
    "check_variables",
    "no_variable",
    "shown_results",
]


def check_fields(syntax: ColumnSyntax, fields: Iterable[str]) -> None:
    """Refuse fields that are no names of the text."""
    named = names_in(syntax)
    for name in fields:
        if name not in named:
            raise ArgumentError(
                f"Argument 'fields' must map names of the program, got '{name}'.",
                hint=near(name, named),
            )


def check_scalars(syntax: ColumnSyntax, scalars: Iterable[str]) -> None:
    """Refuse scalars that are no names of the text."""
    named = names_in(syntax)
    for name in scalars:
        if name not in named:
            raise ArgumentError(
                f"Argument 'scalars' must name scalars of the program, got '{name}'.",
                hint=near(name, named),
            )


def check_variables(syntax: ColumnSyntax, scalars: Iterable[str]) -> None:
    """Refuse a text that uses no variable."""
    if not names_in(syntax).keys() - {*scalars}:
        raise no_variable(())


def no_variable(known: Iterable[str]) -> ArgumentError:
    """Return the error of a text that uses none of the variables that are known."""
    return ArgumentError(
        "The program uses no variable of the dataset.",
        hint=near("", known) or "Name one in the expression.",
    )


def shown_results(syntax: ColumnSyntax, name: str) -> list[str]:
    """Return what results are called; names that begin with "_" are none."""
    names = [output.name or name for output in syntax.outputs]
    return [each for each in names if not each.startswith("_")]


def check_result_names(names: Sequence[str], taken: Collection[str] = ()) -> None:
    """Refuse names of results that are no identifiers, or taken."""
    for name in names:
        if not name.isidentifier() or name in taken:
            raise ArgumentError(
                f"The result '{name}' must have a new name that is an identifier.",
                hint="The program reads a variable of that name, or it is a coordinate."
                if name in taken
                else "Give it a name like 'tendency'.",
            )


def check_axis(axis: str | Mapping[str, str]) -> None:
    """Refuse what does not say which dimension the centres have, and which the faces."""
    if isinstance(axis, str):
        return
    if not axis or not set(axis) <= {"centre", "face"}:
        raise AxisError(
            "Argument 'axis' must be a dimension, or map 'centre' and 'face' to dimensions, got"
            f" {axis!r}.",
            hint="For example axis={'centre': 'z', 'face': 'z_face'}.",
        )
    if axis.get("centre") == axis.get("face"):
        raise AxisError(
            f"Dimension '{axis['centre']}' was given for centres and for faces, expected one of"
            " each.",
            hint="For example axis={'centre': 'z', 'face': 'z_face'}.",
        )


def check_periodic(boundary: Mapping[str, Any], dims: Sequence[str]) -> None:
    """Refuse boundaries but 'periodic' of the dimensions of centres and faces."""
    for dim, kind in boundary.items():
        if dim not in dims or not (isinstance(kind, str) and kind == "periodic"):
            raise ArgumentError(
                "Argument 'boundary' must be left out, or say that the column is periodic, got"
                f" {dim!r}: {kind!r}.",
                hint=f"Write boundary={{'{dims[0]}': 'periodic'}}; other conditions stand in"
                " the program, such as 'GradientC2F(top=SetValue(0.0))'.",
            )
