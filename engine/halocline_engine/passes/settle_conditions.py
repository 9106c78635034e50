"""Branches that scalars decide: a call knows which one is taken before its kernels run.

Models have switches: `if do_precipitation: ...`. Kernels with both branches load the arrays of the
one that is not taken, hold their values, and order their work for both. What is left when the
conditions are known is a program of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from halocline_engine.ir.nodes import (
    Binary,
    Expr,
    Field,
    If,
    Number,
    Program,
    Select,
    Statement,
    Unary,
    While,
)
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import (
    distinct,
    expressions,
    is_uniform,
    parameters_of,
    program_bodies,
    reads,
    reads_of,
    rewrite_once,
    statements,
    targets_of,
    with_expressions,
)

__all__ = ["scalar_conditions", "settle_conditions"]


def scalar_conditions(program: Program) -> tuple[Expr, ...]:
    """Return the conditions, and parts of them, that scalars of the caller decide.

    They are those of branches, and of choices between values that are read. Loops keep theirs.
    """
    given = {scalar.name for scalar in program.scalars} - program.made
    found: dict[Expr, None] = {}
    for body in program_bodies(program):
        for statement in statements(body):
            if isinstance(statement, If):
                found.update(dict.fromkeys(_decided(statement.condition, given)))
        for node in distinct(expressions(body)):
            if isinstance(node, Select) and (reads_of(node.then) or reads_of(node.otherwise)):
                found.update(dict.fromkeys(_decided(node.condition, given)))
    return tuple(found)


def settle_conditions(program: Program, outcomes: Mapping[Expr, bool]) -> Program:
    """Return what is left of a program where conditions on scalars are known.

    Fields say whether they are read and written still. A program that does nothing then is
    returned as it is.
    """
    settler = _Settler(outcomes)
    computations = tuple(
        replace(computation, blocks=blocks)
        for computation in program.computations
        if (
            blocks := tuple(
                replace(block, body=body)
                for block in computation.blocks
                if (body := settler.body(block.body))
            )
        )
    )
    if not computations:
        return program
    return _without_unused(replace(program, computations=computations))


def _decided(condition: Expr, given: set[str]) -> Iterator[Expr]:
    """Yield the parts of a condition that scalars decide."""
    match condition:
        case Binary("and" | "or", left, right):
            yield from _decided(left, given)
            yield from _decided(right, given)
        case Unary("not", operand):
            yield from _decided(operand, given)
        case _ if is_uniform(condition) and (named := parameters_of(condition)) and named <= given:
            yield condition
        case _:
            pass


@dataclass(frozen=True, slots=True)
class _Settler:
    """Rewrites bodies with the outcomes of conditions."""

    outcomes: Mapping[Expr, bool]

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return what is left of a body."""
        return tuple(left for statement in body for left in self._statement(statement))

    def _statement(self, statement: Statement) -> Iterator[Statement]:
        match statement:
            case If(condition, then, otherwise, location):
                test = self._expr(condition)
                if isinstance(test, Number):
                    yield from self.body(then if test.value else otherwise)
                    return
                first, second = self.body(then), self.body(otherwise)
                if first:
                    yield If(test, first, second, location)
                elif second:
                    yield If(Unary("not", test, DType.BOOL), second, (), location)
            case While(_, inner):
                yield replace(statement, body=self.body(inner) or inner)
            case _:
                yield with_expressions(statement, self._expr)

    def _expr(self, expr: Expr) -> Expr:
        return rewrite_once(expr, self._folded)

    def _folded(self, node: Expr) -> Expr:
        outcome = self.outcomes.get(node)
        if outcome is not None:
            return Number(DType.BOOL, outcome)
        match node:
            case Select(Number(_, value), then, otherwise):
                return then if value else otherwise
            case Unary("not", Number(_, value)):
                return Number(DType.BOOL, not value)
            case Binary("and", Number(_, value), other) | Binary("and", other, Number(_, value)):
                return other if value else Number(DType.BOOL, False)
            case Binary("or", Number(_, value), other) | Binary("or", other, Number(_, value)):
                return Number(DType.BOOL, True) if value else other
            case _:
                return node


def _without_unused(program: Program) -> Program:
    """Return a program that says what its statements use."""
    bodies = tuple(program_bodies(program))
    written = {name for body in bodies for name in targets_of(body)}
    read = {one.name for body in bodies for one in reads(body)}
    read |= {name for gather in program.gathers for name in (gather.field, gather.index)}

    def used(field: Field) -> Field:
        return replace(field, read=field.name in read, written=field.name in written)

    touched = read | written
    choices = tuple(one for one in program.choices if one.name in touched)
    unchosen = {one.name for one in program.choices} - {one.name for one in choices}
    return replace(
        program,
        fields=tuple(used(one) for one in program.fields if one.name not in unchosen),
        temporaries=tuple(one for one in program.temporaries if one.name in touched),
        choices=choices,
    )
