"""Steps that may run slab by slab: all of them on one slab before the next slab is touched.

After this, what the steps of a phase hand to each other never crosses from slab to slab, so it is
still in the cache when it is read again, and threads meet once a phase instead of once a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.nodes import Buffer, Kernel, Levels, Schedule, Step
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["Phase", "Steps", "phases"]

#: One `Levels`, or kernels that are as wide as each other along the axis of the slabs.
Steps: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps that run slab by slab, and the buffers that nothing else uses.

    Such a buffer needs to hold one slab only, and the next slab may have the same memory.
    """

    steps: Steps
    local: tuple[Buffer, ...]


def phases(schedule: Schedule, axis: int) -> tuple[Phase, ...]:
    """Return the steps in order, grouped; slabs are cut across `axis`, 0 for I or 1 for J."""
    groups: list[list[Step]] = []
    for step in schedule.steps:
        if groups and all(_are_apart(other, step, axis) for other in groups[-1]):
            groups[-1].append(step)
        else:
            groups.append([step])
    users = {
        buffer.name: [n for n, group in enumerate(groups) if _uses(group, buffer.name)]
        for buffer in schedule.buffers
    }
    return tuple(
        Phase(
            tuple(group),
            tuple(
                buffer
                for buffer in schedule.buffers
                if users[buffer.name] == [n] and not _is_read_across(group, buffer.name, axis)
            ),
        )
        for n, group in enumerate(groups)
    )


def _uses(group: Iterable[Step], name: str) -> bool:
    return any(
        name in targets_of(section.body)
        or any(read == name for read, _ in accesses_of(section.body))
        for kernel in kernels_of(group)
        for section in kernel.sections
    )


def _is_read_across(group: list[Step], name: str, axis: int) -> bool:
    """Return whether a buffer is needed beyond a slab, or by steps that know no slabs."""
    return any(isinstance(step, Levels) for step in group) or any(
        read == name and offset[axis] != 0
        for kernel in kernels_of(group)
        for section in kernel.sections
        for read, offset in accesses_of(section.body)
    )


def _are_apart(first: Step, second: Step, axis: int) -> bool:
    """Return whether the steps are equally wide and share values within a slab only."""
    if not (isinstance(first, Kernel) and isinstance(second, Kernel)):
        return False
    if first.extent[axis] != second.extent[axis]:
        return False
    return not (_crosses(first, second, axis) or _crosses(second, first, axis))


def _crosses(writer: Kernel, reader: Kernel, axis: int) -> bool:
    written = {name for section in writer.sections for name in targets_of(section.body)}
    return any(
        name in written and offset[axis] != 0
        for section in reader.sections
        for name, offset in accesses_of(section.body)
    )
