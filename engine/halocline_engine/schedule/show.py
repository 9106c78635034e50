"""A schedule as text: the loops of each step, and where each temporary lives and why.

The same program gives the same text, on every machine and in every process.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.show import show_body, show_interval
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.levels.show import level_lines
from halocline_engine.schedule.nodes import Buffer, Kernel, Schedule
from halocline_engine.schedule.passes.prune import needed
from halocline_engine.schedule.stages import draft
from halocline_engine.schedule.storage.column_fusion import private
from halocline_engine.schedule.storage.show import home_in_block, staging_lines
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["show_schedule"]


def show_schedule(schedule: Schedule) -> str:
    """Return the schedule as text, ending with a newline; kernels are numbered from 0."""
    return "".join(f"{line}\n" for line in _schedule(schedule))


def _schedule(schedule: Schedule) -> Iterator[str]:
    yield f"schedule {schedule.program.name}"
    for buffer in schedule.buffers:
        yield from _buffer(buffer, schedule)
    yield from _elsewhere(schedule)
    yield from staging_lines(schedule)
    number = 0
    for step in schedule.steps:
        if isinstance(step, Kernel):
            yield from _kernel(step, number, "")
            yield from (f"  {line}" for line in level_lines(step, schedule))
            number += 1
            continue
        yield f"levels {step.order.value}, one after the other with all columns"
        for level in step.levels:
            yield f"  levels {show_interval(level.interval)}"
            for kernel in level.kernels:
                yield from _kernel(kernel, number, "    ")
                number += 1


def _buffer(buffer: Buffer, schedule: Schedule) -> Iterator[str]:
    kernels = kernels_of(schedule.steps)
    users = [n for n, kernel in enumerate(kernels) if _uses(kernel, buffer.name)]
    away = [
        offset
        for kernel in kernels
        for section in kernel.sections
        for name, offset in accesses_of(section.body)
        if name == buffer.name and offset != (0, 0, 0)
    ]
    reasons: list[str] = []
    if away:
        reasons.append(f"it is read at {list(away[0])}")
    home = home_in_block(buffer.name, schedule) or "in memory"
    if len(users) > 1:
        reasons.append(f"kernels {_list(users)} use it")
    else:
        if _sections_with(buffer.name, kernels[users[0]]) > 1:
            reasons.append("several sections use it")
        if buffer in private(schedule, kernels[users[0]]):
            home = f"kept by each column of kernel {users[0]}, or else in memory"
    yield (
        f"temporary {buffer.name}: {buffer.dtype.value} {home} {_extent(buffer.extent)}, "
        f"because {' and '.join(reasons)}"
    )


def _uses(kernel: Kernel, name: str) -> bool:
    return _sections_with(name, kernel) > 0


def _sections_with(name: str, kernel: Kernel) -> int:
    return sum(
        name in targets_of(section.body)
        or any(read == name for read, _ in accesses_of(section.body))
        for section in kernel.sections
    )


def _list(numbers: list[int]) -> str:
    head = ", ".join(str(n) for n in numbers[:-1])
    return f"{head} and {numbers[-1]}"


def _elsewhere(schedule: Schedule) -> Iterator[str]:
    """Say what became of the program's temporaries that have no memory."""
    kept = {buffer.name for buffer in schedule.buffers}
    homes: dict[str, list[int]] = {}
    for number, kernel in enumerate(kernels_of(schedule.steps)):
        for register in kernel.registers:
            homes.setdefault(register.name.partition(".")[0], []).append(number)
    alive = needed(draft(schedule.program, schedule.facts))
    for temporary in schedule.program.temporaries:
        name = temporary.name
        if any(other.partition(".")[0] == name for other in kept):
            continue
        if name in homes:
            kernels = list(dict.fromkeys(homes[name]))
            where = f"kernel {kernels[0]}" if len(kernels) == 1 else f"kernels {_list(kernels)}"
            yield f"temporary {name}: {temporary.dtype.value} in a register of {where}"
        elif name in alive:
            yield f"temporary {name}: {temporary.dtype.value} recomputed where it is read"
        else:
            yield f"temporary {name}: {temporary.dtype.value} left out, no field depends on it"


def _kernel(kernel: Kernel, number: int, margin: str) -> Iterator[str]:
    loops = "points" if kernel.order is Order.PARALLEL else "columns"
    yield f"{margin}kernel {number}: {kernel.order.value} over {loops} {_extent(kernel.extent)}"
    for register in kernel.registers:
        yield f"{margin}  register {register.name}: {register.dtype.value}"
    for section in kernel.sections:
        order = section.order or kernel.order
        turned = f", {order.value}" if order is not kernel.order else ""
        yield f"{margin}  interval {show_interval(section.interval)}{turned}"
        yield from show_body(section.body, indent=len(margin) + 4)


def _extent(extent: Horizontal) -> str:
    """Return how far around the domain.

    >>> _extent(((-1, 1), (0, 0)))
    'of the domain with 1 before and 1 after along I'
    """
    sides: list[str] = []
    for axis, (low, high) in zip("IJ", extent, strict=True):
        if (low, high) != (0, 0):
            sides.append(f"{-low} before and {high} after along {axis}")
    return "of the domain" + (f" with {', '.join(sides)}" if sides else "")
