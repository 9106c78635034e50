"""Columns whose levels lie on the threads of a block: what they hand to each other, and when.

Each thread has a level. What several levels need of one another, every thread computes once, for
its own level, into a place in shared memory, and the others read it there after a barrier. Values
are made leaves first: one that is computed from others stands in a later round.

A value is filled exactly on the levels that anything reads it on. Beyond the levels that a block
has for itself lie as many as its values reach over, which the neighbouring block computes as well;
so there may be any number of levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Number, Parameter, Read
from halocline_engine.schedule.levels.terms import Ref, Term, Terms, terms_of
from halocline_engine.schedule.nodes import Kernel

__all__ = ["Form", "LevelPlan", "Load", "Node", "Rows", "plan_levels"]

#: Readers further away than this compute a value again, as at the ends of a periodic column.
_NEAR = 16


class Form(StrEnum):
    """Method by which the threads of a column share values."""

    NODES = "nodes"
    """Each shared value has a place of its own, filled leaves first."""
    STAGING = "staging"
    """Places are used again as soon as what they held has no reader left: one, for a chain."""
    DIRECT = "direct"
    """Nothing is shared: each thread computes all that its level needs."""


@dataclass(frozen=True, slots=True)
class Node:
    """A term that each thread computes for its own level and others read.

    `levels` are those that it is filled on; `reach` how far below and above their own level readers
    look it up; `window` how far below (negative) and above a level of the block it is needed;
    `round` when it is filled, `last` the round in which another thread reads it last; `slot` the
    place that holds it. What a thread filled itself it keeps.
    """

    term: int
    levels: tuple[Range, ...]
    reach: Range
    window: Range
    round: int
    last: int
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """An element that a thread reads: a term that is a `Read`, `shift` levels above the own one.

    Threads below `levels` and above read what those at the ends do. `early` loads are under way
    before the first barrier; the others are needed at few levels, and read only there.
    """

    term: int
    shift: int
    levels: Range
    early: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """The levels of a section, and what it writes there."""

    levels: Range
    results: tuple[tuple[str, Ref], ...]


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """Work of the threads of a column.

    `nodes` are in the order of their rounds, `rows` follow after the last round; `slots` are bytes
    of an element in each place. `window` is how many levels a block needs around its own, and
    `levels` are all on which a thread has anything to do.
    """

    terms: tuple[Term, ...]
    nodes: tuple[Node, ...]
    loads: tuple[Load, ...]
    rows: tuple[Rows, ...]
    slots: tuple[int, ...]
    window: Range
    levels: Range

    @property
    def rounds(self) -> int:
        """Number of times that threads fill places, with a barrier after each."""
        return max((node.round + 1 for node in self.nodes), default=0)

    def node_of(self, ref: Ref) -> Node | None:
        """Return the node that has a term in its place, if it is near enough to be read there."""
        found = next((node for node in self.nodes if node.term == ref[0]), None)
        if found is None or not found.reach[0] <= ref[1] <= found.reach[1]:
            return None
        return found

    @property
    def own(self) -> Range:
        """The levels on which something is written."""
        return min(r.levels[0] for r in self.rows), max(r.levels[1] for r in self.rows)


def plan_levels(
    kernel: Kernel,
    levels: int,
    form: Form,
    flat: Set[str],
    narrow: Set[str],
    *,
    close: bool = False,
) -> LevelPlan | None:
    """Return what threads do for a PARALLEL kernel in columns of so many levels, or None.

    `flat` and `narrow` are those of `terms_of`, which says where there is none. Where `close`, what
    single levels at the ends read is shared only as near as others read it.
    """
    found = terms_of(kernel, flat, narrow)
    if found is None:
        return None
    rows = tuple(
        Rows((section.interval.start.level(levels), section.interval.end.level(levels)), results)
        for section, results in zip(kernel.sections, found.results, strict=True)
    )
    rows = tuple(row for row in rows if row.levels[0] < row.levels[1])
    if not rows:
        return None
    uses = _Uses(found, rows, shared=form is not Form.DIRECT, close=close)
    uses.follow()
    nodes = _slotted(uses.nodes(), again=form is Form.STAGING)
    sizes: dict[int, int] = {}
    for node in nodes:
        size = found.terms[node.term].node.dtype.itemsize
        sizes[node.slot] = max(sizes.get(node.slot, 1), size)
    spans = [*(row.levels for row in rows), *(span for node in nodes for span in node.levels)]
    return LevelPlan(
        terms=found.terms,
        nodes=nodes,
        loads=tuple(uses.loads()),
        rows=rows,
        slots=tuple(sizes[slot] for slot in sorted(sizes)),
        window=(
            min((node.window[0] for node in nodes), default=0),
            max((node.window[1] for node in nodes), default=0),
        ),
        levels=(min(low for low, _ in spans), max(high for _, high in spans)),
    )


class _Uses:
    """Who needs which term at which distance.

    A user is a section, by its number, or a node, by -1 - the number of its term. What is looked
    at at more than one distance by users with many levels is shared.
    """

    def __init__(self, found: Terms, rows: tuple[Rows, ...], *, shared: bool, close: bool) -> None:
        self.terms = found.terms
        self.rows = rows
        self.shared = shared
        self.close = close
        self.long = max(row.levels[1] - row.levels[0] for row in rows) > 1
        self.needs: list[dict[int, set[int]]] = [{} for _ in found.terms]
        self.levels: dict[int, tuple[Range, ...]] = {}
        self.windows: dict[int, Range] = {}
        self.reach: dict[int, Range] = {}
        self.readers: dict[int, set[tuple[int, int]]] = {}

    def follow(self) -> None:
        """Find all users, from results to leaves, and what is shared."""
        for number, row in enumerate(self.rows):
            for _, (term, shift) in row.results:
                self.needs[term].setdefault(number, set()).add(shift)
        for term in range(len(self.terms) - 1, -1, -1):
            needs = self.needs[term]
            inside = {user: shifts for user, shifts in needs.items() if shifts}
            if self._is_shared(term):
                low, high = self.reach[term] = self._reach(term)
                near = {u: {s for s in each if low <= s <= high} for u, each in inside.items()}
                self._share(term, near)
                inside = {u: each - near[u] for u, each in inside.items()}
                inside[-1 - term] = {0}
            for user, shifts in inside.items():
                for operand, at in self.terms[term].operands:
                    moved = {0} if self.terms[operand].invariant else {s + at for s in shifts}
                    self.needs[operand].setdefault(user, set()).update(moved)

    def nodes(self) -> Iterator[Node]:
        """Yield nodes, leaves first; the places are not chosen yet."""
        rounds: dict[int, int] = {}
        for term in sorted(self.levels):
            below = [n for n in self.levels if any(u == -1 - term for u, _ in self.readers[n])]
            rounds[term] = max((rounds[n] + 1 for n in below), default=0)
        end = max(rounds.values(), default=-1) + 1
        for term in sorted(self.levels, key=lambda n: (rounds[n], n)):
            away = [user for user, shift in self.readers[term] if shift]
            last = max((end if user >= 0 else rounds[-1 - user] for user in away), default=0)
            spans, reach, window = self.levels[term], self.reach[term], self.windows[term]
            yield Node(term, spans, reach, window, rounds[term], last)

    def loads(self) -> Iterator[Load]:
        """Yield all that threads read from memory."""
        for number, term in enumerate(self.terms):
            if not isinstance(term.node, Read):
                continue
            found: dict[int, list[tuple[Range, bool]]] = {}
            for user, shifts in self._from_memory(number).items():
                for shift in shifts:
                    spans = self._levels(user)
                    hull = min(low for low, _ in spans), max(high for _, high in spans)
                    found.setdefault(shift, []).append((hull, self._is_long(user)))
            for shift, each in sorted(found.items()):
                many = [hull for hull, long in each if long]
                hulls = many or [hull for hull, _ in each]
                hull = min(low for low, _ in hulls), max(high for _, high in hulls)
                every = min(h[0] for h, _ in each), max(h[1] for h, _ in each)
                early = bool(many) or not self.long
                yield Load(number, shift, every if early else hull, early)

    def _from_memory(self, term: int) -> dict[int, set[int]]:
        """Return who reads a term from memory; what is in a place is read by its own node."""
        needs = self.needs[term]
        if term not in self.levels:
            return needs
        low, high = self.reach[term]
        far = {u: {s for s in each if not low <= s <= high} for u, each in needs.items()}
        return {u: each for u, each in (*far.items(), (-1 - term, {0})) if each}

    def _is_shared(self, term: int) -> bool:
        value = self.terms[term]
        if not self.shared or value.invariant or not value.wide:
            return False
        if isinstance(value.node, Number | Parameter):
            return False
        many = [each for user, each in self.needs[term].items() if self._is_long(user)]
        return len({s for each in many for s in each if abs(s) <= _NEAR}) > 1

    def _reach(self, term: int) -> Range:
        """Return between which levels readers look a value up."""
        if not self.close:
            return -_NEAR, _NEAR
        many = [each for user, each in self.needs[term].items() if self._is_long(user)]
        found = [s for each in many for s in each if abs(s) <= _NEAR]
        return min(found), max(found)

    def _is_long(self, user: int) -> bool:
        """Whether a user has more than one level."""
        return sum(high - low for low, high in self._levels(user)) > 1 or not self.long

    def _levels(self, user: int) -> tuple[Range, ...]:
        return (self.rows[user].levels,) if user >= 0 else self.levels[-1 - user]

    def _window(self, user: int) -> Range:
        return (0, 0) if user >= 0 else self.windows[-1 - user]

    def _share(self, term: int, near: dict[int, set[int]]) -> None:
        read = [(user, shift) for user, shifts in near.items() for shift in shifts]
        self.readers[term] = set(read)
        self.levels[term] = _joined(
            (low + shift, high + shift) for user, shift in read for low, high in self._levels(user)
        )
        self.windows[term] = (
            min(0, *(self._window(user)[0] + shift for user, shift in read)),
            max(0, *(self._window(user)[1] + shift for user, shift in read)),
        )


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the same numbers in as few ranges as there can be, in order.

    >>> _joined([(3, 5), (0, 1), (1, 3), (7, 8)])
    ((0, 5), (7, 8))
    """
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    assert all(one[1] < two[0] for one, two in pairwise(found))
    return tuple(found)


def _slotted(nodes: Iterable[Node], *, again: bool) -> tuple[Node, ...]:
    """Return the nodes with places; `again` gives a place to the next once it has no reader left.

    A node of round r may take the place of one that is read in round r for the last time, because
    threads store what they computed in a round after all of them have read.
    """
    free: list[int] = []
    held: dict[int, Node] = {}
    made: list[Node] = []
    count = 0
    for node in nodes:
        for slot, other in [*held.items()]:
            if again and other.last <= node.round:
                free.append(slot)
                del held[slot]
        if free:
            slot = min(free)
            free.remove(slot)
        else:
            slot, count = count, count + 1
        placed = replace(node, slot=slot)
        held[slot] = placed
        made.append(placed)
    return tuple(made)
