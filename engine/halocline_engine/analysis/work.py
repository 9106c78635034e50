"""Compulsory bytes and floating-point operations of a program, counted from its IR.

Bytes: each level of a field that is read before the program surely assigned it comes in once, and
each level that is assigned goes out once; halos do not count, and where an index of the run chooses
a component of an array, one of them does. Operations: each expression once for
each point of the domain, of the two sides of a branch the longer one, of a loop as many turns as
are given for it, which were measured, and otherwise one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from types import MappingProxyType
from typing import assert_never

from halocline_engine.ir.nodes import (
    ARITHMETIC,
    Assign,
    Binary,
    Block,
    Call,
    Computation,
    Expr,
    Field,
    If,
    Program,
    Read,
    Select,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import (
    assignments,
    bodies_of,
    children,
    head,
    reads,
    rewrite_statement,
    targets_of,
)

__all__ = ["Operation", "Work", "work_of"]

_LIGHT = frozenset(("abs", "min", "max", "floor", "ceil", "trunc", "round"))
_FLOATING = (DType.FLOAT32, DType.FLOAT64)


class Operation(Enum):
    """Kinds of operations that differ much in how many a device does in a second."""

    PLAIN = "plain"
    DIVISION = "division"
    FUNCTION = "function"


@dataclass(frozen=True)
class Work:
    """Work of a call: bytes that it moves, and operations of each kind."""

    bytes: int
    operations: Counter[Operation]


def work_of(
    program: Program,
    domain: tuple[int, int, int],
    turns: Mapping[While, float] = MappingProxyType({}),
) -> Work:
    """Return the work of a call on a domain.

    `turns` says how often loops turn at a point, on average of all points that get there.
    """
    levels = domain[2]
    loaded: dict[str, set[int]] = {}
    stored: dict[str, set[int]] = {}
    sure: dict[str, set[int]] = {}
    counted: dict[Operation, float] = {}
    flat = {field.name for field in program.fields if Axis.K not in field.axes}
    for does, level in _runs(program, levels, turns):
        for name, away in does.reads:
            at = 0 if name in flat else level + away
            if at not in sure.get(name, set()):
                loaded.setdefault(name, set()).add(at)
        for name in does.assigned:
            stored.setdefault(name, set()).add(0 if name in flat else level)
        for name in does.surely:
            sure.setdefault(name, set()).add(0 if name in flat else level)
        for kind, number in does.operations.items():
            counted[kind] = counted.get(kind, 0) + number * domain[0] * domain[1]
    fields = [field for field in program.fields if field.name not in program.made]
    moved = sum(
        _plane(field, domain)
        * field.dtype.itemsize
        * (len(_inside(field, loaded, levels)) + len(stored.get(field.name, ())))
        for field in fields
    )
    return Work(moved, Counter({kind: round(number) for kind, number in counted.items()}))


def _chosen(statement: Statement) -> Statement:
    """Return a statement that touches one component of an array where one is chosen."""
    match statement:
        case If(_, then, otherwise) if _array({*targets_of(then), *targets_of(otherwise)}):
            return replace(statement, then=tuple(map(_chosen, then)), otherwise=())
        case If(_, then, otherwise):
            return replace(
                statement, then=tuple(map(_chosen, then)), otherwise=tuple(map(_chosen, otherwise))
            )
        case While(_, body):
            return replace(statement, body=tuple(map(_chosen, body)))
        case _:
            return rewrite_statement(statement, _one)


def _one(expr: Expr) -> Expr:
    """Return the first of two components of an array that a condition chooses between."""
    match expr:
        case Select(_, Read(name=one) as then, Read(name=two)) if _array({one, two}):
            return then
        case _:
            return expr


def _array(names: Set[str]) -> bool:
    """Whether names are components of one array."""
    return (
        len(names) > 1
        and all("." in name for name in names)
        and len({name.partition(".")[0] for name in names}) == 1
    )


def _inside(field: Field, loaded: dict[str, set[int]], levels: int) -> set[int]:
    return {level for level in loaded.get(field.name, ()) if 0 <= level < levels}


def _plane(field: Field, domain: tuple[int, int, int]) -> int:
    """Return the points of a level of a field."""
    sizes = zip(Axis, domain, strict=True)
    return prod(size for axis, size in sizes if axis in field.axes and axis is not Axis.K)


@dataclass(frozen=True)
class _Does:
    """What a statement reads, by name and levels away, what it assigns, and what it computes."""

    reads: frozenset[tuple[str, int]]
    assigned: frozenset[str]
    surely: frozenset[str]
    operations: Mapping[Operation, float]

    @staticmethod
    def of(statement: Statement, turns: Mapping[While, float]) -> _Does:
        body = (_chosen(statement),)
        return _Does(
            # What is read at a level of the run is counted as one level for each.
            frozenset((r.name, r.offset[2] if r.level is None else 0) for r in reads(body)),
            frozenset(found.target for found in assignments(body)),
            frozenset(_surely(body)),
            _operations((statement,), turns, 1),
        )


def _runs(
    program: Program, levels: int, turns: Mapping[While, float]
) -> Iterator[tuple[_Does, int]]:
    """Yield each statement on each level, in the order of execution."""
    for computation in program.computations:
        for block in computation.blocks:
            yield from _block_runs(computation, block, levels, turns)


def _block_runs(
    computation: Computation, block: Block, levels: int, turns: Mapping[While, float]
) -> Iterator[tuple[_Does, int]]:
    found = range(block.interval.start.level(levels), block.interval.end.level(levels))
    body = [_Does.of(statement, turns) for statement in block.body]
    if computation.order is Order.PARALLEL:
        yield from ((does, level) for does in body for level in found)
        return
    ordered = found if computation.order is Order.FORWARD else reversed(found)
    yield from ((does, level) for level in ordered for does in body)


def _surely(body: Iterable[Statement]) -> set[str]:
    """Return the names that a body assigns whatever its conditions are."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case If(_, then, otherwise):
                names |= _surely(then) & _surely(otherwise)
            case Assign(target, _, _, None):
                names.add(target)
            case Assign() | While():
                pass
            case _:
                assert_never(statement)
    return names


