"""Descriptions of the arguments of a compiled stencil, and its signature in Python."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from halocline_engine.analysis.named import given_scalars
from halocline_engine.ir.nodes import Field, Program

__all__ = ["FieldInfo", "ScalarInfo", "fields_of", "scalars_of", "shown_signature"]


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """A field of a stencil.

    Attributes
    ----------
    dtype : str
        Type of its numbers.
    axes : str
        Its axes among 'IJK'.
    read, written : bool
        Whether the program reads it, and assigns to it.
    shape : tuple of int
        Lengths of its data dimensions, which come last.

    """

    dtype: str
    axes: str
    read: bool
    written: bool
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        data = f"({self.dtype}, {self.shape})" if self.shape else self.dtype
        if not self.axes:
            return f"GlobalTable[{data}]"
        return f"Field[{data}]" if self.axes == "IJK" else f"Field[{self.axes}, {data}]"


@dataclass(frozen=True, slots=True)
class ScalarInfo:
    """A scalar parameter of a stencil.

    Attributes
    ----------
    dtype : str
        Its type.
    default : bool, int, float or None
        Default value; None if the scalar is required.

    """

    dtype: str
    default: bool | int | float | None


def fields_of(program: Program) -> dict[str, FieldInfo]:
    """Return the fields among the arguments, by name in the order of the program."""
    known = {field.name: field for field in program.fields}
    several = {whole.name: (whole.shape, _parts(known, whole.name)) for whole in program.components}
    several |= {table.name: ((table.slots,), _parts(known, table.name)) for table in program.tables}
    lookups = {lookup.name: lookup.shape for lookup in program.lookups}
    axes = {one.name: one.axes for one in program.components}
    dtypes = {one.name: one.dtype for one in (*program.components, *program.tables)}
    fields: dict[str, FieldInfo] = {}
    for name in program.arguments:
        if name in several:
            shape, parts = several[name]
            on = axes[name] if name in axes else parts[0].axes if parts else ()
            fields[name] = FieldInfo(
                dtypes[name].value,
                "".join(axis.value for axis in on),
                any(part.read for part in parts),
                any(part.written for part in parts),
                shape,
            )
        elif name in known:
            one = known[name]
            of_levels = () if name in lookups else one.axes
            text = "".join(axis.value for axis in of_levels)
            shape = lookups.get(name, ())
            fields[name] = FieldInfo(one.dtype.value, text, one.read, one.written, shape)
    return fields


def _parts(known: dict[str, Field], name: str) -> list[Field]:
    return [field for each, field in known.items() if each.rpartition(".")[0] == name]


def scalars_of(program: Program) -> dict[str, ScalarInfo]:
    """Return the scalars among the arguments, by name in the order of the program."""
    scalars = {one.name: ScalarInfo(one.dtype.value, one.default) for one in given_scalars(program)}
    return {name: scalars[name] for name in program.arguments if name in scalars}


def shown_signature(program: Program) -> inspect.Signature:
    """Return the signature of calls on arrays, for `inspect` and completion."""
    fields, scalars = fields_of(program), scalars_of(program)
    empty = inspect.Parameter.empty
    made: list[inspect.Parameter] = []
    for name in reversed(program.arguments):  # those with a default end the list
        default = scalars[name].default if name in scalars else None
        ends = all(one.default is not empty for one in made)
        made.insert(
            0,
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default if default is not None and ends else empty,
                annotation=scalars[name].dtype if name in scalars else str(fields.get(name, "")),
            ),
        )
    own = [name for name in ("origin", "domain") if name not in program.arguments]
    made += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in own]
    return inspect.Signature(made)
