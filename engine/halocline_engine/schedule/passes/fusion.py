"""Fusion of statements into loop nests.

After this, what runs together may run point by point (PARALLEL) or column by column (FORWARD,
BACKWARD) in any order of points or columns: nothing reads, at an offset across points or columns,
what the same kernel writes. It pays because a kernel reads each field once for all its statements.
For its sake a PARALLEL statement also runs before a sequential computation that it has nothing to
do with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise

from halocline_engine.ir.nodes import Bound, Interval, Statement
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import irregular
from halocline_engine.schedule.nodes import Kernel, Level, Levels, Section, Step
from halocline_engine.schedule.passes.distribution import distribute
from halocline_engine.schedule.stages import Draft, Part, Stage, follows, is_vertical

__all__ = ["fuse"]


def fuse(draft: Draft, *, merge: bool = True) -> tuple[Step, ...]:
    """Return kernels for all parts, in order, with no registers yet.

    Without `merge`, every statement of a PARALLEL computation has its own kernel.
    """
    done: list[_Group | _Columns] = []
    levels, handed = draft.facts.min_levels, _handed(draft)
    for part in draft.parts:
        if part.order is Order.PARALLEL:
            for stage in part.stages:
                may_cross = handed.isdisjoint(stage.targets)
                home = _home(stage, done, levels, may_cross=may_cross) if merge else None
                if home is None:
                    done.append(home := _Group(one_level=False))
                home.add(stage)
        elif part.stages:
            done.append(_Columns.of(part))
    return tuple(step for one in done for step in _steps(one, draft))


def _handed(draft: Draft) -> frozenset[str]:
    """Return the temporaries that sequential computations read."""
    columns = [part for part in draft.parts if part.order is not Order.PARALLEL]
    read = {name for part in columns for stage in part.stages for name, _ in stage.reads}
    return frozenset(read & draft.temporaries.keys())


def _steps(one: _Group | _Columns, draft: Draft) -> Iterable[Step]:
    if isinstance(one, _Columns):
        return _sequential(one.part, draft)
    return (_kernel(Order.PARALLEL, one.aligned()),)


def _kernel(order: Order, stages: Sequence[Stage], flat: Set[str] = frozenset()) -> Kernel:
    bodies: dict[Interval, list[Statement]] = {}
    for stage in stages:
        bodies.setdefault(stage.interval, []).append(stage.statement)
    sections = tuple(Section(interval, tuple(body)) for interval, body in bodies.items())
    own = frozenset(name for stage in stages for name in stage.targets if name in flat)
    return Kernel(order, stages[0].extent, sections, (), own)


@dataclass(frozen=True, slots=True)
class _Columns:
    """A sequential computation, and what it touches."""

    part: Part
    written: frozenset[str]
    names: frozenset[str]

    @staticmethod
    def of(part: Part) -> _Columns:
        written = frozenset(name for stage in part.stages for name in stage.targets)
        names = frozenset(name for stage in part.stages for name in stage.names)
        return _Columns(part, written, names)

    def depends(self, stage: Stage) -> bool:
        """Return whether the stage must come after the computation."""
        return not (self.written.isdisjoint(stage.names) and self.names.isdisjoint(stage.targets))


@dataclass(slots=True)
class _Group:
    """Statements that will share a PARALLEL kernel, and what they touch.

    In a group for one level at a time (`one_level`), reads of other levels cross nothing, but where
    only a run knows the level.
    """

    one_level: bool
    stages: list[Stage] = field(default_factory=list[Stage])
    written: set[str] = field(default_factory=set[str])
    read: set[str] = field(default_factory=set[str])
    read_away: set[str] = field(default_factory=set[str])
    intervals: set[Interval] = field(default_factory=set[Interval])
    irregular: set[str] = field(default_factory=set[str])
    is_vertical: bool = True

    def add(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.is_vertical = self.is_vertical and is_vertical(stage)
        self.written.update(stage.targets)
        self.read.update(name for name, _ in stage.reads)
        self.read_away |= self._away(stage)
        self.intervals.add(stage.interval)
        self.irregular |= irregular((stage.statement,))

    def depends(self, stage: Stage) -> bool:
        """Return whether the stage must come after the group."""
        return not (
            self.written.isdisjoint(stage.targets)
            and self.read.isdisjoint(stage.targets)
            and self.written.isdisjoint(name for name, _ in stage.reads)
        )

    def meets(self, stage: Stage) -> bool:
        """Return whether the stage touches something that the group does."""
        return not (self.written | self.read).isdisjoint(stage.names)

    def accepts(self, stage: Stage, levels: int) -> bool:
        """Return whether the stage may run in the same kernel, after the others."""
        if self.one_level and (self.irregular or irregular((stage.statement,))):
            return False
        return (
            self.stages[0].extent == stage.extent
            and self.written.isdisjoint(self._away(stage))
            and self.read_away.isdisjoint(stage.targets)
            and (
                all(
                    interval == stage.interval or _disjoint(interval, stage.interval, levels)
                    for interval in self.intervals
                )
                or self._may_be_cut(stage, levels)
            )
        )

    def _may_be_cut(self, stage: Stage, levels: int) -> bool:
        """Return whether all may be cut to the same intervals, and it pays, as arrays are shared.

        Points that read other columns do without: their tiles are for kernels of one section.
        """
        return (
            not self.one_level
            and self.meets(stage)
            and self.is_vertical
            and is_vertical(stage)
            and _ends((*self.intervals, stage.interval), levels) is not None
        )

    def aligned(self) -> list[Stage]:
        """Return the stages, cut where intervals of others begin or end within theirs."""
        if all(
            one == two or not _overlap(one, two) for one in self.intervals for two in self.intervals
        ):
            return self.stages
        ends = sorted({b for i in self.intervals for b in (i.start, i.end)}, key=_place)
        return [
            replace(stage, interval=Interval(start, end))
            for start, end in pairwise(ends)
            for stage in self.stages
            if _place(stage.interval.start) <= _place(start)
            and _place(end) <= _place(stage.interval.end)
        ]

    def _away(self, stage: Stage) -> set[str]:
        if self.one_level:
            return {name for name, (i, j, k) in stage.reads if k == 0 and (i, j) != (0, 0)}
        return {name for name, offset in stage.reads if offset != (0, 0, 0)}


def _ends(intervals: Iterable[Interval], levels: int) -> list[Bound] | None:
    """Return where intervals begin and end, in order, or None where this depends on the levels."""
    ends = sorted({b for i in intervals for b in (i.start, i.end)}, key=_place)
    return ends if all(follows(one, two, levels) for one, two in pairwise(ends)) else None


def _place(bound: Bound) -> tuple[bool, int]:
    """Return a key that sorts bounds of domains that have all levels between them."""
    return bound.from_end, bound.offset


def _overlap(one: Interval, two: Interval) -> bool:
    return _place(one.start) < _place(two.end) and _place(two.start) < _place(one.end)


def _disjoint(one: Interval, two: Interval, levels: int) -> bool:
    return follows(one.end, two.start, levels) or follows(two.end, one.start, levels)


def _home(
    stage: Stage, done: Sequence[_Group | _Columns], levels: int, *, may_cross: bool = False
) -> _Group | None:
    """Return the last group that a stage can move up to and join.

    It moves past sequential computations, if it may, only to a group that touches what it does, and
    so saves memory traffic. Columns may keep what they read of a stage, if that stays with them.
    """
    crossed = False
    for one in reversed(done):
        if isinstance(one, _Columns):
            crossed = True
        elif one.accepts(stage, levels) and (one.meets(stage) or not crossed):
            return one
        if one.depends(stage) or (crossed and not may_cross):
            break
    return None


def _one_level(stages: Iterable[Stage], levels: int) -> list[_Group]:
    """Return the groups of the stages of a level, in order."""
    groups: list[_Group] = []
    for stage in stages:
        home = _home(stage, groups, levels)
        if home is None:
            groups.append(home := _Group(one_level=True))
        home.add(stage)
    return groups


def _sequential(part: Part, draft: Draft) -> list[Step]:
    """Return column kernels, and `Levels` for what is entangled across columns."""
    steps: list[Step] = []
    for stages, tangled in distribute(part, draft.flat):
        if tangled:
            steps.append(_levels(part.order, stages, draft.facts.min_levels))
        else:
            steps.append(_kernel(part.order, stages, draft.flat))
    return steps


def _levels(order: Order, stages: Sequence[Stage], least: int) -> Levels:
    intervals = dict.fromkeys(stage.interval for stage in stages)
    return Levels(
        order,
        tuple(
            Level(
                interval,
                tuple(
                    _kernel(Order.PARALLEL, group.stages)
                    for group in _one_level(
                        [stage for stage in stages if stage.interval == interval], least
                    )
                ),
            )
            for interval in intervals
        ),
    )
