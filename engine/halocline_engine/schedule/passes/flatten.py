"""Turn an `If` into masked assignments where its statements cannot run in one loop nest.

After this, no `If` reads away from the point what it writes itself, none that writes a field runs
outside the domain, and a PARALLEL one that writes only temporaries is gone, so that these
temporaries can be renamed and recomputed. Both branches are pure, so evaluating them everywhere
changes no value. One that holds a `While`, or an assignment at a level, stays: the rules of
`analysis` keep it from reading away what it writes, and from writing fields outside the domain.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Expr,
    If,
    Read,
    Select,
    Statement,
    Unary,
    While,
)
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import accesses_of, statements, targets_of
from halocline_engine.schedule.stages import Draft, Names, Part, Stage

__all__ = ["flatten", "masked"]


def flatten(draft: Draft) -> Draft:
    """Return the draft with the conditionals flattened that need it."""
    names = Names(draft.temporaries)
    parts = tuple(
        Part(part.order, tuple(new for s in part.stages for new in _stage(s, part, draft, names)))
        for part in draft.parts
    )
    return Draft(draft.program, draft.facts, parts, names.types)


def _stage(stage: Stage, part: Part, draft: Draft, names: Names) -> Iterator[Stage]:
    statement = stage.statement
    if not isinstance(statement, If) or not _must_go(stage, statement, part.order, draft):
        yield stage
        return
    for assign in masked(statement, None, names):
        outside = assign.target in names.types
        yield Stage(stage.interval, stage.extent if outside else CENTRE, assign)


def _must_go(stage: Stage, statement: If, order: Order, draft: Draft) -> bool:
    if any(_is_rigid(inner) for inner in statements((statement,))):
        return False
    targets = targets_of((statement,))
    fields = [name for name in targets if name not in draft.temporaries]
    parallel = order is Order.PARALLEL
    return (
        (parallel and not fields)
        or (bool(fields) and stage.extent != CENTRE)
        or any(
            name in targets and (i, j, k if parallel else 0) != (0, 0, 0)
            for name, (i, j, k) in accesses_of((statement,))
        )
    )


def _is_rigid(statement: Statement) -> bool:
    """Whether a statement has no meaning as a value that is chosen."""
    return isinstance(statement, While) or (
        isinstance(statement, Assign) and statement.level is not None
    )


def masked(statement: If, outer: Expr | None, names: Names) -> Iterator[Assign]:
    """Yield the assignments of an `If`, each choosing between its value and the old one.

    With `outer`, they choose so only where that holds.
    """
    merged = _chosen(statement)
    if outer is None and merged is not None:
        yield from merged
        return
    name = names.fresh("mask", DType.BOOL)
    yield Assign(name, statement.condition, statement.location)
    mask = Read(name, (0, 0, 0), DType.BOOL)
    yield from _branch(statement.then, _both(outer, mask), names)
    if statement.otherwise:
        inverse = Unary("not", mask, DType.BOOL)
        yield from _branch(statement.otherwise, _both(outer, inverse), names)


def _branch(body: tuple[Statement, ...], mask: Expr, names: Names) -> Iterator[Assign]:
    for statement in body:
        if isinstance(statement, If):
            yield from masked(statement, mask, names)
        elif isinstance(statement, Assign):
            old = Read(statement.target, (0, 0, 0), statement.value.dtype)
            value = Select(mask, statement.value, old, statement.value.dtype)
            yield Assign(statement.target, value, statement.location)


def _both(outer: Expr | None, mask: Expr) -> Expr:
    return mask if outer is None else Binary("and", outer, mask, DType.BOOL)


def _chosen(statement: If) -> list[Assign] | None:
    """Return one assignment for an `If` that sets one name once in each branch, else None."""
    targets = targets_of((statement,))
    if len(targets) != 1:
        return None
    (target,) = targets
    values = [_single(body, target) for body in (statement.then, statement.otherwise)]
    then, otherwise = values
    if then is None or (otherwise is None and statement.otherwise):
        return None
    old = Read(target, (0, 0, 0), then.dtype)
    value = Select(statement.condition, then, otherwise or old, then.dtype)
    reads = accesses_of((Assign(target, value),))
    if any(name == target and offset != (0, 0, 0) for name, offset in reads):
        return None
    return [Assign(target, value, statement.location)]


def _single(body: tuple[Statement, ...], target: str) -> Expr | None:
    """Return the value that a body of one statement gives to its target."""
    if len(body) != 1:
        return None
    (statement,) = body
    if isinstance(statement, Assign):
        return statement.value
    if isinstance(statement, While):
        return None
    inner = _chosen(statement)
    return inner[0].value if inner is not None and inner[0].target == target else None
