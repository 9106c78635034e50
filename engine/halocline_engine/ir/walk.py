"""Go through expressions and statements: the only place that knows where the children are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from operator import is_
from typing import NamedTuple, TypeAlias, assert_never

from halocline_engine.ir import nodes
from halocline_engine.ir.remember import remembered

__all__ = [
    "Access",
    "accesses_of",
    "assignments",
    "bodies_of",
    "children",
    "depth",
    "distinct",
    "expressions",
    "head",
    "irregular",
    "is_entangled",
    "is_uniform",
    "parameters_of",
    "program_bodies",
    "reads",
    "reads_of",
    "rewrite",
    "rewrite_body",
    "rewrite_once",
    "rewrite_statement",
    "size",
    "statements",
    "targets_of",
    "walk",
    "with_expressions",
]

#: A name and the offset it is read at.
Access: TypeAlias = tuple[str, nodes.Offset]
_Operation: TypeAlias = nodes.Unary | nodes.Binary | nodes.Call | nodes.Select | nodes.Cast


class _Contents(NamedTuple):
    """What is inside a statement: reads in text order, and distinct names and accesses."""

    reads: tuple[nodes.Read, ...]
    accesses: tuple[Access, ...]
    targets: tuple[str, ...]
    irregular: frozenset[str]


def children(expr: nodes.Expr) -> tuple[nodes.Expr, ...]:
    """Return the direct operands, from left to right."""
    # Compilers spend much of their time here: patterns that take nothing apart are twice as fast.
    match expr:
        case nodes.Read():
            return () if expr.level is None else (expr.level,)
        case nodes.Number() | nodes.Parameter():
            return ()
        case nodes.Binary():
            return (expr.left, expr.right)
        case nodes.Unary() | nodes.Cast():
            return (expr.operand,)
        case nodes.Call():
            return expr.arguments
        case nodes.Select():
            return (expr.condition, expr.then, expr.otherwise)
        case _:
            assert_never(expr)


def walk(expr: nodes.Expr) -> Iterator[nodes.Expr]:
    """Yield the expression and everything inside it, a parent before its operands.

    >>> from halocline_engine.ir.types import DType
    >>> cast = nodes.Cast(DType.INT8, nodes.Number(DType.BOOL, True))
    >>> [type(node).__name__ for node in walk(cast)]
    ['Cast', 'Number']
    """
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        below = children(node)
        if below:
            pending.extend(below[::-1])


def distinct(exprs: Iterable[nodes.Expr]) -> Iterator[nodes.Expr]:
    """Yield the expressions and everything inside them; equal ones once."""
    seen: set[nodes.Expr] = set()
    pending = list(exprs)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending.extend(children(node))


def depth(expr: nodes.Expr) -> int:
    """Return how many levels of operands an expression has, itself included."""
    levels, count = [expr], 0
    while levels:
        levels = [child for node in levels for child in children(node)]
        count += 1
    return count


def size(expr: nodes.Expr) -> int:
    """Return how many nodes an expression has, itself included.

    >>> from halocline_engine.ir.types import DType
    >>> size(nodes.Cast(DType.INT8, nodes.Number(DType.BOOL, True)))
    2
    """
    if isinstance(expr, nodes.Read | nodes.Number | nodes.Parameter):
        return 1 + sum(map(size, children(expr)))
    return _size_inside(expr)


@remembered
def _size_inside(expr: _Operation) -> int:
    return 1 + sum(map(size, children(expr)))


def is_uniform(expr: nodes.Expr) -> bool:
    """Whether an expression is arithmetic of numbers and scalars, the same at every point."""
    match expr:
        case nodes.Number() | nodes.Parameter():
            return True
        case nodes.Unary() | nodes.Binary() | nodes.Cast():
            return all(map(is_uniform, children(expr)))
        case _:
            return False


def parameters_of(expr: nodes.Expr) -> frozenset[str]:
    """Return the names of the scalars in an expression."""
    return frozenset(one.name for one in distinct((expr,)) if isinstance(one, nodes.Parameter))


def reads_of(expr: nodes.Expr) -> tuple[nodes.Read, ...]:
    """Return every read inside an expression, from left to right, repeated as in the text."""
    match expr:
        case nodes.Read():
            return (expr,) if expr.level is None else (expr, *reads_of(expr.level))
        case nodes.Number() | nodes.Parameter():
            return ()
        case _:
            return _reads_inside(expr)


@remembered
def _reads_inside(expr: _Operation) -> tuple[nodes.Read, ...]:
    return tuple(node for node in walk(expr) if isinstance(node, nodes.Read))


def bodies_of(statement: nodes.Statement) -> tuple[tuple[nodes.Statement, ...], ...]:
    """Return the bodies that a statement holds, in text order."""
    match statement:
        case nodes.Assign():
            return ()
        case nodes.If(_, then, otherwise):
            return (then, otherwise)
        case nodes.While(_, body):
            return (body,)
        case _:
            assert_never(statement)


def head(statement: nodes.Statement) -> tuple[nodes.Expr, ...]:
    """Return the expressions of a statement, without those of what it holds."""
    match statement:
        case nodes.Assign(_, value, _, level):
            return (value,) if level is None else (level, value)
        case nodes.If(condition) | nodes.While(condition):
            return (condition,)
        case _:
            assert_never(statement)


def statements(body: Iterable[nodes.Statement]) -> Iterator[nodes.Statement]:
    """Yield every statement of a body in text order, one that holds others before those."""
    for statement in body:
        yield statement
        if not isinstance(statement, nodes.Assign):
            for inner in bodies_of(statement):
                yield from statements(inner)


def assignments(body: Iterable[nodes.Statement]) -> Iterator[nodes.Assign]:
    """Yield every assignment of a body in text order, nested ones included."""
    for statement in body:
        if isinstance(statement, nodes.Assign):
            yield statement
        else:
            for inner in bodies_of(statement):
                yield from assignments(inner)


def expressions(body: Iterable[nodes.Statement]) -> Iterator[nodes.Expr]:
    """Yield every value and condition of a body in text order, nested ones included."""
    for statement in statements(body):
        yield from head(statement)


@remembered
def _contents(statement: nodes.Statement) -> _Contents:
    inner = [_contents(one) for body in bodies_of(statement) for one in body]
    own = (read for expr in head(statement) for read in reads_of(expr))
    every = (*own, *(read for one in inner for read in one.reads))
    targets = {name: None for one in inner for name in one.targets}
    names = {read.name for read in every if read.offset[2] == nodes.ANY_LEVEL}
    if isinstance(statement, nodes.Assign):
        targets[statement.target] = None
        if statement.level is not None:
            names.add(statement.target)
    return _Contents(
        reads=every,
        accesses=tuple({(read.name, read.offset): None for read in every}),
        targets=tuple(targets),
        irregular=frozenset(names).union(*(one.irregular for one in inner)),
    )


def irregular(body: Iterable[nodes.Statement]) -> frozenset[str]:
    """Return the names that a body reads or assigns at levels that only a run knows."""
    return frozenset[str]().union(*(_contents(statement).irregular for statement in body))


def reads(body: Iterable[nodes.Statement]) -> Iterator[nodes.Read]:
    """Yield every read of a body in text order, those of conditions and nested bodies included."""
    return (read for statement in body for read in _contents(statement).reads)


def accesses_of(body: Iterable[nodes.Statement]) -> tuple[Access, ...]:
    """Return the distinct reads of a body, nested ones included, in order of appearance."""
    return tuple({access: None for one in body for access in _contents(one).accesses})


def targets_of(body: Iterable[nodes.Statement]) -> tuple[str, ...]:
    """Return the distinct names that a body assigns, nested ones included, in order."""
    return tuple({target: None for one in body for target in _contents(one).targets})


def is_entangled(statement: nodes.Statement, temporaries: Set[str]) -> bool:
    """Whether one `If` or `While` assigns a temporary and reads it at a horizontal offset.

    Its statements then need each other's neighbours, so it cannot run as one statement.
    """
    if isinstance(statement, nodes.Assign):
        return False
    targets = set(targets_of((statement,))) & temporaries
    return any(r.name in targets and r.offset[:2] != (0, 0) for r in reads((statement,)))


def _same(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    """Whether two tuples hold the very same objects."""
    return all(map(is_, left, right))


def _with_children(expr: nodes.Expr, new: tuple[nodes.Expr, ...]) -> nodes.Expr:
    """Return the expression with other operands, as many as it has."""
    # Programs are rewritten often, and `dataclasses.replace` takes three times as long.
    match expr:
        case nodes.Number() | nodes.Parameter():
            return expr
        case nodes.Read():
            return nodes.Read(expr.name, expr.offset, expr.dtype, new[0]) if new else expr
        case nodes.Unary():
            return nodes.Unary(expr.operator, new[0], expr.dtype)
        case nodes.Cast():
            return nodes.Cast(expr.dtype, new[0])
        case nodes.Binary():
            return nodes.Binary(expr.operator, new[0], new[1], expr.dtype)
        case nodes.Call():
            return nodes.Call(expr.function, new, expr.dtype)
        case nodes.Select():
            return nodes.Select(new[0], new[1], new[2], expr.dtype)
        case _:
            assert_never(expr)


def rewrite(expr: nodes.Expr, change: Callable[[nodes.Expr], nodes.Expr]) -> nodes.Expr:
    """Return the expression with `change` applied to every node, operands first.

    Whatever does not change is shared with the original, so `rewrite(e, f) is e` where `f` returns
    each node as it is.
    """
    old = children(expr)
    if not old:
        return change(expr)
    new = tuple([rewrite(child, change) for child in old])
    return change(expr if _same(old, new) else _with_children(expr, new))


def rewrite_once(expr: nodes.Expr, change: Callable[[nodes.Expr], nodes.Expr]) -> nodes.Expr:
    """Return the expression with `change` applied to every different node, operands first.

    What `change` returns depends on the node alone. Equal operands, of which substitution makes
    many, take no time again.
    """
    done: dict[nodes.Expr, nodes.Expr] = {}

    def rewritten(one: nodes.Expr) -> nodes.Expr:
        old = children(one)
        if not old:
            return change(one)
        if one not in done:
            new = tuple([rewritten(child) for child in old])
            done[one] = change(one if _same(old, new) else _with_children(one, new))
        return done[one]

    return rewritten(expr)


def rewrite_statement(
    statement: nodes.Statement, change: Callable[[nodes.Expr], nodes.Expr]
) -> nodes.Statement:
    """Return the statement with `change` applied to every expression node, operands first."""
    return with_expressions(statement, lambda expr: rewrite(expr, change))


def rewrite_body(
    body: tuple[nodes.Statement, ...], change: Callable[[nodes.Expr], nodes.Expr]
) -> tuple[nodes.Statement, ...]:
    """Return a body with `change` applied to every expression node, operands first."""
    return _with_all(body, lambda expr: rewrite(expr, change))


def with_expressions(
    statement: nodes.Statement, change: Callable[[nodes.Expr], nodes.Expr]
) -> nodes.Statement:
    """Return the statement with `change` applied to its values and conditions as a whole."""
    match statement:
        case nodes.Assign(_, value, _, level):
            new = change(value)
            at = None if level is None else change(level)
            same = new is value and at is level
            return statement if same else replace(statement, value=new, level=at)
        case nodes.While(condition, body):
            test, inner = change(condition), _with_all(body, change)
            same = test is condition and inner is body
            return statement if same else replace(statement, condition=test, body=inner)
        case nodes.If(condition, then, otherwise):
            test, inner, other = (
                change(condition),
                _with_all(then, change),
                _with_all(otherwise, change),
            )
            same = test is condition and inner is then and other is otherwise
            return (
                statement
                if same
                else replace(statement, condition=test, then=inner, otherwise=other)
            )
        case _:
            assert_never(statement)


def _with_all(
    body: tuple[nodes.Statement, ...], change: Callable[[nodes.Expr], nodes.Expr]
) -> tuple[nodes.Statement, ...]:
    new = tuple(with_expressions(statement, change) for statement in body)
    return body if _same(body, new) else new


def program_bodies(program: nodes.Program) -> Iterator[tuple[nodes.Statement, ...]]:
    """Yield the body of every block in text order."""
    for computation in program.computations:
        for block in computation.blocks:
            yield block.body
