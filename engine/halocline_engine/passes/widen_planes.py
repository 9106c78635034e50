"""Give temporaries over I and J that are needed beside the point a place around the domain.

After this, each of them is a temporary with all axes that is read and assigned at the domain's
first level alone. The others stay planes, which kernels keep in registers where they can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Expr,
    If,
    Number,
    Program,
    Read,
    Statement,
    Temporary,
    While,
)
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import (
    bodies_of,
    head,
    program_bodies,
    reads,
    reads_of,
    rewrite,
)

__all__ = ["widen_planes"]

_FIRST = Number(DType.INT64, 0)


def widen_planes(program: Program) -> Program:
    """Return the program with temporaries of all axes for planes that are needed beside points."""
    planes = {one.name for one in program.scratch if not one.loops}
    names = planes & _needed_beside(program) if planes else set[str]()
    if not names:
        return program
    types = {field.name: field.dtype for field in program.fields}
    return replace(
        program,
        fields=tuple(field for field in program.fields if field.name not in names),
        scratch=tuple(one for one in program.scratch if one.name not in names),
        temporaries=(*program.temporaries, *(Temporary(n, types[n]) for n in sorted(names))),
        computations=tuple(
            replace(
                computation,
                blocks=tuple(
                    replace(block, body=tuple(_at_first(one, names) for one in block.body))
                    for block in computation.blocks
                ),
            )
            for computation in program.computations
        ),
    )


def _needed_beside(program: Program) -> set[str]:
    """Return all names that are read beside a point, or by what such names are assigned from.

    Which of two values of a name is read so is not asked: that would need the extents.
    """
    bodies = list(program_bodies(program))
    found = {read.name for body in bodies for read in reads(body) if read.offset[:2] != (0, 0)}
    sources = [edge for body in bodies for one in body for edge in _edges(one, frozenset())]
    growing = True
    while growing:
        more = {name for target, names in sources if target in found for name in names} - found
        found |= more
        growing = bool(more)
    return found


def _edges(statement: Statement, around: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what is assigned, and what its value and the conditions around it read."""
    own = around | {read.name for expr in head(statement) for read in reads_of(expr)}
    if isinstance(statement, Assign):
        yield statement.target, own
    for inner in (one for body in bodies_of(statement) for one in body):
        yield from _edges(inner, own)


def _at_first(statement: Statement, names: set[str]) -> Statement:
    """Return a statement that reads and assigns some names at the first level."""

    def moved(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.name in names:
            i, j, _ = expr.offset
            return replace(expr, offset=(i, j, ANY_LEVEL), level=_FIRST)
        return expr

    def body(several: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_at_first(one, names) for one in several)

    match statement:
        case Assign(target, value, location, level):
            here = _FIRST if target in names else level and rewrite(level, moved)
            return Assign(target, rewrite(value, moved), location, here)
        case If(condition, then, otherwise, location):
            return If(rewrite(condition, moved), body(then), body(otherwise), location)
        case While(condition, inner, location):
            return While(rewrite(condition, moved), body(inner), location)
        case _:
            assert_never(statement)
