"""What only points of a few rows or columns do, because it is inside narrow regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import assert_never

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Expr,
    If,
    Number,
    Program,
    Read,
    Select,
    Statement,
    Unary,
    While,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import (
    Access,
    assignments,
    bodies_of,
    children,
    head,
    reads,
    rewrite_once,
    with_expressions,
)

__all__ = ["is_rare", "narrow_masks", "rare_reads", "usual_body"]

_NEVER = Number(DType.BOOL, False)


def narrow_masks(program: Program) -> frozenset[str]:
    """Return the masks that hold at a number of rows or columns which no domain changes."""
    return frozenset(
        position.name
        for position in program.positions
        if position.span is not None
        and position.axis is not Axis.K
        and position.span.start.from_end == position.span.end.from_end
    )


def rare_reads(body: Sequence[Statement], narrow: Set[str]) -> frozenset[Access]:
    """Return the reads of a body that are all under conditions which need one of the masks.

    Registers may stand for masks and conditions.
    """
    if not narrow:
        return frozenset()
    times = Counter(assign.target for assign in assignments(body))
    found = _Found({*narrow} - times.keys())
    for statement in body:
        found.visit(statement, rare=False)
        if isinstance(statement, Assign) and times[statement.target] == 1:
            found.name(statement)
    return frozenset(found.rare - found.usual)


class _Found:
    """Reads that are under such a condition, and those that are not."""

    def __init__(self, masks: set[str]) -> None:
        self._masks = masks
        self.rare: set[Access] = set()
        self.usual: set[Access] = set()

    def name(self, statement: Assign) -> None:
        """Take the target for a mask if the value is one."""
        if self._is_rare(statement.value):
            self._masks.add(statement.target)

    def visit(self, statement: Statement, *, rare: bool) -> None:
        """Add the reads of a statement."""
        for expr in head(statement):
            self._look(expr, rare=rare)
        under = isinstance(statement, If) and self._is_rare(statement.condition)
        for first, body in zip((True, False), bodies_of(statement), strict=False):
            for inner in body:
                self.visit(inner, rare=rare or (under and first))

    def _look(self, value: Expr, *, rare: bool) -> None:
        pending = [(value, rare)]
        while pending:
            expr, under = pending.pop()
            if isinstance(expr, Read):
                (self.rare if under else self.usual).add((expr.name, expr.offset))
            if isinstance(expr, Select) and self._is_rare(expr.condition):
                pending += [(expr.condition, under), (expr.then, True), (expr.otherwise, under)]
            else:
                pending += [(child, under) for child in children(expr)]

    def _is_rare(self, condition: Expr) -> bool:
        return is_rare(condition, self._masks)


def is_rare(condition: Expr, masks: Set[str]) -> bool:
    """Whether a condition needs one of the masks."""
    match condition:
        case Read(name):
            return name in masks
        case Binary("and", left, right):
            return is_rare(left, masks) or is_rare(right, masks)
        case Binary("or", left, right):
            return is_rare(left, masks) and is_rare(right, masks)
        case _:
            return False


def usual_body(
    body: Sequence[Statement], masks: Set[str], registers: Set[str]
) -> tuple[Statement, ...]:
    """Return what a body does where none of the masks holds.

    What keeps its value is not assigned, nor are registers that are not read any more, as nothing
    else reads them.
    """
    times = Counter(assign.target for assign in assignments(body))
    once = {name for name in registers if times[name] == 1}
    left = tuple(_Usual({*masks} - times.keys(), once).statements(body, outermost=True))
    while True:
        unread = registers - {read.name for read in reads(left)}
        kept = tuple(s for s in left if not (isinstance(s, Assign) and s.target in unread))
        if kept == left:
            return left
        left = kept


class _Usual:
    """Leaves out of statements what masks and registers that never hold would do."""

    def __init__(self, never: set[str], once: Set[str]) -> None:
        self._never, self._once = never, once

    def statements(self, body: Sequence[Statement], *, outermost: bool) -> Iterator[Statement]:
        """Yield what is left of statements."""
        for statement in body:
            new = with_expressions(statement, self._value)
            match new:
                case Assign(target, value) if (
                    outermost and value == _NEVER and target in self._once
                ):
                    self._never.add(target)
                case Assign(target, value, _, level):
                    if level is not None or not _is_same(value, target):
                        yield new
                case If(Number(_, holds), then, otherwise):
                    yield from self.statements(then if holds else otherwise, outermost=outermost)
                case If():
                    then, otherwise = (
                        tuple(self.statements(one, outermost=False)) for one in bodies_of(new)
                    )
                    if then:
                        yield replace(new, then=then, otherwise=otherwise)
                    elif otherwise:
                        opposite = Unary("not", new.condition, DType.BOOL)
                        yield If(opposite, otherwise, (), new.location)
                case While():
                    yield new
                case _:
                    assert_never(new)

    def _value(self, value: Expr) -> Expr:
        return rewrite_once(value, self._node)

    def _node(self, expr: Expr) -> Expr:
        match expr:
            case Read(name, _, DType.BOOL) if name in self._never:
                return _NEVER
            case Binary("and", Number(_, holds), other) | Binary("and", other, Number(_, holds)):
                return other if holds else _NEVER
            case Binary("or", Number(_, holds), other) | Binary("or", other, Number(_, holds)):
                return replace(_NEVER, value=True) if holds else other
            case Unary("not", Number(_, holds)):
                return replace(_NEVER, value=not holds)
            case Select(Number(_, holds), then, otherwise):
                return then if holds else otherwise
            case _:
                return expr


def _is_same(value: Expr, target: str) -> bool:
    """Whether a value is what the target holds at the point."""
    return isinstance(value, Read) and value == Read(target, (0, 0, 0), value.dtype)
