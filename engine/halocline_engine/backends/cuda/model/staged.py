"""Kernels of the schedule that the blocks of one kernel run as its stages."""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Buffer, Home, Kernel, Schedule, Staging

__all__ = ["Staged", "between", "merged", "staged_at"]


@dataclass(frozen=True, slots=True)
class Staged:
    """The stages of one kernel, and the temporaries that each block has for itself.

    `pointers` are the names of the temporaries' memory in the code, where they live in memory.
    """

    staging: Staging
    stages: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...]
    pointers: tuple[str, ...]


def staged_at(schedule: Schedule, number: int) -> Staged | None:
    """Return what begins at a step of the schedule and takes `staging.count` of its steps."""
    for staging in schedule.staging:
        if staging.first == number:
            steps = schedule.steps[number : number + staging.count]
            pointers = enumerate(schedule.buffers) if staging.home is not Home.SHARED else ()
            return Staged(
                staging=staging,
                stages=tuple(step for step in steps if isinstance(step, Kernel)),
                temporaries=tuple(b for b in schedule.buffers if b.name in staging.temporaries),
                pointers=tuple(f"w{n}" for n, b in pointers if b.name in staging.temporaries),
            )
    return None


def merged(staged: Staged) -> Kernel:
    """Return a kernel with the sections of all stages: its names, its levels, and its blocks.

    Blocks cover the domain; how far a stage reaches around a block is its own.
    """
    stages = staged.stages
    registers = {register.name: register for stage in stages for register in stage.registers}
    return Kernel(
        Order.PARALLEL,
        CENTRE,
        tuple(section for stage in stages for section in stage.sections),
        tuple(registers.values()),
    )


@remembered
def between(schedule: Schedule) -> tuple[Buffer, ...]:
    """Return the temporaries that live in memory between kernels of the device."""
    kept = {name for staging in schedule.staging for name in staging.temporaries}
    return tuple(buffer for buffer in schedule.buffers if buffer.name not in kept)
