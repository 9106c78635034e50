"""Kernels that a block of points runs in turn, and where it keeps intermediate values.

A block computes each kernel on its own points and as far around them as later kernels read, so
blocks need nothing of each other: what lies around a block is computed by its neighbours as well.
After this, each `Staging` of the schedule is proven: a block reads a temporary only where it wrote
it before, and what else the kernels write they touch at their own point alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from halocline_engine.ir.extent import CENTRE, Horizontal, enclose, shift
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.nodes import Buffer, Home, Kernel, Schedule, Staging, Step
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.storage.coverage import holds
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["common_halo", "stage"]

#: Blocks of 32 x 4 points, the smallest that pay, must fit the shared memory that every device has.
_LEAST_BLOCK = (32, 4)
_SHARED = 48 * 1024


def stage(schedule: Schedule, options: Options) -> Schedule:
    """Return the schedule with its kernels in as few and as long stagings as can be proven.

    Only where it is asked for: 'auto' has none.
    """
    match options.temporaries:
        case "shared" | "block" | "block-moved":
            home = Home(options.temporaries)
        case "auto" | "recompute" | "field":
            return schedule
    alignment = 1 if home is Home.SHARED else options.alignment
    return replace(schedule, staging=tuple(_stagings(schedule, home, alignment)))


def common_halo(buffers: Sequence[Buffer]) -> Horizontal:
    """Return the smallest extent that holds those of all temporaries and the block itself."""
    halo = CENTRE
    for buffer in buffers:
        halo = enclose(halo, buffer.extent)
    return halo


def _stagings(schedule: Schedule, home: Home, alignment: int) -> Iterator[Staging]:
    steps = schedule.steps
    first = 0
    while first < len(steps):
        last = first
        while last < len(steps) and _is_parallel(steps[last]):
            last += 1
        for end in range(last, first + 1, -1):
            found = _proven(schedule, first, end, home, alignment)
            if found is not None:
                yield found
                first = end
                break
        else:
            first += 1


def _is_parallel(step: Step) -> bool:
    """Whether a step is a PARALLEL kernel that goes through points in any order."""
    return isinstance(step, Kernel) and step.order is Order.PARALLEL and not step.is_general


@dataclass(frozen=True, slots=True)
class _Touched:
    """Reads, with offsets, and writes of one kernel; registers are left out."""

    extent: Horizontal
    reads: tuple[tuple[str, Offset], ...]
    writes: frozenset[str]

    @staticmethod
    def of(kernel: Kernel) -> _Touched:
        own = {register.name for register in kernel.registers}
        bodies = [statement for section in kernel.sections for statement in section.body]
        return _Touched(
            kernel.extent,
            tuple((name, offset) for name, offset in accesses_of(bodies) if name not in own),
            frozenset(targets_of(bodies)) - own,
        )

    @property
    def names(self) -> frozenset[str]:
        return self.writes | {name for name, _ in self.reads}


def _proven(schedule: Schedule, first: int, end: int, home: Home, alignment: int) -> Staging | None:
    """Return the staging of these steps, or None where it cannot be proven right."""
    inner = [_Touched.of(kernel) for kernel in kernels_of(schedule.steps[first:end])]
    outer = kernels_of((*schedule.steps[:first], *schedule.steps[end:]))
    elsewhere = {name for kernel in outer for name in _Touched.of(kernel).names}
    within = {name for touched in inner for name in touched.names}
    kept = tuple(b for b in schedule.buffers if b.name in within and b.name not in elsewhere)
    names = frozenset(buffer.name for buffer in kept)
    deep = any(k != 0 for touched in inner for name, (_, _, k) in touched.reads if name in names)
    if (
        not kept
        or (home is Home.SHARED and (deep or not _fits(kept)))
        or not all(_is_written_before(inner, number, names) for number in range(len(inner)))
        or not _are_apart(inner, names, schedule)
    ):
        return None
    ordered = tuple(buffer.name for buffer in kept)
    return Staging(first, end - first, ordered, home, alignment, deep)


def _fits(kept: Sequence[Buffer]) -> bool:
    (i_low, i_high), (j_low, j_high) = common_halo(kept)
    points = (_LEAST_BLOCK[0] + i_high - i_low) * (_LEAST_BLOCK[1] + j_high - j_low)
    return points * sum(max(4, buffer.dtype.itemsize) for buffer in kept) <= _SHARED


def _is_written_before(inner: Sequence[_Touched], number: int, names: frozenset[str]) -> bool:
    """Whether a kernel reads temporaries only where the block has computed all that was written.

    A block that has only some of what earlier kernels wrote would see an old value. At its own
    point a kernel may read what it writes itself.
    """
    touched = inner[number]
    for name, (i, j, k) in touched.reads:
        if name not in names:
            continue
        around = shift(touched.extent, i, j)
        writers = [earlier for earlier in inner[:number] if name in earlier.writes]
        own = (i, j, k) == (0, 0, 0) and name in touched.writes
        if not (writers or own) or not all(holds(w.extent, around) for w in writers):
            return False
    return True


def _are_apart(inner: Sequence[_Touched], names: frozenset[str], schedule: Schedule) -> bool:
    """Whether no block needs or spoils what another block writes to an array that they share."""
    written = {name for touched in inner for name in touched.writes} - names
    flat = {f.name for f in schedule.program.fields if f.axes != tuple(Axis)}
    return written.isdisjoint(flat) and all(
        touched.extent == CENTRE
        and all(offset == (0, 0, 0) for name, offset in touched.reads if name in written)
        for touched in inner
        if touched.names & written
    )
