"""Fields that are made of several records: weighted sums in the place of their reads.

A field F that is made of records F0, F1, ... is ``F0 + w1 * (F1 - F0) + ...``, where the weights
are scalars. A record with the weight 0 leaves the sum as it is, whatever its values are. Every
target computes such a program as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from halocline_engine.ir.nodes import (
    Binary,
    Choice,
    Expr,
    Field,
    Gather,
    Limit,
    Number,
    Parameter,
    Program,
    Read,
    Scalar,
    Select,
)
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import rewrite_body

__all__ = ["Records", "weigh_records"]


@dataclass(frozen=True, slots=True)
class Records:
    """The fields that hold the records of a field, and the scalars that weigh all but the first."""

    fields: tuple[str, ...]
    weights: tuple[str, ...]


def weigh_records(program: Program, made: Mapping[str, Records]) -> Program:
    """Return a program in which fields that are only read are made of records.

    What is gathered of such a field, or chosen among such fields, is made of what is gathered of
    their records, or chosen among them.
    """
    known = {name: one for name, one in made.items() if _is_read(program, name)}
    if not known:
        return program
    whole = {**known}
    for gather in program.gathers:
        if gather.field in known:
            whole[gather.name] = _like(gather.name, known[gather.field])
    for choice in program.choices:
        if choice.parts[0] in known:
            whole[choice.name] = _like(choice.name, known[choice.parts[0]])
    dtypes = {field.name: field.dtype for field in program.fields}
    scalars = tuple(
        Scalar(weight, dtypes[name]) for name, one in known.items() for weight in one.weights
    )
    arguments = tuple(
        part
        for name in program.arguments
        for part in (known[name].fields if name in known else (name,))
    )
    # Components are no arguments, but records of them are.
    others = (name for name in known if name not in program.arguments)
    arguments += tuple(part for name in others for part in known[name].fields)
    computations = tuple(
        replace(
            computation,
            blocks=tuple(
                replace(block, body=rewrite_body(block.body, lambda one: _sum(one, whole)))
                for block in computation.blocks
            ),
        )
        for computation in program.computations
    )
    return replace(
        program,
        arguments=(*arguments, *(scalar.name for scalar in scalars)),
        fields=tuple(part for one in program.fields for part in _fields(one, whole)),
        scalars=(*program.scalars, *scalars),
        computations=computations,
        gathers=tuple(part for one in program.gathers for part in _gathers(one, whole)),
        limits=tuple(_limit(one, whole) for one in program.limits),
        choices=tuple(part for one in program.choices for part in _choices(one, whole)),
    )


def _is_read(program: Program, name: str) -> bool:
    return any(one.name == name and one.read and not one.written for one in program.fields)


def _like(name: str, records: Records) -> Records:
    """Return the fields of what follows from records, which has their weights."""
    count = len(records.fields)
    return Records(tuple(f"{name}.record{n}" for n in range(count)), records.weights)


def _sum(expr: Expr, whole: Mapping[str, Records]) -> Expr:
    """Return the sum in the place of the read of a field."""
    if not isinstance(expr, Read) or expr.name not in whole:
        return expr
    records, dtype = whole[expr.name], expr.dtype
    first: Expr = replace(expr, name=records.fields[0])
    found = first
    for name, weight in zip(records.fields[1:], records.weights, strict=True):
        factor = Parameter(weight, dtype)
        apart = Binary("-", replace(expr, name=name), first, dtype)
        more = Binary("+", found, Binary("*", factor, apart, dtype), dtype)
        unweighed = Binary("==", factor, Number(dtype, 0.0), DType.BOOL)
        found = Select(unweighed, found, more, dtype)
    return found


def _fields(field: Field, whole: Mapping[str, Records]) -> Iterator[Field]:
    if field.name not in whole:
        yield field
        return
    for name in whole[field.name].fields:
        yield replace(field, name=name)


def _gathers(gather: Gather, whole: Mapping[str, Records]) -> Iterator[Gather]:
    if gather.name not in whole:
        yield gather
        return
    pairs = zip(whole[gather.name].fields, whole[gather.field].fields, strict=True)
    yield from (Gather(name, field, gather.index) for name, field in pairs)


def _limit(limit: Limit, whole: Mapping[str, Records]) -> Limit:
    if limit.field is None or limit.field not in whole:
        return limit
    return replace(limit, field=whole[limit.field].fields[0])


def _choices(choice: Choice, whole: Mapping[str, Records]) -> Iterator[Choice]:
    if choice.name not in whole:
        yield choice
        return
    for at, name in enumerate(whole[choice.name].fields):
        yield Choice(name, tuple(whole[part].fields[at] for part in choice.parts), choice.index)
