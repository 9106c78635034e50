"""Fusion of statements into loop nests.

After this, what runs together may run point by point (PARALLEL) or column by column (FORWARD,
BACKWARD) in any order of points or columns: nothing reads, at an offset across points or columns,
what the same kernel writes. It pays because a kernel reads each field once for all its statements.
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
    steps: list[Step] = []
    levels = draft.facts.min_levels
    for part in _merged_parts(draft.parts):
        if part.order is Order.PARALLEL:
            groups = _grouped(part.stages, levels, merge=merge)
            steps.extend(_kernel(part.order, group.aligned()) for group in groups)
        else:
            steps.extend(_sequential(part, draft))
    return tuple(steps)


def _merged_parts(parts: tuple[Part, ...]) -> list[Part]:
    """Unite neighbouring PARALLEL parts: both run statement by statement."""
    merged: list[Part] = []
    for part in parts:
        if not part.stages:
            continue
        if merged and merged[-1].order is part.order is Order.PARALLEL:
            merged[-1] = Part(part.order, merged[-1].stages + part.stages)
        else:
            merged.append(part)
    return merged


def _kernel(order: Order, stages: Sequence[Stage], flat: Set[str] = frozenset()) -> Kernel:
    bodies: dict[Interval, list[Statement]] = {}
    for stage in stages:
        bodies.setdefault(stage.interval, []).append(stage.statement)
    sections = tuple(Section(interval, tuple(body)) for interval, body in bodies.items())
    own = frozenset(name for stage in stages for name in stage.targets if name in flat)
    return Kernel(order, stages[0].extent, sections, (), own)


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
            and not (self.written | self.read).isdisjoint(stage.names)
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


def _grouped(
    stages: Iterable[Stage], levels: int, *, merge: bool = True, one_level: bool = False
) -> list[_Group]:
    """Return groups in order; a stage joins the last group that it can move up to."""
    groups: list[_Group] = []
    for stage in stages:
        home: _Group | None = None
        for group in reversed(groups if merge else []):
            if group.accepts(stage, levels):
                home = group
                break
            if group.depends(stage):
                break
        if home is None:
            home = _Group(one_level)
            groups.append(home)
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
                    for group in _grouped(
                        [stage for stage in stages if stage.interval == interval],
                        least,
                        one_level=True,
                    )
                ),
            )
            for interval in intervals
        ),
    )
