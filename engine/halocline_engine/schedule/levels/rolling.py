"""Columns that a thread climbs level by level: how long it keeps what it made and loaded.

Where elements lie along I, a thread has its columns for itself, and what levels need of one another
stays in its registers: each value is made once, at the highest level that anything reads it on, and
kept in a ring until the last reader has passed. See `levels` for what is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Read
from halocline_engine.schedule.levels.exchange import LevelPlan, Node
from halocline_engine.schedule.levels.terms import Ref

__all__ = ["Ring", "Rings", "rings_of"]


@dataclass(frozen=True, slots=True)
class Ring:
    """The last values of a term: the newest is `newest` levels above the one at hand.

    `start` is the first step that makes one, counted from a block's first level, and `levels` are
    those that it may be made for.
    """

    newest: int
    size: int
    start: int
    levels: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Rings:
    """Values that a thread keeps while it climbs, by the numbers of terms.

    `nodes` are made in the order of the plan's, `streams` are loaded. Steps begin `start` levels
    below a block's own. On the levels of `steady` every step does the same, with the results of the
    section `rows`.
    """

    plan: LevelPlan
    nodes: Mapping[int, Ring]
    streams: Mapping[int, Ring]
    start: int
    steady: Range
    rows: int

    def node(self, ref: Ref, level: int) -> int | None:
        """Return how old a node's value is that a user `level` levels above reads, or None."""
        found = self.plan.node_of(ref)
        return None if found is None else _age(self.nodes.get(found.term), level + ref[1])

    def stream(self, ref: Ref, level: int) -> int | None:
        """Return how old the loaded element is that a user reads, or None if it is not kept."""
        return _age(self.streams.get(ref[0]), level + ref[1])


def rings_of(plan: LevelPlan) -> Rings:
    """Return what a thread keeps that does what the plan says, one level after the other."""
    made = [node for node in plan.nodes if not isinstance(plan.terms[node.term].node, Read)]
    users = list(_users(plan, made))
    nodes: dict[int, Ring] = {}
    streams: dict[int, Ring] = {}
    starts: dict[int, int] = {}
    for node in reversed(made):
        nodes[node.term] = _ring(node, users, starts)
        starts[node.term] = nodes[node.term].start
    for term, value in enumerate(plan.terms):
        if isinstance(value.node, Read) and not value.invariant:
            ring = _stream(term, users, starts)
            if ring is not None:
                streams[term] = ring
    rows = max(range(len(plan.rows)), key=lambda n: _length(plan.rows[n].levels))
    steady = plan.rows[rows].levels
    for ring in (*nodes.values(), *streams.values()):
        low, high = max(ring.levels, key=_length)
        steady = max(steady[0], low - ring.newest), min(steady[1], high - ring.newest)
    begin = min((ring.start for ring in (*nodes.values(), *streams.values())), default=0)
    return Rings(plan, nodes, streams, min(0, begin), steady, rows)


@dataclass(frozen=True, slots=True)
class _User:
    """Who reads: a node's term, or -1 for results, on some levels.

    `above` is how far above the step it is made.
    """

    term: int
    above: int
    levels: Range
    long: bool
    reads: frozenset[Ref]


def _users(plan: LevelPlan, made: list[Node]) -> Iterator[_User]:
    longest = max(_length(row.levels) for row in plan.rows)
    for row in plan.rows:
        reads = _reads(plan, [ref for _, ref in row.results])
        yield _User(-1, 0, row.levels, _length(row.levels) > 1 or longest == 1, reads)
    for node in made:
        reads = _reads(plan, _operands(plan, (node.term, 0)))
        long = sum(map(_length, node.levels)) > 1 or longest == 1
        levels = node.levels[0][0], node.levels[-1][1]
        yield _User(node.term, node.window[1], levels, long, reads)


def _reads(plan: LevelPlan, refs: Iterable[Ref]) -> frozenset[Ref]:
    """Return the nodes and elements that values are made of."""
    found: set[Ref] = set()
    seen: set[Ref] = set()
    pending = list(refs)
    while pending:
        ref = pending.pop()
        if ref in seen:
            continue
        seen.add(ref)
        if isinstance(plan.terms[ref[0]].node, Read) or plan.node_of(ref):
            found.add(ref)
        else:
            pending.extend(_operands(plan, ref))
    return frozenset(found)


def _operands(plan: LevelPlan, ref: Ref) -> Iterator[Ref]:
    for operand, shift in plan.terms[ref[0]].operands:
        yield operand, 0 if plan.terms[operand].invariant else ref[1] + shift


def _ring(node: Node, users: list[_User], starts: dict[int, int]) -> Ring:
    newest = node.window[1]
    found = [(u, u.above + s) for u in users for term, s in u.reads if term == node.term]
    begin = min(starts.get(user.term, 0) + level - newest for user, level in found)
    oldest = min(level for _, level in found)
    return Ring(newest, newest - oldest + 1, begin, node.levels)


def _stream(term: int, users: list[_User], starts: dict[int, int]) -> Ring | None:
    """Return the ring of what many levels load; elements that few need are loaded there."""
    found = [(u, u.above + s) for u in users for number, s in u.reads if number == term]
    many = [level for user, level in found if user.long]
    if not many:
        return None
    low, newest = min(many), max(many)
    kept = [(user, level) for user, level in found if low <= level <= newest]
    begin = min(starts.get(user.term, 0) + level - newest for user, level in kept)
    span = (
        min(user.levels[0] + level - user.above for user, level in kept),
        max(user.levels[1] + level - user.above for user, level in kept),
    )
    return Ring(newest, newest - low + 1, begin, (span,))


def _age(ring: Ring | None, level: int) -> int | None:
    if ring is None or not 0 <= ring.newest - level < ring.size:
        return None
    return ring.newest - level


def _length(span: Range) -> int:
    return span[1] - span[0]
