"""Storage of each temporary: a register of one kernel, or memory.

After this, a register is read only at the point and level where the same section wrote it, and no
read of a buffer sees memory that was not written: where that is not sure, zeros are written first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from halocline_engine.ir.extent import Horizontal, enclose, shift
from halocline_engine.ir.nodes import Assign, Statement, Temporary
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import accesses_of, irregular, targets_of
from halocline_engine.schedule.nodes import Buffer, Kernel, Levels, Schedule, Section, Step
from halocline_engine.schedule.stages import WHOLE, Draft, touching
from halocline_engine.schedule.storage.coverage import flow, is_defined
from halocline_engine.schedule.storage.rename import zero

__all__ = ["buffered", "kernels_of", "map_kernels", "place"]


def kernels_of(steps: Iterable[Step]) -> tuple[Kernel, ...]:
    """Return the kernels of steps, in order."""
    found: list[Kernel] = []
    for step in steps:
        if isinstance(step, Levels):
            found.extend(kernel for level in step.levels for kernel in level.kernels)
        else:
            found.append(step)
    return tuple(found)


def place(draft: Draft, steps: tuple[Step, ...]) -> Schedule:
    """Return the schedule with every temporary in a register or a buffer."""
    registers = _registers(draft.temporaries, kernels_of(steps))
    buffers = _buffers(draft.temporaries, registers, kernels_of(steps))
    users = touching(draft.parts)
    zeros = tuple(
        Kernel(Order.PARALLEL, b.extent, (Section(WHOLE, (Assign(b.name, zero(b.dtype)),)),), ())
        for b in buffers
        if not is_defined([draft.parts[n] for n in users[b.name]], b.name, draft.facts.min_levels)
    )
    placed = map_kernels(steps, lambda kernel: _kernel_with_registers(kernel, registers))
    return Schedule(draft.program, draft.facts, buffers, (*zeros, *placed))


def buffered(types: Mapping[str, DType], steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the temporaries that cannot live in registers, in order of appearance."""
    kernels = kernels_of(steps)
    registers = _registers(types, kernels)
    return tuple(buffer.name for buffer in _buffers(types, registers, kernels))


def map_kernels(steps: Iterable[Step], change: Callable[[Kernel], Kernel]) -> tuple[Step, ...]:
    """Return the steps with every kernel changed, in order."""
    return tuple(
        change(step)
        if isinstance(step, Kernel)
        else replace(
            step,
            levels=tuple(
                replace(level, kernels=tuple(change(kernel) for kernel in level.kernels))
                for level in step.levels
            ),
        )
        for step in steps
    )


def _registers(types: Mapping[str, DType], kernels: tuple[Kernel, ...]) -> dict[str, DType]:
    users: dict[str, list[int]] = {}
    away: set[str] = set()
    for number, kernel in enumerate(kernels):
        bodies = [statement for section in kernel.sections for statement in section.body]
        reads = accesses_of(bodies)
        away |= {name for name, offset in reads if offset != (0, 0, 0)} | irregular(bodies)
        for name in {name for name, _ in reads} | set(targets_of(bodies)):
            users.setdefault(name, []).append(number)
    return {
        name: dtype
        for name, dtype in types.items()
        if len(users.get(name, ())) == 1 and name not in away
    }


def _buffers(
    types: Mapping[str, DType], registers: Mapping[str, DType], kernels: tuple[Kernel, ...]
) -> tuple[Buffer, ...]:
    extents: dict[str, Horizontal] = {}
    for kernel in kernels:
        bodies = [statement for section in kernel.sections for statement in section.body]
        touched = [*accesses_of(bodies), *((name, (0, 0, 0)) for name in targets_of(bodies))]
        for name, (i, j, _) in touched:
            if name in types and name not in registers:
                around = shift(kernel.extent, i, j)
                extents[name] = enclose(extents[name], around) if name in extents else around
    return tuple(Buffer(name, types[name], extent) for name, extent in extents.items())


def _kernel_with_registers(kernel: Kernel, registers: Mapping[str, DType]) -> Kernel:
    own = {
        name: registers[name]
        for section in kernel.sections
        for name in (*targets_of(section.body), *(n for n, _ in accesses_of(section.body)))
        if name in registers
    }
    sections = tuple(
        replace(section, body=(*_zeros(section, own), *section.body)) for section in kernel.sections
    )
    return replace(
        kernel,
        sections=sections,
        registers=tuple(Temporary(name, dtype) for name, dtype in own.items()),
    )


def _zeros(section: Section, registers: Mapping[str, DType]) -> list[Statement]:
    """Return assignments of zero for registers that a body may read before it assigns them."""
    early, provided = flow(section.body)
    conditional = set(targets_of(section.body)) - provided
    return [
        Assign(name, zero(dtype))
        for name, dtype in registers.items()
        if name in early or name in conditional
    ]
