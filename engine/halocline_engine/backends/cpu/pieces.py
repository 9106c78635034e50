"""The pieces and slabs of a call: boxes of points that threads share, none too small for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import cast

from halocline_engine.backends.cpu.calls import (
    FIRST_ARRAY,
    Box,
    Call,
    Domain,
    Entry,
    cut_of,
    flat,
    sizes_of,
    widened,
    words_of,
)
from halocline_engine.backends.cpu.phases import Phase
from halocline_engine.backends.cpu.text.strips import STRIP, StripRoom
from halocline_engine.backends.cpu.work import KernelCalls, Slabs, Temporaries, Work
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.schedule.nodes import Buffer, Kernel, Levels, Schedule

__all__ = ["SERIAL_POINTS", "WorkMaker", "across", "split", "temporaries_of"]

#: Fewer points than this are not worth waking a thread for.
SERIAL_POINTS = 16384
#: Pieces of a kernel for each thread, so that a thread that other work holds up does fewer.
_PIECES = 4
#: The same for kernels that read planes twice, once for each piece that they lie beside.
_PIECES_OF_PLANES = 2
#: Columns of a strip: whole vectors, and no more than what other loops take.
_LEAST_COLUMNS, _MOST_COLUMNS = 8, 64
#: Bytes of an element of a strip, whatever its type, and of a line of a cache.
_ITEM, _LINE = 8, 64


def across(inner: Axis) -> int:
    """Return the axis that slabs are cut across: the outermost loop of column kernels."""
    return 1 if inner is Axis.I else 0


def temporaries_of(schedule: Schedule, phases: Sequence[Phase], call: Call) -> Temporaries:
    """Return the temporaries that hold the whole domain."""
    local = {buffer.name for phase in phases for buffer in phase.local}
    needed = {name for entry in call.entries for name in entry.function.arrays} - local
    shared = (buffer for buffer in schedule.buffers if buffer.name in needed)
    return Temporaries(call.inner, tuple((buffer, call.domain) for buffer in shared))


@dataclass(frozen=True, slots=True)
class WorkMaker:
    """Cuts the work of a call, whose places have the temporaries of the whole domain too."""

    call: Call
    temporaries: Temporaries
    threads: int

    def work(self, phases: Sequence[Phase]) -> Work:
        """Return what the call does."""
        return Work(tuple(self._steps(phases)), self.temporaries, self.threads)

    def _steps(self, phases: Sequence[Phase]) -> Iterator[KernelCalls | Slabs]:
        entries = iter(self.call.entries)
        for phase in phases:
            first = phase.steps[0]
            if isinstance(first, Levels):
                yield from self._levels(first, entries)
                continue
            kernels = [(step, next(entries)) for step in phase.steps if isinstance(step, Kernel)]
            needed = {name for _, entry in kernels for name in entry.function.arrays}
            local = tuple(buffer for buffer in phase.local if buffer.name in needed)
            if len(kernels) == 1 and not local and STRIP not in needed:
                yield self._kernel(*kernels[0], (0, self.call.domain[2]))
            else:
                yield self._slabs(kernels, local)

    def _levels(self, step: Levels, entries: Iterator[Entry]) -> Iterator[KernelCalls]:
        """Yield the kernels of each level, level by level."""
        for level in step.levels:
            own = [(kernel, next(entries)) for kernel in level.kernels]
            start = level.interval.start.level(self.call.domain[2])
            end = level.interval.end.level(self.call.domain[2])
            numbers = range(start, end)
            for k in numbers if step.order is Order.FORWARD else reversed(numbers):
                yield from (self._kernel(kernel, entry, (k, k + 1)) for kernel, entry in own)

    def _kernel(self, kernel: Kernel, entry: Entry, levels: tuple[int, int]) -> KernelCalls:
        """Return a kernel on all its points, in pieces where that pays."""
        box = widened(self.call.domain, kernel.extent, levels)
        points = prod(high - low for low, high in box)
        found = cut_of(kernel, entry, self.call, sizes_of(box))
        pieces = [box]
        if self.threads > 1 and points >= SERIAL_POINTS:
            each = _PIECES_OF_PLANES if entry.function.reuse.planes else _PIECES
            count = max(self.threads, min(self.threads * each, points // SERIAL_POINTS))
            pieces = self._pieces(kernel, box, count, found.width)
        boxes = tuple(tuple(flat(piece)) for piece in pieces)
        return self._calls(entry, boxes, words_of(entry, self.call, found))

    def _pieces(self, kernel: Kernel, box: Box, count: int, width: int) -> list[Box]:
        """Return the box in about so many pieces; one with many columns is cut between columns.

        A cut across columns would make both sides read the rows next to it.
        """
        inner = 0 if self.call.inner is Axis.I else 2
        low, high = box[inner]
        columns = -(-(high - low) // width)
        if columns < 2 * self.threads:
            is_sequential = kernel.order is not Order.PARALLEL
            return split(box, count, self.call.inner, sequential=is_sequential)
        bounds = _cuts(0, columns, min(count, columns))
        cuts = [min(low + column * width, high) for column in bounds]
        return [cast("Box", (*box[:inner], pair, *box[inner + 1 :])) for pair in pairwise(cuts)]

    def _slabs(self, kernels: list[tuple[Kernel, Entry]], local: tuple[Buffer, ...]) -> Slabs:
        """Return several kernels that are called slab by slab."""
        call, axis = self.call, across(self.call.inner)
        if len(kernels) == 1 and not local and call.domain[axis] < self.threads:
            # What kernels hand to each other stays in a slab across the other axis alone.
            axis = 1 - axis
        low, high = kernels[0][0].extent[axis]
        cuts = _cuts(low, call.domain[axis] + high, self._count(kernels, axis, local))
        ranges = tuple(pair for pair in pairwise(cuts) if pair[0] < pair[1])
        size = max(b - a for a, b in ranges)
        on_slab = Temporaries(
            call.inner,
            (*(_on_slab(b, call, axis, size) for b in local), *self._strip_memory(kernels)),
        )
        own = on_slab.places()
        here = replace(self, call=replace(call, places={**call.places, **own}))
        moving = tuple(
            tuple(
                (FIRST_ARRAY + 4 * n, name, own[name].words[1 + axis] * (name != STRIP))
                for n, name in enumerate(entry.function.arrays)
                if name in own
            )
            for _, entry in kernels
        )
        several = tuple(here.of_slab(kernel, entry, axis, size) for kernel, entry in kernels)
        workers = self.threads if prod(call.domain) >= SERIAL_POINTS else 1
        return Slabs(several, ranges, axis, on_slab, moving, min(workers, len(ranges)))

    def of_slab(self, kernel: Kernel, entry: Entry, axis: int, size: int) -> KernelCalls:
        """Return a kernel on all its points, of which a call has at most `size` across `axis`."""
        box = widened(self.call.domain, kernel.extent, (0, self.call.domain[2]))
        sizes = list(sizes_of(box))
        sizes[axis] = size
        found = cut_of(kernel, entry, self.call, (sizes[0], sizes[1], sizes[2]))
        if entry.function.strips:
            found = replace(found, width=self._columns(entry.function.strips))
        return self._calls(entry, (tuple(flat(box)),), words_of(entry, self.call, found))

    def _columns(self, strips: StripRoom) -> int:
        """Return how many columns a strip has, so that it fits in a core's cache."""
        column = strips.arrays * (self.call.domain[2] + strips.beyond) * _ITEM
        fitting = self.call.caches.level2 // 2 // column
        return min(max(fitting, _LEAST_COLUMNS), _MOST_COLUMNS) // _LEAST_COLUMNS * _LEAST_COLUMNS

    def _strip_memory(
        self, kernels: Sequence[tuple[Kernel, Entry]]
    ) -> Iterator[tuple[Buffer, Domain]]:
        """Yield the memory for strips of the kernels, in which all have their arrays."""
        several = [entry.function.strips for _, entry in kernels if entry.function.strips]
        if several:
            lines = max((self._columns(one) + one.around) * _ITEM for one in several) // _LINE + 1
            levels = max(one.beyond for one in several) + self.call.domain[2]
            # With an odd number of lines, levels share no set of a cache.
            columns = (lines | 1) * _LINE // _ITEM
            arrays = max(one.arrays for one in several)
            nowhere = ((0, 0), (0, 0))
            yield Buffer(STRIP, DType.FLOAT64, nowhere), (arrays, levels, columns)

    def _calls(
        self, entry: Entry, boxes: tuple[tuple[int, ...], ...], words: tuple[int, ...]
    ) -> KernelCalls:
        shared = {buffer.name for buffer, _ in self.temporaries.buffers}
        temporaries = tuple(
            (FIRST_ARRAY + 4 * n, name)
            for n, name in enumerate(entry.function.arrays)
            if name in shared
        )
        scalars = tuple(entry.function.scalars)
        return KernelCalls(entry.compiled, boxes, words, temporaries, scalars)

    def _count(
        self, kernels: list[tuple[Kernel, Entry]], axis: int, local: tuple[Buffer, ...]
    ) -> int:
        """Return how many slabs to cut: each fits in a core's cache, and each thread has one."""
        call = self.call
        low, high = kernels[0][0].extent[axis]
        arrays = {name for _, entry in kernels for name in entry.function.arrays}
        count = self.threads if prod(call.domain) >= SERIAL_POINTS else 1
        if len(kernels) == 1 and not local:
            count *= _PIECES if count > 1 else 1
        else:
            count = max(count, prod(call.domain) * 8 * len(arrays) // call.caches.level2)
        return max(1, min(call.domain[axis] + high - low, count))


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


def _cuts(low: int, high: int, count: int) -> list[int]:
    """Return the bounds of `count` ranges of nearly equal size; empty ones where there are many."""
    return [low + (high - low) * n // count for n in range(count + 1)]


def _on_slab(buffer: Buffer, call: Call, axis: int, size: int) -> tuple[Buffer, Domain]:
    """Return a temporary and its domain on one slab of at most `size` points across `axis`."""
    extent = tuple((0, 0) if n == axis else pair for n, pair in enumerate(buffer.extent))
    i, j, k = (size if n == axis else points for n, points in enumerate(call.domain))
    return replace(buffer, extent=(extent[0], extent[1])), (i, j, k)
