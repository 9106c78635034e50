"""Generated text -> calls: compile for the layout at hand, split over threads, run in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod
from threading import Lock
from typing import Any, TypeAlias, cast

import numba
import numpy as np

from halocline_engine.backends.base import HostArray, Value
from halocline_engine.backends.cpu.ahead import leaves_caches, touched
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.code import Compiled, Signature, machine_code
from halocline_engine.backends.cpu.columns import Cut, Sizes, cut
from halocline_engine.backends.cpu.phases import phases
from halocline_engine.backends.cpu.team import Team, in_turn, taken
from halocline_engine.backends.cpu.text.emit import Function, emit
from halocline_engine.backends.cpu.text.layout import Layout, layout_of
from halocline_engine.backends.host import HostExecutable, HostMemory
from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.schedule.nodes import Buffer, Kernel, Levels, Schedule
from halocline_engine.schedule.traversal.walks import Walk

__all__ = ["SERIAL_POINTS", "Box", "CpuExecutable", "split"]

#: (first, one past the last) along I, J and K, relative to the domain's first point.
Box: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
_Domain: TypeAlias = tuple[int, int, int]

#: Fewer points than this are not worth waking a thread for.
SERIAL_POINTS = 16384
#: Pieces of a kernel for each thread, so that a thread that other work holds up does fewer.
_PIECES = 4
#: The same for kernels that read planes twice, once for each piece that they lie beside.
_PIECES_OF_PLANES = 2
#: Arguments before those of the arrays: the box, the number of levels, rows and width.
_FIRST_ARRAY = 9


@dataclass(frozen=True, slots=True)
class _Place:
    """The address of the domain's first point and the strides along I, J and K, in bytes."""

    array: HostArray
    words: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A compiled kernel and what it is called with."""

    function: Function
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class _Call:
    """What one run knows: code, arrays, scalars, and over how many threads it is split."""

    entries: tuple[_Entry, ...]
    places: Mapping[str, _Place]
    scalars: Mapping[str, Value]
    domain: _Domain
    inner: Axis
    threads: int
    walk: Walk
    caches: Caches
    #: Where it is a list, memory of slabs stays in it.
    room: list[object] | None = None
    #: Where it is a list, what threads share is put there instead of being done.
    later: list[Callable[[], None]] | None = None


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


class CpuExecutable(HostExecutable):
    """`backends.base.Executable` on the host's cores; safe to call from several threads at once.

    A call uses as many threads as `numba.get_num_threads()` says in the thread that calls. The
    caches are those that its work should fit.
    """

    def __init__(self, schedule: Schedule, caches: Caches) -> None:
        self._schedule = schedule
        self._caches = caches
        self._touched = touched(schedule.program)
        self._compiled: dict[Layout, tuple[_Entry, ...]] = {}
        self._phases = tuple(phases(schedule, axis) for axis in (0, 1))
        self._lock = Lock()
        self._team = Team()
        self._spare: deque[tuple[object, dict[str, _Place]]] = deque(maxlen=4)

    def __call__(
        self,
        fields: Mapping[str, HostArray],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> None:
        """Run once, on the caller's arrays."""
        if 0 in domain:
            return
        call, buffers = self._bound(fields, scalars, origins, domain)
        self._steps(call)
        if buffers:
            self._spare.append(((call.inner, domain), buffers))

    def prepared(
        self,
        fields: Mapping[str, HostArray],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
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
        self,
        fields: Mapping[str, HostArray],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> tuple[_Call, dict[str, _Place]]:
        """Return what a run knows, and the memory of the temporaries in it."""
        used = [f.name for f in self._schedule.program.fields if f.read or f.written]
        places = {name: _place(fields[name], origins[name]) for name in used}
        strides = {name: place.words[1:] for name, place in places.items()}
        apart = len({place.words[0] for place in places.values()}) == len(places)
        asks = leaves_caches(prod(domain) * self._touched, self._caches)
        layout = layout_of(self._schedule.program, strides, apart=apart, asks=asks)
        entries = self._entries(layout)
        buffers = self._take((layout.inner, domain))
        both = {**places, **buffers}
        call = _Call(
            entries,
            both,
            scalars,
            domain,
            layout.inner,
            _threads(),
            self._schedule.walk,
            self._caches,
        )
        return call, buffers

    def machine_code(self) -> tuple[str, ...]:
        """Return the assembly of every kernel compiled so far, for people and tests."""
        return tuple(
            "\n".join(cast("Any", entry.compiled).inspect_asm().values())
            for entries in self._compiled.values()
            for entry in entries
        )

    def _entries(self, layout: Layout) -> tuple[_Entry, ...]:
        """Return the kernels compiled for a layout; the first call with it waits for Numba."""
        entries = self._compiled.get(layout)
        if entries is None:
            with self._lock:
                entries = self._compiled.get(layout) or _compile(self._schedule, layout)
                self._compiled[layout] = entries
        return entries

    def _take(self, key: tuple[Axis, _Domain]) -> dict[str, _Place]:
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
        return {b.name: _buffer(b, inner, domain) for b in shared}

    def _steps(self, call: _Call) -> None:
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

    def _levels(self, step: Levels, entries: Iterator[_Entry], call: _Call) -> None:
        for level in step.levels:
            own = [(kernel, next(entries)) for kernel in level.kernels]
            start = level.interval.start.level(call.domain[2])
            end = level.interval.end.level(call.domain[2])
            numbers = range(start, end)
            for k in numbers if step.order is Order.FORWARD else reversed(numbers):
                for kernel, entry in own:
                    self._kernel(kernel, entry, call, (k, k + 1))

    def _kernel(self, kernel: Kernel, entry: _Entry, call: _Call, levels: tuple[int, int]) -> None:
        """Run a kernel on all its points, in pieces where that pays, and wait for all of them."""
        box = _widened(call.domain, kernel.extent, levels)
        rest = _arguments(entry.function, call)
        nk = call.domain[2]
        points = prod(high - low for low, high in box)
        found = _cut(kernel, entry, call, _sizes(box))
        pieces = [box]
        if call.threads > 1 and points >= SERIAL_POINTS:
            each = _PIECES_OF_PLANES if entry.function.reuse.planes else _PIECES
            count = max(call.threads, min(call.threads * each, points // SERIAL_POINTS))
            pieces = _pieces(kernel, box, count, call, found.width)
        words = [(*_flat(piece), nk, found.rows, found.width, *rest) for piece in pieces]
        if call.later is None:
            self._team.run(entry.compiled, words, call.threads)
        else:
            call.later.append(partial(self._team.run, entry.compiled, words, call.threads))

    def _slabs(
        self, kernels: list[tuple[Kernel, _Entry]], local: tuple[Buffer, ...], call: _Call
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


def _pieces(kernel: Kernel, box: Box, count: int, call: _Call, width: int) -> list[Box]:
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


def _threads() -> int:
    return int(cast("Any", numba).get_num_threads())


def _compile(schedule: Schedule, layout: Layout) -> tuple[_Entry, ...]:
    """Compile the text of our own emitter, which holds no name or text of a user's."""
    module = emit(schedule, layout)
    types = {s.name: s.dtype for s in schedule.program.scalars}
    code = machine_code(
        module.text, [_signature(one, types) for one in module.functions], module.parts
    )
    return tuple(map(_Entry, module.functions, code))


def _signature(function: Function, types: Mapping[str, DType]) -> Signature:
    words = ["int64"] * (_FIRST_ARRAY + 4 * len(function.arrays))
    return function.name, (*words, *(_scalar_type(types[name]) for name in function.scalars))


def _scalar_type(dtype: DType) -> str:
    """Return the type that a scalar is passed in: Python's own, converted inside."""
    return "float64" if dtype.is_float else "boolean" if dtype is DType.BOOL else "int64"


def _place(array: HostArray, origin: tuple[int, int, int]) -> _Place:
    i, j, k = array.strides
    address = cast("int", array.__array_interface__["data"][0])
    return _Place(array, (address + origin[0] * i + origin[1] * j + origin[2] * k, i, j, k))


def _buffer(buffer: Buffer, inner: Axis, domain: _Domain) -> _Place:
    (i_low, i_high), (j_low, j_high) = buffer.extent
    ni, nj, nk = domain
    i_size, j_size = ni + i_high - i_low, nj + j_high - j_low
    dtype = np.dtype(buffer.dtype.value)
    if inner is Axis.I:
        array = HostMemory().empty((i_size, j_size, nk), dtype, (-i_low, -j_low, 0))
    else:
        turned = HostMemory().empty((nk, j_size, i_size), dtype, (0, -j_low, -i_low))
        array = turned.transpose(2, 1, 0)
    return _place(array, (-i_low, -j_low, 0))


def _widened(domain: _Domain, extent: Horizontal, levels: tuple[int, int]) -> Box:
    (i_low, i_high), (j_low, j_high) = extent
    return (i_low, domain[0] + i_high), (j_low, domain[1] + j_high), levels


def _across(inner: Axis) -> int:
    """Return the axis that slabs are cut across: the outermost loop of column kernels."""
    return 1 if inner is Axis.I else 0


def _cuts(low: int, high: int, count: int) -> list[int]:
    """Return the bounds of `count` ranges of nearly equal size; empty ones where there are many."""
    return [low + (high - low) * n // count for n in range(count + 1)]


def _count(kernels: list[tuple[Kernel, _Entry]], call: _Call) -> int:
    """Return how many slabs to cut: each fits in a core's cache, and each thread has one."""
    axis = _across(call.inner)
    low, high = kernels[0][0].extent[axis]
    arrays = {name for _, entry in kernels for name in entry.function.arrays}
    needed = prod(call.domain) * 8 * len(arrays) // call.caches.level2
    least = call.threads if prod(call.domain) >= SERIAL_POINTS else 1
    return max(1, min(call.domain[axis] + high - low, max(needed, least)))


def _cut(kernel: Kernel, entry: _Entry, call: _Call, sizes: Sizes) -> Cut:
    """Return the columns that a kernel walks in, where a box has so many points along each axis."""
    i, j, k = sizes
    turned = (i, j, k) if call.inner is Axis.I else (k, j, i)
    return cut(entry.function.reuse, kernel, turned, call.walk, call.caches)


def _slab_buffer(buffer: Buffer, call: _Call, axis: int, size: int) -> _Place:
    """Return memory for a temporary on one slab of at most `size` points across `axis`."""
    extent = tuple((0, 0) if n == axis else pair for n, pair in enumerate(buffer.extent))
    domain = [size if n == axis else points for n, points in enumerate(call.domain)]
    narrow = replace(buffer, extent=(extent[0], extent[1]))
    return _buffer(narrow, call.inner, (domain[0], domain[1], domain[2]))


def _slab_work(
    kernel: Kernel, entry: _Entry, call: _Call, own: Mapping[str, _Place], axis: int, size: int
) -> tuple[Compiled, list[Value], list[tuple[int, int, int]]]:
    """Return a kernel with its arguments, and which of them move with the slab.

    Those are (index, address, stride) of the buffers that hold one slab: the domain's first point
    lies before their memory, as far as the slab's first point is from it.
    """
    box = _widened(call.domain, kernel.extent, (0, call.domain[2]))
    sizes = list(_sizes(box))
    sizes[axis] = size
    found = _cut(kernel, entry, call, (sizes[0], sizes[1], sizes[2]))
    words = [
        *_flat(box),
        call.domain[2],
        found.rows,
        found.width,
        *_arguments(entry.function, call),
    ]
    moving = [
        (_FIRST_ARRAY + 4 * n, own[name].words[0], own[name].words[1 + axis])
        for n, name in enumerate(entry.function.arrays)
        if name in own
    ]
    return entry.compiled, words, moving


def _sizes(box: Box) -> Sizes:
    (i0, i1), (j0, j1), (k0, k1) = box
    return i1 - i0, j1 - j0, k1 - k0


def _flat(box: Iterable[tuple[int, int]]) -> Iterator[int]:
    return (bound for bounds in box for bound in bounds)


def _arguments(function: Function, call: _Call) -> tuple[Value, ...]:
    words = [word for name in function.arrays for word in call.places[name].words]
    return (*words, *(call.scalars[name] for name in function.scalars))
