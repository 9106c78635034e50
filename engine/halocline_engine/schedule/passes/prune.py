"""Drop what no field depends on.

After this, every statement assigns a field, or a temporary that some such statement needs. The
facts stay as they are: what a dropped statement read still counts in the extents of the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from halocline_engine.ir.nodes import Assign, If, Statement, Unary, While
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import accesses_of, bodies_of
from halocline_engine.schedule.stages import Draft, Part, Stage

__all__ = ["needed", "prune"]


def prune(draft: Draft) -> Draft:
    """Return the draft without dead statements and without the temporaries that they alone had."""
    alive = needed(draft)
    parts = [
        Part(part.order, tuple(new for stage in part.stages for new in _stage(stage, alive)))
        for part in draft.parts
    ]
    temporaries = {name: dtype for name, dtype in draft.temporaries.items() if name in alive}
    kept = tuple(part for part in parts if part.stages)
    return Draft(draft.program, draft.facts, kept, temporaries)


def needed(draft: Draft) -> Set[str]:
    """Return the fields that are written and all names that they depend on."""
    sources: dict[str, set[str]] = {}
    for part in draft.parts:
        for stage in part.stages:
            for target, reads in _flows_of(stage):
                sources.setdefault(target, set()).update(reads)
    waiting = [name for name in sources if name not in draft.temporaries]
    found: set[str] = set(waiting)
    while waiting:
        new = sources.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _flows_of(stage: Stage) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(stage.statement, Assign):  # its reads are known
        yield stage.statement.target, tuple(name for name, _ in stage.reads)
    else:
        yield from _flows(stage.statement, ())


def _flows(statement: Statement, outer: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each target with the names that its value depends on, conditions included."""
    if isinstance(statement, Assign):
        names = tuple(name for name, _ in accesses_of((statement,)))
        yield statement.target, (*outer, *names)
        return
    heads = accesses_of((Assign("", statement.condition),))
    names = (*outer, *(name for name, _ in heads))
    for inner in (one for body in bodies_of(statement) for one in body):
        yield from _flows(inner, names)


def _stage(stage: Stage, alive: Set[str]) -> Iterator[Stage]:
    if all(name in alive for name in stage.targets):
        yield stage
        return
    for statement in _body((stage.statement,), alive):
        yield Stage(stage.interval, stage.extent, statement)


def _body(body: tuple[Statement, ...], alive: Set[str]) -> tuple[Statement, ...]:
    kept: list[Statement] = []
    for statement in body:
        if isinstance(statement, While):
            inner = _body(statement.body, alive)
            if inner:
                kept.append(replace(statement, body=inner))
        elif isinstance(statement, If):
            then, otherwise = _body(statement.then, alive), _body(statement.otherwise, alive)
            if then:
                kept.append(replace(statement, then=then, otherwise=otherwise))
            elif otherwise:
                turned = Unary("not", statement.condition, DType.BOOL)
                kept.append(replace(statement, condition=turned, then=otherwise, otherwise=()))
        elif statement.target in alive:
            kept.append(statement)
    return tuple(kept)
