"""Kernels that share a column: a thread goes down and up before the next column.

After `sink`, kernels that follow each other and hand values on within a column only are one kernel,
whose sections say in which order they visit their levels. What such a kernel hands on from section
to section need not go through memory: see `private`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.nodes import Buffer, Kernel, Schedule, Section, Step
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["private", "sink"]

#: The least share of what two kernels move, each on its own, that points must save to go along with
#: columns.
_SAVED = 0.25


def sink(schedule: Schedule) -> Schedule:
    """Return the schedule with kernels united that can share columns and have arrays in common.

    A PARALLEL kernel joins others only where they hand on a buffer that columns may keep, or where
    a good part of what it moves is at hand in their columns, since its points could also run side
    by side.
    """
    buffers = frozenset(buffer.name for buffer in schedule.buffers)
    fields = (field for field in schedule.program.fields if len(field.axes) == len(Axis))
    sizes = {one.name: one.dtype.itemsize for one in (*fields, *schedule.buffers)}
    steps: list[Step] = []
    uses: list[_Use | None] = []
    for step in schedule.steps:
        steps.append(step)
        uses.append(_Use.of(step) if isinstance(step, Kernel) else None)
        while len(steps) > 1:
            first, second = steps[-2:]
            a, b = uses[-2:]
            if not (isinstance(first, Kernel) and isinstance(second, Kernel) and a and b):
                break
            may_share = first.extent == second.extent and a.is_apart_from(b)
            gains = may_share and _gain(first, second, (a, b), buffers)
            if not (gains or (may_share and _saved(first, second, (a, b), sizes) >= _SAVED)):
                break
            steps[-2:], uses[-2:] = [_united(first, second)], [a.united(b)]
    return replace(schedule, steps=tuple(steps))


def private(schedule: Schedule, kernel: Kernel) -> tuple[Buffer, ...]:
    """Return the buffers that the columns of one kernel use each for itself, and nothing else does.

    They need no memory where a column keeps them.
    """
    if kernel.order is Order.PARALLEL:
        return ()
    uses = [_Use.of(other) for other in kernels_of(schedule.steps)]
    own = _Use.of(kernel)
    return tuple(
        buffer
        for buffer in schedule.buffers
        if buffer.name in own.names - own.across - own.irregular
        and sum(buffer.name in use.names for use in uses) == 1
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """The names that a kernel touches, writes, and reads in other columns.

    Those in `irregular` it touches at levels that only a run knows.
    """

    names: frozenset[str]
    written: frozenset[str]
    across: frozenset[str]
    irregular: frozenset[str]

    @staticmethod
    @remembered
    def of(kernel: Kernel) -> _Use:
        registers = {register.name for register in kernel.registers}
        written = {name for section in kernel.sections for name in targets_of(section.body)}
        reads = [read for section in kernel.sections for read in accesses_of(section.body)]
        return _Use(
            names=frozenset((written | {name for name, _ in reads}) - registers),
            written=frozenset(written - registers),
            across=frozenset(name for name, offset in reads if offset[:2] != (0, 0)),
            irregular=kernel.irregular,
        )

    def united(self, other: _Use) -> _Use:
        """Return the names of two kernels that become one; neither has registers of the other."""
        return _Use(
            self.names | other.names,
            self.written | other.written,
            self.across | other.across,
            self.irregular | other.irregular,
        )

    def is_apart_from(self, other: _Use) -> bool:
        """Return whether no column of either kernel needs or spoils what another column has."""
        return self.written.isdisjoint(other.across) and other.written.isdisjoint(self.across)


def _gain(first: Kernel, second: Kernel, uses: tuple[_Use, _Use], buffers: frozenset[str]) -> bool:
    orders = (first.order, second.order)
    if orders == (Order.PARALLEL, Order.PARALLEL):
        return False
    one, two = uses
    shared = one.names & two.names
    kept = (shared & buffers) - one.irregular - two.irregular
    return bool(kept if Order.PARALLEL in orders else shared)


def _saved(
    first: Kernel, second: Kernel, uses: tuple[_Use, _Use], sizes: Mapping[str, int]
) -> float:
    """Return the share of the bytes of both that a column saves which visits each level once."""
    orders = {first.order, second.order}
    if Order.PARALLEL not in orders or len(orders) == 1 or not _may_visit_once(first, second, uses):
        return 0.0
    (read, written), (read_again, written_again) = _moved(first), _moved(second)
    again = (*(read_again & (read | written)), *(written_again & written))
    moved = sum(sizes.get(name, 0) for name in (*read, *written, *read_again, *written_again))
    return sum(sizes.get(name, 0) for name in again) / moved if moved else 0.0


def _may_visit_once(first: Kernel, second: Kernel, uses: tuple[_Use, _Use]) -> bool:
    """Return whether a level may do what both kernels do before the next level does."""
    one, two = uses
    if first.is_general or second.is_general or (first.flat | second.flat) & one.names & two.names:
        return False
    order = _last_order(first) if second.order is Order.PARALLEL else _first_order(second)
    ahead = 1 if order is Order.FORWARD else -1
    return not (
        any(k * ahead > 0 for k in _offsets(second, one.written))
        or any(k * ahead < 0 for k in _offsets(first, two.written))
    )


def _offsets(kernel: Kernel, names: frozenset[str]) -> Iterator[int]:
    """Yield the offsets along K at which a kernel reads some names."""
    for section in kernel.sections:
        yield from (offset[2] for name, offset in accesses_of(section.body) if name in names)


def _moved(kernel: Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a kernel reads and writes on more than a fixed number of levels."""
    tall = [s for s in kernel.sections if s.interval.start.from_end != s.interval.end.from_end]
    return (
        frozenset(name for section in tall for name, _ in accesses_of(section.body)),
        frozenset(name for section in tall for name in targets_of(section.body)),
    )


def _united(first: Kernel, second: Kernel) -> Kernel:
    """Return a kernel with the sections of both; points side by side go along with the others."""
    above = _last_order(first) if first.order is not Order.PARALLEL else second.order
    below = second.order if second.order is not Order.PARALLEL else above
    return Kernel(
        above if first.order is Order.PARALLEL else first.order,
        first.extent,
        (*_ordered(first, above), *_ordered(second, below)),
        (*first.registers, *second.registers),
        first.flat | second.flat,
    )


def _first_order(kernel: Kernel) -> Order:
    return kernel.sections[0].order or kernel.order


def _last_order(kernel: Kernel) -> Order:
    return kernel.sections[-1].order or kernel.order


def _ordered(kernel: Kernel, order: Order) -> tuple[Section, ...]:
    if kernel.sections[-1].order is not None:  # those of a united kernel all have one
        return kernel.sections
    own = order if kernel.order is Order.PARALLEL else kernel.order
    return tuple(replace(section, order=section.order or own) for section in kernel.sections)
