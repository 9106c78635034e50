"""Generated text -> calls: compile for the layout at hand, split over threads, run in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import cast

from halocline_engine.backends.base import HostFields, Origins, Point, Scalars, Value
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.calls import (
    FIRST_ARRAY,
    Box,
    Call,
    Domain,
    Entry,
    Kernels,
    Place,
    buffer_place,
    cut_of,
    sizes_of,
    widened,
    words_of,
)
from halocline_engine.backends.cpu.code import Compiled
from halocline_engine.backends.cpu.phases import phases
from halocline_engine.backends.cpu.team import Team, in_turn, taken
from halocline_engine.backends.cpu.temporal.fused import FusedExecutable, StepTiles
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.backends.host import HostExecutable
from halocline_engine.ir.types import Axis, Order
from halocline_engine.schedule.nodes import Buffer, Kernel, Levels, Schedule

__all__ = ["SERIAL_POINTS", "CpuExecutable", "split"]

#: Fewer points than this are not worth waking a thread for.
SERIAL_POINTS = 16384
#: Pieces of a kernel for each thread, so that a thread that other work holds up does fewer.
_PIECES = 4
#: The same for kernels that read planes twice, once for each piece that they lie beside.
_PIECES_OF_PLANES = 2


@dataclass(frozen=True, slots=True)
class _Notes:
    """Calls of kernels with their arguments, to be made again, and what their memory belongs to."""

    calls: list[tuple[Compiled, tuple[Value, ...]]]
    room: list[object]

    def __call__(self) -> None:
        for compiled, words in self.calls:
            compiled(*words)

    def noting(self, compiled: Compiled) -> Compiled:
        """Return what notes a call of a kernel instead of making it."""
        return lambda *words: self.calls.append((compiled, words))


class CpuExecutable(FusingExecutable[FusedExecutable], HostExecutable):
    """`backends.base.Executable` on the host's cores; safe to call from several threads at once.

    A call uses as many threads as `numba.get_num_threads()` says in the thread that calls. The
    caches are those that its work should fit.
    """

    def __init__(self, schedule: Schedule, caches: Caches) -> None:
        self._schedule = schedule
        self._kernels = Kernels(schedule, caches)
        self._phases = tuple(phases(schedule, axis) for axis in (0, 1))
        self._team = Team()
        self._spare: deque[tuple[object, dict[str, Place]]] = deque(maxlen=4)
        super().__init__(schedule, StepTiles(self._kernels, self._team))

    def __call__(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> None:
        """Run once, on the caller's arrays."""
        if 0 in domain:
            return
        call, buffers = self._bound(fields, scalars, origins, domain)
        self._steps(call)
        if buffers:
            self._spare.append(((call.inner, domain), buffers))

    def prepared(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return the call as one that can be made again; see `backends.base.Preparable`."""
        if 0 in domain:
            return _nothing
        call, _ = self._bound(fields, scalars, origins, domain)
        if call.threads > 1 and prod(domain) >= SERIAL_POINTS:
            later: list[Callable[[], None]] = []
            self._steps(replace(call, later=later))
            return partial(in_turn, later)
        notes = _Notes([], [call])
        entries = tuple(replace(e, compiled=notes.noting(e.compiled)) for e in call.entries)
        self._steps(replace(call, entries=entries, threads=1, room=notes.room))
        return notes

    def _bound(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> tuple[Call, dict[str, Place]]:
        """Return what a run knows, and the memory of the temporaries in it."""
        call = self._kernels.call(fields, scalars, origins, domain)
        buffers = self._take((call.inner, domain))
        return replace(call, places={**call.places, **buffers}), buffers

    def machine_code(self) -> tuple[str, ...]:
        """Return the assembly of every kernel compiled so far, for people and tests."""
        return self._kernels.machine_code()

    def _take(self, key: tuple[Axis, Domain]) -> dict[str, Place]:
        """Return memory for the temporaries: that of an earlier call where it fits."""
        while self._spare:
            try:
                known, buffers = self._spare.pop()
            except IndexError:
                break
            if known == key:
                return buffers
        inner, domain = key
        local = {b.name for phase in self._phases[_across(inner)] for b in phase.local}
        shared = [b for b in self._schedule.buffers if b.name not in local]
        return {b.name: buffer_place(b, inner, domain) for b in shared}

    def _steps(self, call: Call) -> None:
        entries = iter(call.entries)
        for phase in self._phases[_across(call.inner)]:
            first = phase.steps[0]
            if isinstance(first, Levels):
                self._levels(first, entries, call)
                continue
            kernels = [(step, next(entries)) for step in phase.steps if isinstance(step, Kernel)]
            if len(kernels) == 1 and not phase.local:
                self._kernel(*kernels[0], call, (0, call.domain[2]))
            elif call.later is None:
                self._slabs(kernels, phase.local, call)
            else:
                now = replace(call, later=None)
                call.later.append(partial(self._slabs, kernels, phase.local, now))

    def _levels(self, step: Levels, entries: Iterator[Entry], call: Call) -> None:
        for level in step.levels:
            own = [(kernel, next(entries)) for kernel in level.kernels]
            start = level.interval.start.level(call.domain[2])
            end = level.interval.end.level(call.domain[2])
            numbers = range(start, end)
            for k in numbers if step.order is Order.FORWARD else reversed(numbers):
                for kernel, entry in own:
                    self._kernel(kernel, entry, call, (k, k + 1))

    def _kernel(self, kernel: Kernel, entry: Entry, call: Call, levels: tuple[int, int]) -> None:
        """Run a kernel on all its points, in pieces where that pays, and wait for all of them."""
        box = widened(call.domain, kernel.extent, levels)
        points = prod(high - low for low, high in box)
        found = cut_of(kernel, entry, call, sizes_of(box))
        pieces = [box]
        if call.threads > 1 and points >= SERIAL_POINTS:
            each = _PIECES_OF_PLANES if entry.function.reuse.planes else _PIECES
            count = max(call.threads, min(call.threads * each, points // SERIAL_POINTS))
            pieces = _pieces(kernel, box, count, call, found.width)
        words = [words_of(entry, call, piece, found) for piece in pieces]
        if call.later is None:
            self._team.run(entry.compiled, words, call.threads)
        else:
            call.later.append(partial(self._team.run, entry.compiled, words, call.threads))

    def _slabs(
        self, kernels: list[tuple[Kernel, Entry]], local: tuple[Buffer, ...], call: Call
    ) -> None:
        """Run several kernels slab by slab; a slab's arrays fit in a core's cache."""
        axis = _across(call.inner)
        low, high = kernels[0][0].extent[axis]
        cuts = _cuts(low, call.domain[axis] + high, _count(kernels, call))

        slabs = deque(pair for pair in pairwise(cuts) if pair[0] < pair[1])
        size = max(b - a for a, b in slabs)

        def run() -> None:
            own = {b.name: _slab_buffer(b, call, axis, size) for b in local}
            if call.room is not None:
                call.room.append(own)
            here = replace(call, places={**call.places, **own})
            work = [_slab_work(kernel, entry, here, own, axis, size) for kernel, entry in kernels]
            for a, b in taken(slabs):
                for compiled, words, moving in work:
                    words[2 * axis : 2 * axis + 2] = a, b
                    for at, address, stride in moving:
                        words[at] = address - a * stride
                    compiled(*words)

        workers = call.threads if prod(call.domain) >= SERIAL_POINTS else 1
        self._team.share(run, min(workers, len(slabs)))


def split(box: Box, pieces: int, inner: Axis, *, sequential: bool) -> list[Box]:
    """Return the box in at most `pieces` boxes of nearly equal size along one axis.

    The axis is the outermost one of the loops that has two points or more for each piece, else the
    longest. A sequential kernel is not split along K.

    >>> split(((0, 8), (0, 4), (0, 1)), 2, Axis.I, sequential=False)
    [((0, 8), (0, 2), (0, 1)), ((0, 8), (2, 4), (0, 1))]
    """
    order = (2, 1, 0) if inner is Axis.I else (0, 1, 2)
    axes = [axis for axis in order if not (sequential and axis == 2)]
    sizes = [high - low for low, high in box]
    long = [axis for axis in axes if sizes[axis] >= 2 * pieces]
    axis = long[0] if long else max(axes, key=lambda a: sizes[a])
    cuts = _cuts(*box[axis], max(1, min(pieces, sizes[axis])))
    return [
        cast("Box", (*box[:axis], (start, end), *box[axis + 1 :])) for start, end in pairwise(cuts)
    ]


def _nothing() -> None:
    """Run on no points."""


def _pieces(kernel: Kernel, box: Box, count: int, call: Call, width: int) -> list[Box]:
    """Return the box in about so many pieces; one with many columns is cut between columns.

    A cut across columns would make both sides read the rows next to it.
    """
    inner = 0 if call.inner is Axis.I else 2
    low, high = box[inner]
    columns = -(-(high - low) // width)
    if columns < 2 * call.threads:
        return split(box, count, call.inner, sequential=kernel.order is not Order.PARALLEL)
    cuts = [min(low + column * width, high) for column in _cuts(0, columns, min(count, columns))]
    return [cast("Box", (*box[:inner], pair, *box[inner + 1 :])) for pair in pairwise(cuts)]


def _across(inner: Axis) -> int:
    """Return the axis that slabs are cut across: the outermost loop of column kernels."""
    return 1 if inner is Axis.I else 0


def _cuts(low: int, high: int, count: int) -> list[int]:
    """Return the bounds of `count` ranges of nearly equal size; empty ones where there are many."""
    return [low + (high - low) * n // count for n in range(count + 1)]


def _count(kernels: list[tuple[Kernel, Entry]], call: Call) -> int:
    """Return how many slabs to cut: each fits in a core's cache, and each thread has one."""
    axis = _across(call.inner)
    low, high = kernels[0][0].extent[axis]
    arrays = {name for _, entry in kernels for name in entry.function.arrays}
    needed = prod(call.domain) * 8 * len(arrays) // call.caches.level2
    least = call.threads if prod(call.domain) >= SERIAL_POINTS else 1
    return max(1, min(call.domain[axis] + high - low, max(needed, least)))


def _slab_buffer(buffer: Buffer, call: Call, axis: int, size: int) -> Place:
    """Return memory for a temporary on one slab of at most `size` points across `axis`."""
    extent = tuple((0, 0) if n == axis else pair for n, pair in enumerate(buffer.extent))
    domain = [size if n == axis else points for n, points in enumerate(call.domain)]
    narrow = replace(buffer, extent=(extent[0], extent[1]))
    return buffer_place(narrow, call.inner, (domain[0], domain[1], domain[2]))


def _slab_work(
    kernel: Kernel, entry: Entry, call: Call, own: Mapping[str, Place], axis: int, size: int
) -> tuple[Compiled, list[Value], list[tuple[int, int, int]]]:
    """Return a kernel with its arguments, and which of them move with the slab.

    Those are (index, address, stride) of the buffers that hold one slab: the domain's first point
    lies before their memory, as far as the slab's first point is from it.
    """
    box = widened(call.domain, kernel.extent, (0, call.domain[2]))
    sizes = list(sizes_of(box))
    sizes[axis] = size
    found = cut_of(kernel, entry, call, (sizes[0], sizes[1], sizes[2]))
    words = list(words_of(entry, call, box, found))
    moving = [
        (FIRST_ARRAY + 4 * n, own[name].words[0], own[name].words[1 + axis])
        for n, name in enumerate(entry.function.arrays)
        if name in own
    ]
    return entry.compiled, words, moving
