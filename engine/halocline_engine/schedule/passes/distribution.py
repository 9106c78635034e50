"""Cut a sequential computation into loops over levels that run one after the other.

Columns of one kernel know nothing of each other, so a statement that reads a neighbour's value
needs the loop that makes this value to be over; so does one that runs on another extent. Statements
that depend on each other in a circle stay together, and so do those that meet at levels which only
a run knows; where such a circle has a horizontal offset in
it, the columns are entangled and go level by level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from halocline_engine.ir.nodes import ANY_LEVEL
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments
from halocline_engine.schedule.stages import Part, Stage

__all__ = ["distribute"]

_Pairs: TypeAlias = set[tuple[int, int]]


def distribute(part: Part, flat: frozenset[str]) -> list[tuple[tuple[Stage, ...], bool]]:
    """Return groups of stages in the order to run, and whether a group's columns are entangled.

    `flat` are the names that are the same on every level.
    """
    stages = part.stages
    edges, across = _dependences(part, flat)
    everything = range(len(stages))
    if not _is_tangled(everything, stages, across):
        return [(stages, False)]
    groups: list[tuple[list[int], bool]] = []
    for knot in _knots(len(stages), edges):
        tangled = _is_tangled(knot, stages, across)
        last = groups[-1] if groups else None
        if last and not (tangled or last[1] or _is_tangled([*last[0], *knot], stages, across)):
            last[0].extend(knot)
        else:
            groups.append((list(knot), tangled))
    return [(tuple(stages[n] for n in sorted(group)), tangled) for group, tangled in groups]


def _is_tangled(group: Sequence[int], stages: Sequence[Stage], across: _Pairs) -> bool:
    members = set(group)
    if len({stages[n].extent for n in group}) > 1:
        return True
    return any(a in members and b in members for a, b in across)


def _dependences(part: Part, flat: frozenset[str]) -> tuple[_Pairs, _Pairs]:
    """Return the pairs (earlier, later), and the pairs that cannot share a column kernel."""
    edges: _Pairs = set()
    across: _Pairs = set()
    writers: dict[str, list[int]] = {}
    for number, stage in enumerate(part.stages):
        for name in stage.targets:
            writers.setdefault(name, []).append(number)
    anywhere = flat | {
        one.target
        for one in assignments(stage.statement for stage in part.stages)
        if one.level is not None
    }
    sign = 1 if part.order is Order.FORWARD else -1
    for name, numbers in writers.items():
        everywhere = name in anywhere
        for a in numbers:
            for b in numbers:
                same = part.stages[a].interval == part.stages[b].interval
                if everywhere or (a < b and same):
                    edges.add((a, b))
    for reader, stage in enumerate(part.stages):
        for name, (i, j, k) in stage.reads:
            for writer in writers.get(name, ()):
                if (i, j) != (0, 0):
                    across.add((writer, reader))
                same = stage.interval == part.stages[writer].interval
                if name in anywhere or k == ANY_LEVEL:
                    edges |= {(writer, reader), (reader, writer)}
                else:
                    edges.update(_order(writer, reader, k * sign, same=same))
    return edges, across


def _order(writer: int, reader: int, ahead: int, *, same: bool) -> Iterator[tuple[int, int]]:
    """Yield the order of a write and a read `ahead` levels further in the order of visits."""
    if ahead < 0:
        yield writer, reader
    elif ahead > 0:
        yield reader, writer
    elif same:
        yield min(writer, reader), max(writer, reader)


def _knots(size: int, edges: _Pairs) -> list[list[int]]:
    """Return the strongly connected groups, each before those that depend on it."""
    reach = [{n} for n in range(size)]
    changed = True
    while changed:
        changed = False
        for a, b in sorted(edges, reverse=True):
            if not reach[b] <= reach[a]:
                reach[a] |= reach[b]
                changed = True
    waiting: list[list[int]] = []
    for n in range(size):
        if not any(n in knot for knot in waiting):
            waiting.append([m for m in range(size) if m in reach[n] and n in reach[m]])
    ordered: list[list[int]] = []
    while waiting:
        ready = next(
            knot
            for knot in waiting
            if not any(knot[0] in reach[other[0]] for other in waiting if other is not knot)
        )
        waiting.remove(ready)
        ordered.append(ready)
    return ordered
