"""Assignment of temporaries before they are read.

A temporary that is not yet assigned holds zero. Where every read surely sees an assigned value,
those zeros need not be written, and an earlier life of the same name is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, assert_never

from halocline_engine.ir.extent import Horizontal, shift
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Bound,
    If,
    Interval,
    Offset,
    Statement,
    While,
)
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import accesses_of, bodies_of
from halocline_engine.schedule.nodes import Section
from halocline_engine.schedule.stages import WHOLE, Part, Stage, is_within, joined

__all__ = ["Exposed", "assigns", "exposed", "flow", "holds", "is_defined", "moved"]

#: Offsets by name, in the order of the text.
Exposed: TypeAlias = dict[str, dict[Offset, None]]
_Region: TypeAlias = tuple[Interval, Horizontal]


def is_defined(parts: Sequence[Part], name: str, levels: int, *, begun: bool = False) -> bool:
    """Return whether every read of `name` in the parts sees what the parts assigned.

    Where `begun`, the first part reads something older.
    """
    done: list[_Region] = []
    for number, part in enumerate(parts):
        stages = [stage for stage in part.stages if name in stage.names]
        whole = [_region(s) for s in stages if assigns((s.statement,), name)]
        current = list(done)
        for stage in stages:
            for offset in () if begun and number == 0 else _exposed(stage, name):
                ahead = _ahead(part.order, offset)
                known = current if ahead == 0 else done + whole if ahead < 0 else done
                if not _covers(known, stage, offset, levels):
                    return False
            if assigns((stage.statement,), name) and _region(stage) not in current:
                current.append(_region(stage))
        done = current
    return True


def _exposed(stage: Stage, name: str) -> tuple[Offset, ...]:
    """Return what is exposed of a stage; its reads, which are known, say where that is nothing."""
    if isinstance(stage.statement, Assign):
        return tuple(offset for read, offset in stage.reads if read == name)
    is_read = any(read == name for read, _ in stage.reads)
    return tuple(flow((stage.statement,))[0].get(name, ())) if is_read else ()


def _ahead(order: Order, offset: Offset) -> int:
    match order:
        case Order.PARALLEL:
            return 0
        case Order.FORWARD:
            return offset[2]
        case Order.BACKWARD:
            return abs(offset[2]) if offset[2] == ANY_LEVEL else -offset[2]


def _region(stage: Stage) -> _Region:
    return stage.interval, stage.extent


def _covers(known: Sequence[_Region], stage: Stage, offset: Offset, levels: int) -> bool:
    wanted = WHOLE if offset[2] == ANY_LEVEL else moved(stage.interval, offset[2])
    around = shift(stage.extent, offset[0], offset[1])
    united = joined([interval for interval, extent in known if holds(extent, around)], levels)
    return any(is_within(wanted, interval, levels) for interval in united)


def moved(interval: Interval, k: int) -> Interval:
    """Return the interval `k` levels further."""
    start, end = interval.start, interval.end
    return Interval(
        Bound(start.from_end, start.offset + k),
        Bound(end.from_end, end.offset + k),
    )


def holds(outer: Horizontal, inner: Horizontal) -> bool:
    """Return whether one extent has the other inside.

    >>> holds(((-1, 1), (0, 0)), ((0, 1), (0, 0)))
    True
    """
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def assigns(body: Iterable[Statement], name: str) -> bool:
    """Return whether the statements assign `name` at every point."""
    for statement in body:
        match statement:
            case Assign(target, _, _, level):
                found = target == name and level is None
            case If(_, then, otherwise):
                found = assigns(then, name) and assigns(otherwise, name)
            case While():
                found = False
            case _:
                assert_never(statement)
        if found:
            return True
    return False


def exposed(section: Section, name: str) -> tuple[Offset, ...]:
    """Return the offsets at which `name` is read, less those that the section itself provides."""
    return tuple(_exposed_by(section).get(name, ()))


@remembered
def _exposed_by(section: Section) -> Exposed:
    return flow(section.body)[0]


def flow(body: Iterable[Statement]) -> tuple[Exposed, set[str]]:
    """Return what a body reads and does not provide itself, and what it assigns at every point."""
    found: Exposed = {}
    provided: set[str] = set()

    def add(reads: Iterable[tuple[str, Offset]]) -> None:
        for name, offset in reads:
            if name not in provided or offset != (0, 0, 0):
                found.setdefault(name, {})[offset] = None

    for statement in body:
        if isinstance(statement, Assign):
            add(accesses_of((statement,)))
            if statement.level is None:
                provided.add(statement.target)
            continue
        add(accesses_of((Assign("", statement.condition),)))
        held = [flow(inner) for inner in bodies_of(statement)]
        for reads, _ in held:
            add((name, offset) for name, offsets in reads.items() for offset in offsets)
        if isinstance(statement, If):
            provided |= held[0][1] & held[1][1]
    return found, provided