def _operations(
    body: Iterable[Statement], turns: Mapping[While, float], times: float
) -> dict[Operation, float]:
    """Return the operations of a body that a point runs so many times."""
    counted: dict[Operation, float] = {}
    for statement in body:
        # What is measured of a loop are all its turns at a point, whatever it stands in.
        again = turns.get(statement, times) if isinstance(statement, While) else times
        tests = times + again if statement in turns else times
        for expr in head(statement):
            for kind, number in _counted(expr).items():
                counted[kind] = counted.get(kind, 0) + number * tests
        sides = [_operations(inner, turns, again) for inner in bodies_of(statement)]
        if sides:
            for kind, number in max(sides, key=lambda side: sum(side.values())).items():
                counted[kind] = counted.get(kind, 0) + number
    return counted


def _longer(sides: Iterable[Counter[Operation]]) -> Counter[Operation]:
    nothing: Counter[Operation] = Counter()
    return max((nothing, *sides), key=lambda side: side.total())


def _counted(expr: Expr) -> Counter[Operation]:
    if isinstance(expr, Select):
        sides = (_counted(expr.then), _counted(expr.otherwise))
        return _counted(expr.condition) + _longer(sides)
    counted: Counter[Operation] = Counter()
    for child in children(expr):
        counted += _counted(child)
    kind = _kind(expr)
    if kind is not None:
        counted[kind] += 1
    return counted


def _kind(expr: Expr) -> Operation | None:
    match expr:
        case Binary(operator=operator, dtype=dtype) if operator in ARITHMETIC:
            if dtype not in _FLOATING:
                return None
            return Operation.DIVISION if operator in "/%" else Operation.PLAIN
        case Call(function=function, dtype=dtype) if dtype in _FLOATING:
            if function == "sqrt":
                return Operation.DIVISION
            return Operation.PLAIN if function in _LIGHT else Operation.FUNCTION
        case _:
            return None
