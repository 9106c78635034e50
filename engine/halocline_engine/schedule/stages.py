"""The schedule while it is made: statements one by one, each with its levels and its extent.

A `Draft` is what the passes of this package hand to each other. Names that a pass invents have a
dot in them, which no name of a program has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from halocline_engine.ir.extent import CENTRE, Facts, Horizontal
from halocline_engine.ir.nodes import Assign, Bound, Interval, Program, Statement
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import Access, accesses_of, targets_of

__all__ = [
    "WHOLE",
    "Draft",
    "Names",
    "Part",
    "Stage",
    "draft",
    "follows",
    "is_vertical",
    "is_within",
    "joined",
    "readers_of",
    "touching",
    "writers_of",
]

WHOLE = Interval(Bound(from_end=False, offset=0), Bound(from_end=True, offset=0))


@dataclass(frozen=True, slots=True)
class Stage:
    """A top-level statement, the levels it runs on and how far around the domain."""

    interval: Interval
    extent: Horizontal
    statement: Statement
    reads: tuple[Access, ...] = field(init=False, compare=False, repr=False)
    targets: tuple[str, ...] = field(init=False, compare=False, repr=False)
    names: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", accesses_of((self.statement,)))
        object.__setattr__(self, "targets", targets_of((self.statement,)))
        names = frozenset((*self.targets, *(name for name, _ in self.reads)))
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class Part:
    """The stages of one computation; those of one interval stand together."""

    order: Order
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """Parts in order, and the temporaries they may use with their types."""

    program: Program
    facts: Facts
    parts: tuple[Part, ...]
    temporaries: Mapping[str, DType]

    @property
    def flat(self) -> frozenset[str]:
        """The fields that are the same on every level."""
        return frozenset(f.name for f in self.program.fields if Axis.K not in f.axes)

    def with_parts(self, parts: tuple[Part, ...]) -> Draft:
        """Return the draft with other parts."""
        return replace(self, parts=parts)


class Names:
    """Fresh names for temporaries, `stem.0`, `stem.1` and so on, with their types."""

    def __init__(self, temporaries: Mapping[str, DType]) -> None:
        self.types = dict(temporaries)
        self._counters: dict[str, count[int]] = {}

    def fresh(self, stem: str, dtype: DType) -> str:
        """Return a name that is not used yet and remember it."""
        stem = stem.partition(".")[0]
        counter = self._counters.setdefault(stem, count())
        name = next(n for i in counter if (n := f"{stem}.{i}") not in self.types)
        self.types[name] = dtype
        return name


def draft(program: Program, facts: Facts) -> Draft:
    """Return the first draft: the program's statements as they stand."""
    temporaries = {t.name: t.dtype for t in program.temporaries}
    parts = tuple(
        Part(
            computation.order,
            tuple(
                Stage(block.interval, _extent_of(statement, extent, temporaries), statement)
                for block, extents in zip(computation.blocks, blocks, strict=True)
                for statement, extent in zip(block.body, extents, strict=True)
            ),
        )
        for computation, blocks in zip(program.computations, facts.statements, strict=True)
    )
    return Draft(program, facts, parts, temporaries)


def _extent_of(
    statement: Statement, extent: Horizontal, temporaries: Mapping[str, DType]
) -> Horizontal:
    if isinstance(statement, Assign) and statement.target not in temporaries:
        return CENTRE
    return extent


def is_vertical(stage: Stage) -> bool:
    """Return whether the points of a statement read their own column alone."""
    return all((i, j) == (0, 0) for _, (i, j, _) in stage.reads)


def readers_of(parts: Sequence[Part]) -> dict[str, list[int]]:
    """Return the numbers of the parts that read each name, ascending."""
    return _numbers([{name for s in part.stages for name, _ in s.reads} for part in parts])


def writers_of(parts: Sequence[Part]) -> dict[str, list[int]]:
    """Return the numbers of the parts that assign each name, ascending."""
    return _numbers([{name for s in part.stages for name in s.targets} for part in parts])


def touching(parts: Sequence[Part]) -> dict[str, list[int]]:
    """Return the numbers of the parts that read or assign each name, ascending."""
    return _numbers(
        [
            {name for s in part.stages for name in (*s.targets, *(read for read, _ in s.reads))}
            for part in parts
        ]
    )


def _numbers(names: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Return where each name stands."""
    found: dict[str, list[int]] = {}
    for number, several in enumerate(names):
        for name in several:
            found.setdefault(name, []).append(number)
    return found


def follows(first: Bound, second: Bound, levels: int) -> bool:
    """Return whether `first <= second` in every domain of at least `levels` levels.

    >>> follows(Bound(False, 2), Bound(True, -1), levels=3)
    True
    >>> follows(Bound(False, 2), Bound(True, -1), levels=2)
    False
    """
    if first.from_end == second.from_end:
        return first.offset <= second.offset
    if first.from_end:
        return False
    return first.offset - second.offset <= levels


def is_within(inner: Interval, outer: Interval, levels: int) -> bool:
    """Return whether `inner` is surely a part of `outer`."""
    return follows(outer.start, inner.start, levels) and follows(inner.end, outer.end, levels)


def joined(intervals: list[Interval], levels: int) -> list[Interval]:
    """Return the intervals with those united that surely overlap or touch."""
    merged: list[Interval] = []
    for interval in intervals:
        new = interval
        rest: list[Interval] = []
        for other in merged:
            union = _union(new, other, levels)
            if union is None:
                rest.append(other)
            else:
                new = union
        merged = [*rest, new]
    return merged


def _union(one: Interval, two: Interval, levels: int) -> Interval | None:
    for low, high in ((one, two), (two, one)):
        if follows(low.start, high.start, levels) and follows(high.start, low.end, levels):
            end = high.end if follows(low.end, high.end, levels) else low.end
            if follows(low.end, end, levels) and follows(high.end, end, levels):
                return Interval(low.start, end)
    return None
