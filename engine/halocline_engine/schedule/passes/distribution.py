"""Cut a sequential computation into loops over levels that run one after the other.

Columns of one kernel know nothing of each other, so a statement that reads a neighbour's value
needs the loop that makes this value to be over; so does one that runs on another extent. Statements
that depend on each other in a circle stay together, and so do those that meet at levels which only
a run knows; where such a circle has a horizontal offset in
it, the columns are entangled and go level by level.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from halocline_engine.ir.nodes import ANY_LEVEL
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments
from halocline_engine.schedule.passes.knots import knots
from halocline_engine.schedule.stages import Part, Stage

__all__ = ["distribute"]

_Pairs: TypeAlias = set[tuple[int, int]]


def distribute(part: Part, flat: frozenset[str]) -> list[tuple[tuple[Stage, ...], bool]]:
    """Return groups of stages in the order to run, and whether a group's columns are entangled.

    `flat` are the names that are the same on every level.
    """
    stages = part.stages
    across = _across(part)
    if not _is_tangled(range(len(stages)), stages, across):
        return [(stages, False)]
    groups: list[tuple[list[int], bool]] = []
    members: set[int] = set()
    for knot in knots(len(stages), _edges(part, flat)):
        tangled = _is_tangled(knot, stages, across)
        last = groups[-1] if groups else None
        if last and not (tangled or last[1]) and _may_join(knot, last[0], members, part, across):
            last[0].extend(knot)
            members.update(knot)
        else:
            groups.append((list(knot), tangled))
            members = set(knot)
    return [(tuple(stages[n] for n in sorted(group)), tangled) for group, tangled in groups]


def _is_tangled(
    group: Sequence[int], stages: Sequence[Stage], across: Sequence[frozenset[int]]
) -> bool:
    members = set(group)
    if len({stages[n].extent for n in group}) > 1:
        return True
    return any(not members.isdisjoint(across[n]) for n in group)


def _may_join(
    knot: Sequence[int],
    group: Sequence[int],
    members: set[int],
    part: Part,
    across: Sequence[frozenset[int]],
) -> bool:
    """Whether the columns of two groups, neither of which is entangled, are not so together."""
    same = part.stages[knot[0]].extent == part.stages[group[0]].extent
    return same and all(members.isdisjoint(across[n]) for n in knot)


def _across(part: Part) -> list[frozenset[int]]:
    """Return, for each stage, those that cannot share a column kernel with it."""
    writers = _writers(part)
    found: list[set[int]] = [set() for _ in part.stages]
    for reader, stage in enumerate(part.stages):
        for name, (i, j, _) in stage.reads:
            if (i, j) != (0, 0):
                found[reader].update(writers.get(name, ()))
                for writer in writers.get(name, ()):
                    found[writer].add(reader)
    return [frozenset(others) for others in found]


def _writers(part: Part) -> dict[str, list[int]]:
    writers: dict[str, list[int]] = {}
    for number, stage in enumerate(part.stages):
        for name in stage.targets:
            writers.setdefault(name, []).append(number)
    return writers


def _edges(part: Part, flat: frozenset[str]) -> _Pairs:
    """Return pairs (earlier, later) that, one after the other, order all that depends."""
    edges: _Pairs = set()
    writers = _writers(part)
    anywhere = flat | {
        one.target
        for one in assignments(stage.statement for stage in part.stages)
        if one.level is not None
    }
    sign = 1 if part.order is Order.FORWARD else -1
    chains = {name: _chains(numbers, part) for name, numbers in writers.items()}
    for name, own in chains.items():
        for chain in own:
            edges.update(pairwise(chain))
        if name in anywhere:
            numbers = writers[name]
            edges.update(pairwise(numbers))
            edges.add((numbers[-1], numbers[0]))
    for reader, stage in enumerate(part.stages):
        for name, (_, _, k) in stage.reads:
            for chain in chains.get(name, ()):
                if name in anywhere or k == ANY_LEVEL:
                    edges |= {(reader, chain[0]), (chain[-1], reader)}
                elif k:
                    edges.add((chain[-1], reader) if k * sign < 0 else (reader, chain[0]))
                elif stage.interval == part.stages[chain[0]].interval:
                    edges.update(_between(chain, reader))
    return edges


def _chains(numbers: Sequence[int], part: Part) -> list[list[int]]:
    """Return the stages that write a name, those of one interval together."""
    found: dict[object, list[int]] = {}
    for number in numbers:
        found.setdefault(part.stages[number].interval, []).append(number)
    return list(found.values())


def _between(chain: Sequence[int], reader: int) -> Iterator[tuple[int, int]]:
    """Yield the order of a read and the writes before and after it in the text."""
    at = bisect_left(chain, reader)
    if at:
        yield chain[at - 1], reader
    after = bisect_right(chain, reader)
    if after < len(chain):
        yield reader, chain[after]
