"""Warnings about temporaries: those that nothing reads, and those that one branch alone assigns."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from halocline_engine.analysis.extents import analyse
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import (
    Assign,
    Computation,
    Expr,
    If,
    Program,
    Read,
    Select,
    Statement,
    While,
)
from halocline_engine.ir.walk import assignments, children, program_bodies, reads, reads_of
from halocline_engine.program_warning import ProgramWarning

__all__ = ["unassigned_temporaries", "unread_temporaries"]

#: How alike two names must be, of 1, and how long they are at least.
_ALIKE, _SHORTEST = 0.8, 3


def unread_temporaries(program: Program, facts: Facts) -> Iterator[ProgramWarning]:
    """Warn about temporaries that nothing reads, where a field may have been meant or is widened.

    Temporaries of functions are not the program's own, and `_` is meant to be read by nobody.
    """
    unread = _unread(program)
    own = {name for name in unread if "." not in name and name.strip("_")}
    if not own:
        return
    first: dict[str, Assign] = {}
    for one in assignments(chain.from_iterable(program_bodies(program))):
        if one.target in own:
            first.setdefault(one.target, one)
    misspelt = {name: near for name in first if (near := _near(name, program))}
    for name, near in misspelt.items():
        yield _warning(
            first[name],
            "unread",
            f"'{name}' is assigned but never read, so it is a temporary without use.",
            f"Did you mean the field '{near}'?",
        )
    needed = analyse(_without(program, unread))
    for name, one in first.items():
        fields = (read for read in reads_of(one.value) if read.name in facts.fields)
        widened = sorted({read.name for read in fields if _is_beyond(read, needed)})
        if widened and name not in misspelt:
            listed = ", ".join(f"'{field}'" for field in widened)
            yield _warning(
                one,
                "halo",
                f"'{name}' is never read, but makes the halo of {listed} wider, as in GT4Py.",
                "Remove the statement.",
            )


def unassigned_temporaries(program: Program) -> Iterator[ProgramWarning]:
    """Warn about temporaries that are read at all points, but assigned in one branch alone.

    Where the condition does not hold they are 0. Reads that are conditional themselves are passed
    over, as they may be so for the same reason.
    """
    names = {one.name for one in program.temporaries if "." not in one.name}
    always, sometimes = set[str](), dict[str, Assign]()
    for statement in chain.from_iterable(program_bodies(program)):
        whole = (statement.condition,) if isinstance(statement, If) else ()
        if isinstance(statement, Assign):
            whole = (statement.value,)
        for read in chain.from_iterable(_unconditional(each) for each in whole):
            first = sometimes.pop(read.name, None)
            if first is not None:
                yield _warning(
                    first,
                    "unassigned",
                    f"'{read.name}' is assigned here under a condition, but read at all points: it"
                    " is 0 where the condition does not hold, as in GT4Py.",
                    "Assign it before the condition, or in 'else' too.",
                )
        always |= _surely_assigned(statement)
        for one in assignments((statement,)):
            if one.target in names and one.target not in always:
                sometimes.setdefault(one.target, one)
        for name in always & sometimes.keys():
            del sometimes[name]


def _unconditional(expr: Expr) -> Iterator[Read]:
    """Yield the reads of an expression that no condition in it decides upon."""
    if isinstance(expr, Read):
        yield expr
    for inner in (expr.condition,) if isinstance(expr, Select) else children(expr):
        yield from _unconditional(inner)


def _surely_assigned(statement: Statement) -> set[str]:
    """Return the names that a statement assigns whatever its conditions are."""
    match statement:
        case Assign():
            return {statement.target}
        case If():
            branches = [
                {name for one in branch for name in _surely_assigned(one)}
                for branch in (statement.then, statement.otherwise)
            ]
            return branches[0] & branches[1]
        case While():
            return {one.target for one in assignments(statement.body)}


def _unread(program: Program) -> frozenset[str]:
    """Return the temporaries that nothing reads but what is not read itself."""
    names = {temporary.name for temporary in program.temporaries}
    unread: frozenset[str] = frozenset()
    while True:
        rest = _without(program, unread)
        read = {r.name for r in reads(chain.from_iterable(program_bodies(rest)))}
        found = frozenset(names - read)
        if found == unread:
            return found
        unread = found


def _without(program: Program, names: frozenset[str]) -> Program:
    """Return a program that does not assign to some temporaries."""
    if not names:
        return program
    computations: list[Computation] = []
    for computation in program.computations:
        blocks = [
            replace(block, body=kept)
            for block in computation.blocks
            if (kept := _kept(block.body, names))
        ]
        if blocks:
            computations.append(replace(computation, blocks=tuple(blocks)))
    return replace(program, computations=tuple(computations))


def _kept(body: tuple[Statement, ...], names: frozenset[str]) -> tuple[Statement, ...]:
    kept: list[Statement] = []
    for one in body:
        match one:
            case Assign():
                if one.target not in names:
                    kept.append(one)
            case If():
                then, otherwise = _kept(one.then, names), _kept(one.otherwise, names)
                if then or otherwise:
                    kept.append(replace(one, then=then, otherwise=otherwise))
            case While():
                kept.append(one)
    return tuple(kept)


def _is_beyond(read: Read, needed: Facts) -> bool:
    """Say whether a read at the point reaches further than what is needed of a field."""
    extents = needed.required(read.name)[:2]
    offsets = zip(read.offset, extents, strict=False)
    return any(not low <= offset <= high for offset, (low, high) in offsets)


def _near(name: str, program: Program) -> str:
    """Return the field whose name is almost this one, or ""; numbered names are told apart."""
    if len(name) < _SHORTEST:
        return ""
    bare = name.rstrip("0123456789")
    fields = [
        field.name
        for field in program.fields
        if field.name in program.arguments and field.name.rstrip("0123456789") != bare
    ]
    close = difflib.get_close_matches(name, fields, 1, _ALIKE)
    return close[0] if close else ""


def _warning(one: Assign, rule: str, message: str, hint: str) -> ProgramWarning:
    place = one.location
    return ProgramWarning(message, hint=hint, rule=rule, line=place.line, column=place.column)
