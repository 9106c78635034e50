"""Kernels that blocks of columns run one after the other: a sweep, then points that look levels up.

A sweep makes what points of the same column search through. Apart, both move it through memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import Binary, Call, Expr, While
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import accesses_of, expressions, irregular, statements, walk
from halocline_engine.schedule.nodes import Kernel, Schedule, Section, Step
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["Swept", "swept_at"]

#: Operations of a level of a sweep, which few threads of a block compute; divisions and functions
#: count as several.
_MOST, _SEVERAL = 32, 8


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep and points that follow it as one kernel, whose first sections are the sweep's.

    Those have an order. No other kernel, and no other column, touches the buffers in `own`. It
    stands for so many `steps` of the schedule.
    """

    kernel: Kernel
    sections: int
    own: frozenset[str]
    steps: int


def swept_at(schedule: Schedule, number: int) -> Swept | None:
    """Return the sweep and the points that begin at a step of the schedule, if they do."""
    parts = _parts(schedule.steps[number : number + 2])
    if parts is None:
        return None
    sweep, points, count = parts
    if (sweep.extent, points.extent) != (CENTRE, CENTRE) or sweep.flat or points.flat:
        return None
    if sweep.is_general or _operations(sweep) > _MOST or not _are_apart(sweep, points):
        return None
    steps = (*schedule.steps[:number], *schedule.steps[number + count :])
    others = frozenset(name for kernel in kernels_of(steps) for name in _touched(kernel))
    across = _across(sweep) | _across(points)
    own = {buffer.name for buffer in schedule.buffers} - others - across
    if own.isdisjoint(_written(sweep) & _touched(points)):
        return None
    first = (replace(one, order=one.order or sweep.order) for one in sweep.sections)
    registers = {one.name: one for one in (*sweep.registers, *points.registers)}
    sections, every = (*first, *points.sections), tuple(registers.values())
    united = Kernel(Order.PARALLEL, CENTRE, sections, every)
    touched = _touched(sweep) | _touched(points)
    return Swept(united, len(sweep.sections), frozenset(own & touched), count)


def _parts(steps: Sequence[Step]) -> tuple[Kernel, Kernel, int] | None:
    """Return a sweep and points, which are a step each or, as columns that hand on values, one."""
    match steps:
        case (Kernel(order=Order.PARALLEL), *_):
            return None
        case (Kernel(is_general=True) as both, *_):
            general = (n for n, section in enumerate(both.sections) if _is_general(section))
            first = next(general)
            tail = tuple(replace(section, order=None) for section in both.sections[first:])
            points = replace(both, order=Order.PARALLEL, sections=tail)
            sweep = replace(both, sections=both.sections[:first])
            return (sweep, points, 1) if first and _are_points(points) else None
        case (Kernel() as sweep, Kernel(order=Order.PARALLEL, is_general=True) as points):
            return sweep, points, 2
        case _:
            return None


def _is_general(section: Section) -> bool:
    loops = (isinstance(one, While) for one in statements(section.body))
    return bool(irregular(section.body)) or any(loops)


def _are_points(kernel: Kernel) -> bool:
    """Whether points need nothing that other points write, so that all may run at the same time."""
    written = _written(kernel)
    every = (access for section in kernel.sections for access in accesses_of(section.body))
    return written.isdisjoint(kernel.irregular) and all(
        offset == (0, 0, 0) for name, offset in every if name in written
    )


def _are_apart(sweep: Kernel, points: Kernel) -> bool:
    """Whether no column needs or spoils what another one has."""
    return _written(sweep).isdisjoint(_across(points)) and _written(points).isdisjoint(
        _across(sweep)
    )


def _written(kernel: Kernel) -> frozenset[str]:
    return frozenset(name for section in kernel.sections for name in section.assigned)


def _touched(kernel: Kernel) -> frozenset[str]:
    read = (access[0] for section in kernel.sections for access in accesses_of(section.body))
    return _written(kernel).union(read)


def _across(kernel: Kernel) -> frozenset[str]:
    """Return the names that a kernel reads in other columns."""
    every = (access for section in kernel.sections for access in accesses_of(section.body))
    return frozenset(name for name, offset in every if offset[:2] != (0, 0))


def _operations(kernel: Kernel) -> int:
    """Return the operations of the longest level."""
    return max(
        sum(_weight(node) for value in expressions(section.body) for node in walk(value))
        for section in kernel.sections
    )


def _weight(node: Expr) -> int:
    match node:
        case Binary("/" | "%" | "**") | Call():
            return _SEVERAL
        case Binary():
            return 1
        case _:
            return 0
