"""Sharing among threads for arrays that lie along K, as text."""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import reads
from halocline_engine.schedule.levels.exchange import Form, LevelPlan, plan_levels
from halocline_engine.schedule.nodes import Kernel, Schedule

__all__ = ["level_lines"]

#: A column long enough for every interval to have levels.
_LEVELS = 64


def level_lines(kernel: Kernel, schedule: Schedule) -> Iterator[str]:
    """Yield how a kernel runs with a level on each thread; nothing where levels need no others."""
    if kernel.order is not Order.PARALLEL or not _looks_up_or_down(kernel):
        return
    program = schedule.program
    flat = {f.name for f in program.fields if Axis.K not in f.axes}
    narrow = {f.name for f in program.fields if f.axes == (Axis.K,)}
    levels = max(schedule.facts.min_levels, _LEVELS)
    made, again = (
        plan_levels(kernel, levels, form, flat, narrow) for form in (Form.NODES, Form.STAGING)
    )
    start = "where fields lie along K, a thread has a level"
    if kernel.extent != CENTRE:
        yield f"{start}: no, the kernel computes points around the domain"
    elif made is None or again is None:
        yield f"{start}: no, it has conditions, or reads what it writes"
    else:
        yield f"{start}: {_shared(made, again)}"


def _shared(made: LevelPlan, again: LevelPlan) -> str:
    if not made.nodes:
        return "it computes all that it needs"
    count, size = len(made.nodes), sum(made.slots)
    values = "value is" if count == 1 else "values are"
    least = sum(again.slots)
    room = f"{size} bytes a level and column" + (f", at least {least}" if least < size else "")
    rounds = "once" if made.rounds == 1 else f"{made.rounds} times, leaves first"
    return (
        f"{count} {values} shared in {room}, filled {rounds}, a barrier after each;"
        " nothing is shared where that does not fit"
    )


def _looks_up_or_down(kernel: Kernel) -> bool:
    return any(read.offset[2] for section in kernel.sections for read in reads(section.body))
