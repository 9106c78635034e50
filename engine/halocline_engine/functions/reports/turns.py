"""Mean trip counts of loops on random arrays, counted by the reference.

The trip count of a `while` depends on data. Each loop increments a field of its own, and the
reference runs the program on a few columns, with random inputs like those of the timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from halocline_engine.functions.stencil import Stencil
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Block,
    Field,
    If,
    Number,
    Program,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import statements
from halocline_engine.program import compile_lowered

__all__ = ["measured_turns"]

_COLUMNS = 9


def measured_turns(
    program: Program,
    domain: tuple[int, int, int],
    draw: Callable[[tuple[int, int, int]], Mapping[str, Any]],
    scalars: Mapping[str, Any],
    origin: tuple[int, int, int],
) -> dict[While, float]:
    """Return the mean trip count of each loop at a point, from a few columns of a domain.

    `draw` returns arrays of NumPy for a domain. Identical loops count as one.
    """
    names = {loop: f"__turns_{n}" for n, loop in enumerate(dict.fromkeys(_loops(program)))}
    if not names:
        return {}
    size = (min(_COLUMNS, domain[0]), min(_COLUMNS, domain[1]), domain[2])
    arrays = dict(draw(size))
    around = [n + 2 * halo for n, halo in zip(size, origin, strict=True)]
    counted = {name: np.zeros(around, np.int64) for name in names.values()}
    counting = Stencil(compile_lowered(_counting(program, names), "reference"))
    counting(**arrays, **counted, **scalars, origin=origin, domain=size)
    return {
        loop: float(counted[name].sum()) / _points(program, loop, size)
        for loop, name in names.items()
    }


def _loops(program: Program) -> Iterator[While]:
    for block in _blocks(program):
        yield from (one for one in statements(block.body) if isinstance(one, While))


def _blocks(program: Program) -> Iterator[Block]:
    for computation in program.computations:
        yield from computation.blocks


def _points(program: Program, loop: While, domain: tuple[int, int, int]) -> int:
    """Return the number of points of a loop, if all conditions hold."""
    ni, nj, nk = domain
    levels = 0
    for block in _blocks(program):
        height = block.interval.end.level(nk) - block.interval.start.level(nk)
        levels += height * sum(1 for one in statements(block.body) if one == loop)
    return max(1, levels * ni * nj)


def _counting(program: Program, names: Mapping[While, str]) -> Program:
    """Return a program whose loops count their iterations in fields."""
    fields = (
        Field(name, DType.INT64, tuple(Axis), read=True, written=True) for name in names.values()
    )
    computations = tuple(
        replace(
            computation,
            blocks=tuple(
                replace(block, body=tuple(_counted(one, names) for one in block.body))
                for block in computation.blocks
            ),
        )
        for computation in program.computations
    )
    return replace(
        program,
        arguments=(*program.arguments, *names.values()),
        fields=(*program.fields, *fields),
        computations=computations,
    )


def _counted(statement: Statement, names: Mapping[While, str]) -> Statement:
    match statement:
        case While(_, body, place):
            count = Read(names[statement], (0, 0, 0), DType.INT64)
            more = Binary("+", count, Number(DType.INT64, 1), DType.INT64)
            inner = tuple(_counted(one, names) for one in body)
            return replace(statement, body=(*inner, Assign(names[statement], more, place)))
        case If(_, then, otherwise):
            return replace(
                statement,
                then=tuple(_counted(one, names) for one in then),
                otherwise=tuple(_counted(one, names) for one in otherwise),
            )
        case Assign():
            return statement
