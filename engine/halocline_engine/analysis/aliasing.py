"""Fields of a program that one array may stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, assert_never

from halocline_engine.ir.extent import CENTRE, Facts
from halocline_engine.ir.nodes import Assign, If, Program, Statement, While
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import irregular, program_bodies, reads, reads_of, targets_of

__all__ = ["may_share"]

#: The target of an assignment, and the names that its value and the conditions around it read.
_Flow: TypeAlias = tuple[str, frozenset[str]]


def may_share(program: Program, facts: Facts, *, read: str, written: str) -> bool:
    """Return whether the field `written` may be the same array as the field `read`.

    Targets may compute a temporary again where it is needed, and may change the order of statements
    that do not depend on each other. So this is true only where

    * `read` is not written, both fields have all axes, and both are needed at the point alone;
    * what is made from `read` serves for `written` alone;
    * each level assigns `written` once, and after that needs nothing that is made from `read`.
    """
    fields = {field.name: field for field in program.fields}
    if fields[read].written or any(fields[f].axes != tuple(Axis) for f in (read, written)):
        return False
    flows = [
        [list(_flows(block.body, frozenset())) for block in computation.blocks]
        for computation in program.computations
    ]
    made = _made_from(
        read, written, [flow for blocks in flows for block in blocks for flow in block]
    )
    if (made - {read}) & fields.keys() or not _is_centred(program, facts, made | {written}):
        return False
    last = max(n for n, blocks in enumerate(flows) if any(_targets(b, written) for b in blocks))
    return all(
        _is_last(block, made, written) if number == last else not _targets(block, written)
        for number, blocks in enumerate(flows)
        for block in blocks
    ) and not any(
        names & made for blocks in flows[last + 1 :] for block in blocks for _, names in block
    )


def _flows(body: tuple[Statement, ...], around: frozenset[str]) -> Iterator[_Flow]:
    """Yield what flows into each assignment, in text order."""
    for statement in body:
        match statement:
            case Assign(target):
                yield target, around | {read.name for read in reads((statement,))}
            case While(_, inner):
                # A turn reads what the turn before it wrote.
                for target in targets_of(inner):
                    yield target, around | {read.name for read in reads((statement,))}
                    yield target, around | {read.name for read in reads((statement,))}
            case If(condition, then, otherwise):
                inside = around | {read.name for read in reads_of(condition)}
                yield from _flows(then, inside)
                yield from _flows(otherwise, inside)
            case _:
                assert_never(statement)


def _made_from(read: str, written: str, flows: list[_Flow]) -> frozenset[str]:
    """Return `read` and the names that are made from it, but for what `written` makes."""
    made = frozenset({read})
    while True:
        new = made | {target for target, names in flows if names & made and target != written}
        if new == made:
            return made
        made = new


def _is_centred(program: Program, facts: Facts, names: frozenset[str]) -> bool:
    """Whether fields are needed on the domain alone and no name is read beside the point."""
    fields = names & facts.fields.keys()
    return all(facts.fields[name][:2] == CENTRE for name in fields) and not any(
        names & irregular(body)
        or any(read.name in names and read.offset != (0, 0, 0) for read in reads(body))
        for body in program_bodies(program)
    )


def _targets(block: list[_Flow], name: str) -> bool:
    return any(target == name for target, _ in block)


def _is_last(block: list[_Flow], made: frozenset[str], written: str) -> bool:
    """Whether a block assigns `written` at most once, and then uses nothing of what is made."""
    places = [number for number, (target, _) in enumerate(block) if target == written]
    if not places:
        return True
    after = block[places[0] + 1 :]
    return len(places) == 1 and not any(names & made for _, names in after)
