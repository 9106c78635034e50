"""Names of a program in a request, checked before there is any data.

Raises `ArgumentError` with the names that there are.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping

from halocline_engine.errors import ArgumentError, AxisError
from halocline_engine.ir.nodes import Field, Program, Scalar
from halocline_engine.ir.types import Axis

__all__ = [
    "arguments_of",
    "check_axes",
    "check_feedback",
    "check_fields",
    "check_scalars",
    "dims_given",
    "given_scalars",
    "joined_components",
    "near",
    "used_fields",
]


def near(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names that look like `name`, or with all of them."""
    names = [str(item) for item in known]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(item) for item in close)}?"
    return f"There are {', '.join(repr(item) for item in sorted(names))}." if names else ""


def used_fields(program: Program) -> list[Field]:
    """Return the fields that stand for variables: those that are read or written, and not made."""
    return [f for f in program.fields if (f.read or f.written) and f.name not in program.made]


def given_scalars(program: Program) -> list[Scalar]:
    """Return the scalars that a caller gives."""
    return [scalar for scalar in program.scalars if scalar.name not in program.made]


def check_axes(axes: Mapping[str, str | None]) -> None:
    """Refuse names of no axes, and a dimension for two of them."""
    seen: list[str] = []
    for key, dim in axes.items():
        if key not in tuple(Axis):
            from halocline_engine.interface.habits import hint_of_axes

            raise AxisError(
                f"Argument 'axes' must map 'I', 'J' or 'K' to dimensions, got '{key}'.",
                hint=hint_of_axes(axes) or "For example axes={'I': 'x', 'J': 'y'}.",
            )
        if dim is None:
            continue
        if dim in seen:
            raise AxisError(
                f"Dimension '{dim}' was given for two axes, expected one.",
                hint="Give each axis its own, for example axes={'I': 'x', 'J': 'y'}.",
            )
        seen.append(dim)


def dims_given(program: Program, axes: Mapping[str, str | None]) -> dict[Axis, str] | None:
    """Return the dimensions of a program's axes, or None where some are found in the dataset."""
    used = {axis.value for field in used_fields(program) for axis in field.axes}
    if not used <= set(axes):
        return None
    return {Axis(axis): dim for axis, dim in axes.items() if dim}


def check_fields(program: Program, fields: Iterable[str]) -> None:
    """Refuse names that are no fields of a program."""
    scalars = {scalar.name for scalar in program.scalars}
    known = [name for name in program.arguments if name not in scalars]
    for name in fields:
        if name not in known:
            raise ArgumentError(
                f"Argument 'fields' must map fields of the program, got '{name}'.",
                hint=near(name, known),
            )


def check_scalars(program: Program, given: Mapping[str, object]) -> None:
    """Refuse names that are no scalars of a program, and scalars that have no value."""
    known = {scalar.name: scalar for scalar in given_scalars(program)}
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"Argument 'scalars' must name scalars of the program, got '{name}'.",
                hint=near(name, known),
            )
    for name, scalar in known.items():
        if given.get(name, scalar.default) is None:
            raise ArgumentError(
                f"Scalar '{name}' needs a value, got none.",
                hint=f"Give it: scalars={{'{name}': ...}}.",
            )


def joined_components(program: Program, feedback: Mapping[str, str]) -> dict[str, str]:
    """Return feedback by components where it joins arrays with data dimensions.

    Components that the program does not use are left out.
    """
    wholes = {one.name: one for one in program.components}
    used = {field.name for field in used_fields(program)}
    found: dict[str, str] = {}
    for output, source in feedback.items():
        one, other = wholes.get(output), wholes.get(source)
        if one is None or other is None:
            found[output] = source
            continue
        if one.shape != other.shape:
            raise ArgumentError(
                f"Feedback from '{output}' to '{source}' must join fields with the same data"
                f" dimensions, got {one.shape} and {other.shape}.",
                hint="Declare both alike in the program.",
            )
        several = ((one.field(n), other.field(n)) for n in range(math.prod(one.shape)))
        found |= {name: to for name, to in several if name in used and to in used}
    return found


def arguments_of(program: Program) -> dict[str, list[str]]:
    """Return the fields that each argument is: one, or the components of an array."""
    alone = {one.name: [one.name] for one in program.fields if one.name in program.arguments}
    wholes = {
        one.name: [one.field(number) for number in range(math.prod(one.shape))]
        for one in program.components
    }
    return alone | wholes


def check_feedback(program: Program, feedback: Mapping[str, str]) -> None:
    """Refuse feedback that does not join a field that is written and one that is only read."""
    by_name = {field.name: field for field in used_fields(program)}
    for output, source in feedback.items():
        for name in (output, source):
            if name not in by_name:
                raise ArgumentError(
                    f"Argument 'feedback' must map fields of the program, got '{name}'.",
                    hint=near(name, by_name),
                )
        if not by_name[output].written:
            raise ArgumentError(
                f"Feedback must come from a field that is written, got '{output}'.",
                hint=f"Write feedback={{'{source}': '{output}'}}."
                if by_name[source].written
                else "Write feedback={output: input}.",
            )
        if by_name[source].written:
            raise ArgumentError(
                f"Feedback must go to a field that is only read, got '{source}'.",
                hint="A field that is written in place needs no feedback.",
            )
        if by_name[output].axes != by_name[source].axes:
            raise ArgumentError(
                f"Feedback from '{output}' to '{source}' must join fields with the same axes.",
                hint="Declare both alike in the program.",
            )
        if by_name[output].dtype != by_name[source].dtype:
            raise ArgumentError(
                f"Feedback from '{output}' to '{source}' must join fields of one type, got"
                f" {by_name[output].dtype.value} and {by_name[source].dtype.value}.",
                hint="Declare both alike in the program.",
            )
    if len(set(feedback.values())) < len(feedback):
        raise ArgumentError(
            "Argument 'feedback' must feed an input from one output only.",
            hint="Leave one of them out.",
        )
