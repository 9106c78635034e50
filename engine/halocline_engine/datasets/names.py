"""Names of results: valid in a store, and not taken.

A name that no array of a store may have is refused for results in memory as well.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence

from halocline_engine.analysis.named import used_fields
from halocline_engine.arguments import names, text
from halocline_engine.datasets.storing.array_names import hint_of_name, storable
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.ir.nodes import Program

__all__ = ["check_results", "check_written", "result_name", "solution_names"]


def result_name(given: object) -> str:
    """Return the argument `name`; raises a `RequestError` where no result may be called so."""
    name = text("name", given, "the name of the result")
    check_results([name], ())
    return name


def solution_names(rhs: object, name: object) -> dict[str, str]:
    """Return what the solution of each right-hand side is called; `name` alone for a single one."""
    name = result_name(name)
    if isinstance(rhs, str):
        return {rhs: name}
    several = names("rhs", rhs, "'b', or several: rhs=['b', 'c']")
    found = {one: f"{one}_{name}" for one in several}
    if not found:
        raise ArgumentError("Argument 'rhs' must name at least one variable, got none.")
    check_results([*found.values()], ())
    return found


def check_written(program: Program, fields: Mapping[str, str]) -> None:
    """Refuse variables that a store has no place for, or that two fields are written to."""
    hint = "Give it another name with fields={...}."
    seen: dict[str, str] = {}
    for field in used_fields(program):
        variable = fields.get(field.name, field.name)
        if not field.written:
            continue
        if not storable(variable):
            raise FieldError(
                f"Field '{field.name}' is written, but {reprlib.repr(variable)} is not a valid"
                " array name.",
                hint=hint_of_name(variable, hint),
            )
        if variable in seen:
            raise ArgumentError(
                f"Fields '{seen[variable]}' and '{field.name}' are both written to variable"
                f" '{variable}', expected one.",
                hint="Give each its own name with fields={...}.",
            )
        seen[variable] = field.name


def check_results(called: Sequence[str], taken: Collection[str]) -> None:
    """Raise `FieldError` unless variables may be called so.

    `taken` are the dimensions and coordinates of the result.
    """
    for at, name in enumerate(called):
        shown = reprlib.repr(name)
        if not storable(name):
            raise FieldError(
                f"The result cannot be named {shown} because that is not a valid array name.",
                hint=hint_of_name(name, "Give a 'name' of letters, digits and underscores."),
            )
        if name in taken:
            raise FieldError(
                f"The result cannot be named {shown}: a dimension or coordinate has it already.",
                hint="Give another 'name'.",
            )
        if name in called[:at]:
            raise FieldError(
                f"Two variables of the result would be named {shown}.", hint="Give another 'name'."
            )
