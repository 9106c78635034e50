"""Go through expressions and statements: the only place that knows where the children are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from typing import TypeAlias, assert_never

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    If,
    Number,
    Offset,
    Parameter,
    Program,
    Read,
    Select,
    Statement,
    Unary,
)

__all__ = [
    "Access",
    "accesses_of",
    "assignments",
    "children",
    "expressions",
    "is_entangled",
    "program_bodies",
    "reads",
    "reads_of",
    "rewrite",
    "rewrite_body",
    "rewrite_statement",
    "statements",
    "targets_of",
    "walk",
]

#: A name and the offset it is read at.
Access: TypeAlias = tuple[str, Offset]


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands, from left to right."""
    # Compilers spend much of their time here: patterns that take nothing apart are twice as fast.
    match expr:
        case Read() | Number() | Parameter():
            return ()
        case Binary():
            return (expr.left, expr.right)
        case Unary() | Cast():
            return (expr.operand,)
        case Call():
            return expr.arguments
        case Select():
            return (expr.condition, expr.then, expr.otherwise)
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and everything inside it, a parent before its operands.

    >>> from halocline_engine.ir.types import DType
    >>> [type(node).__name__ for node in walk(Cast(DType.INT8, Number(DType.BOOL, True)))]
    ['Cast', 'Number']
    """
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        below = children(node)
        if below:
            pending.extend(below[::-1])


def reads_of(expr: Expr) -> Iterator[Read]:
    """Yield every read inside an expression, from left to right, repeated as in the text."""
    return (node for node in walk(expr) if isinstance(node, Read))


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield every statement of a body in text order, an `If` before what it holds."""
    for statement in body:
        yield statement
        match statement:
            case Assign():
                pass
            case If(_, then, otherwise):
                yield from statements(then)
                yield from statements(otherwise)
            case _:
                assert_never(statement)


def assignments(body: Iterable[Statement]) -> Iterator[Assign]:
    """Yield every assignment of a body in text order, nested ones included."""
    return (statement for statement in statements(body) if isinstance(statement, Assign))


def expressions(body: Iterable[Statement]) -> Iterator[Expr]:
    """Yield every value and condition of a body in text order, nested ones included."""
    for statement in statements(body):
        match statement:
            case Assign(_, value):
                yield value
            case If(condition):
                yield condition
            case _:
                assert_never(statement)


def reads(body: Iterable[Statement]) -> Iterator[Read]:
    """Yield every read of a body in text order, those of conditions and nested bodies included."""
    return (read for expr in expressions(body) for read in reads_of(expr))


def accesses_of(body: Iterable[Statement]) -> tuple[Access, ...]:
    """Return the distinct reads of a body, nested ones included, in order of appearance."""
    return tuple({(read.name, read.offset): None for read in reads(body)})


def targets_of(body: Iterable[Statement]) -> tuple[str, ...]:
    """Return the distinct names that a body assigns, nested ones included, in order."""
    return tuple({assign.target: None for assign in assignments(body)})


def is_entangled(statement: Statement, temporaries: Set[str]) -> bool:
    """Whether one `If` assigns a temporary and reads it at a horizontal offset.

    Its statements then need each other's neighbours, so it cannot run as one statement.
    """
    if isinstance(statement, Assign):
        return False
    targets = set(targets_of((statement,))) & temporaries
    return any(r.name in targets and r.offset[:2] != (0, 0) for r in reads((statement,)))


def _same(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    """Whether two tuples hold the very same objects."""
    return all(a is b for a, b in zip(left, right, strict=True))


def _with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return the expression with other operands, as many as it has."""
    match expr:
        case Number() | Read() | Parameter():
            return expr
        case Unary() | Cast():
            return replace(expr, operand=new[0])
        case Binary():
            return replace(expr, left=new[0], right=new[1])
        case Call():
            return replace(expr, arguments=new)
        case Select():
            return replace(expr, condition=new[0], then=new[1], otherwise=new[2])
        case _:
            assert_never(expr)


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with `change` applied to every node, operands first.

    Whatever does not change is shared with the original, so `rewrite(e, f) is e` where `f` returns
    each node as it is.
    """
    old = children(expr)
    new = tuple(rewrite(child, change) for child in old)
    return change(expr if _same(old, new) else _with_children(expr, new))


def rewrite_statement(statement: Statement, change: Callable[[Expr], Expr]) -> Statement:
    """Return the statement with `change` applied to every expression node, operands first."""
    match statement:
        case Assign(_, value):
            new = rewrite(value, change)
            return statement if new is value else replace(statement, value=new)
        case If(condition, then, otherwise):
            new_condition = rewrite(condition, change)
            new_then = rewrite_body(then, change)
            new_otherwise = rewrite_body(otherwise, change)
            if new_condition is condition and new_then is then and new_otherwise is otherwise:
                return statement
            return replace(
                statement, condition=new_condition, then=new_then, otherwise=new_otherwise
            )
        case _:
            assert_never(statement)


def rewrite_body(
    body: tuple[Statement, ...], change: Callable[[Expr], Expr]
) -> tuple[Statement, ...]:
    """Return a body with `change` applied to every expression node, operands first."""
    new = tuple(rewrite_statement(statement, change) for statement in body)
    return body if _same(body, new) else new


def program_bodies(program: Program) -> Iterator[tuple[Statement, ...]]:
    """Yield the body of every block in text order."""
    for computation in program.computations:
        for block in computation.blocks:
            yield block.body
