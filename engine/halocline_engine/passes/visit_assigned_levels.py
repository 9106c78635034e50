"""Let blocks that assign levels ahead or behind visit the levels that they assign.

After this, no block assigns arrays only at one number of levels from the point, all of them levels
of the domain, and beside them only planes and temporaries that nothing else has. It visits what it
assigned, and reads at offsets that are as much smaller. So no level is one that only a run knows,
and what a level assigns the next one finds in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import assert_never

from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Binary,
    Block,
    Bound,
    Call,
    Computation,
    Expr,
    If,
    Interval,
    Number,
    Parameter,
    Program,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import (
    assignments,
    bodies_of,
    expressions,
    program_bodies,
    reads,
    rewrite_body,
    walk,
)

__all__ = ["visit_assigned_levels"]


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of positions along K, of what has no levels, and of temporaries."""

    positions: frozenset[str]
    planes: frozenset[str]
    temporaries: frozenset[str]


def visit_assigned_levels(program: Program) -> Program:
    """Return the program with its blocks moved where they can be."""
    if not any(one.level for body in program_bodies(program) for one in assignments(body)):
        return program
    names = _Names(
        positions=frozenset(
            one.name for one in program.positions if one.axis is Axis.K and one.span is None
        ),
        planes=frozenset(field.name for field in program.fields if Axis.K not in field.axes),
        temporaries=frozenset(temporary.name for temporary in program.temporaries),
    )
    moved = (_moved(one, program, names) for one in program.computations)
    return _without_unused(replace(program, computations=tuple(chain.from_iterable(moved))))


def _without_unused(program: Program) -> Program:
    """Return the program without positions and limits of arrays that no statement reads."""
    values = [expr for body in program_bodies(program) for expr in expressions(body)]
    nodes = [node for value in values for node in walk(value)]
    used = {node.name for node in nodes if isinstance(node, Read | Parameter)}
    made = {one.name for one in (*program.positions, *program.limits)} - used
    return replace(
        program,
        fields=tuple(one for one in program.fields if one.name not in made),
        scalars=tuple(one for one in program.scalars if one.name not in made),
        positions=tuple(one for one in program.positions if one.name not in made),
        limits=tuple(one for one in program.limits if one.name not in made),
    )


def _moved(computation: Computation, program: Program, names: _Names) -> Iterator[Computation]:
    """Yield a computation, in parts where a block moves, whose levels may then overlap others'."""
    kept: list[Block] = []
    for block in computation.blocks:
        step = _step(block, program, names)
        if not step:
            kept.append(block)
            continue
        if kept:
            yield replace(computation, blocks=tuple(kept))
        kept = []
        yield replace(computation, blocks=(_visiting(block, step, names),))
    if kept:
        yield replace(computation, blocks=tuple(kept))


def _step(block: Block, program: Program, names: _Names) -> int:
    """Return how many levels ahead a block assigns and may visit, or 0."""
    found = list(_assigned(block.body, names))
    ahead = {name for name, step in found if step}
    beside = {name for name, step in found if step == 0} - names.planes
    steps = {step for _, step in found} - {0}
    if len(steps) != 1 or None in steps or ahead & beside or not beside <= names.temporaries:
        return 0
    if any(read.offset[2] == ANY_LEVEL for read in reads(block.body)):
        return 0
    if any(read.name in beside and read.offset[2] for read in reads(block.body)):
        return 0
    others = (body for body in program_bodies(program) if body is not block.body)
    if any(beside & _touched(body) for body in others):
        return 0
    step = next(iter(steps)) or 0
    start, end = _further(block.interval.start, step), _further(block.interval.end, step)
    within = not start.from_end and start.offset >= 0 and end.from_end and end.offset <= 0
    return step if within else 0


def _touched(body: tuple[Statement, ...]) -> set[str]:
    return {read.name for read in reads(body)} | {one.target for one in assignments(body)}


def _assigned(body: tuple[Statement, ...], names: _Names) -> Iterator[tuple[str, int | None]]:
    """Yield what is assigned, and how many levels ahead; None where only a run knows."""
    for statement in body:
        ahead = _ahead(statement, names)
        if ahead is not None:
            yield ahead[0].target, ahead[1]
        elif isinstance(statement, Assign):
            yield statement.target, None if statement.level else 0
        else:
            for inner in bodies_of(statement):
                yield from _assigned(inner, names)


def _ahead(statement: Statement, names: _Names) -> tuple[Assign, int] | None:
    """Return an assignment so many levels ahead, if a statement is one where the array has them."""
    match statement:
        case If(
            condition,
            (
                Assign(
                    _,
                    _,
                    _,
                    Call(
                        "min",
                        (Call("max", (Binary("+", here, Number(_, step)) as level, first)), last),
                    ),
                ) as one,
            ),
            (),
        ) if isinstance(here, Read) and here.name in names.positions and isinstance(step, int):
            above = Binary(">=", level, first, DType.BOOL)
            below = Binary("<=", level, last, DType.BOOL)
            return (one, step) if condition == Binary("and", above, below, DType.BOOL) else None
        case _:
            return None


def _further(bound: Bound, step: int) -> Bound:
    return Bound(bound.from_end, bound.offset + step)


def _visiting(block: Block, step: int, names: _Names) -> Block:
    """Return a block that visits the levels that it assigns, so many ahead."""
    own = {name for name, ahead in _assigned(block.body, names) if not ahead} | names.planes

    def moved(expr: Expr) -> Expr:
        if not isinstance(expr, Read) or expr.name in own:
            return expr
        i, j, k = expr.offset
        return replace(expr, offset=(i, j, k - step))

    body = rewrite_body(tuple(_here(one, names) for one in block.body), moved)
    start, end = block.interval.start, block.interval.end
    return Block(Interval(_further(start, step), _further(end, step)), body)


def _here(statement: Statement, names: _Names) -> Statement:
    """Return a statement that assigns the point's own level where it assigned one ahead."""
    found = _ahead(statement, names)
    if found is not None:
        return replace(found[0], level=None)
    match statement:
        case Assign():
            return statement
        case If(_, then, otherwise):
            both = (tuple(_here(one, names) for one in body) for body in (then, otherwise))
            return replace(statement, then=next(both), otherwise=next(both))
        case While(_, body):
            return replace(statement, body=tuple(_here(one, names) for one in body))
        case _:
            assert_never(statement)
