"""Run generated kernels: pack arguments and launch, on whatever machine is given.

The machine is a CUDA device, or in tests its emulation, so that all of this is tested where there
is no device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import TypeAlias, assert_never

import numpy as np

from halocline_engine.backends.base import Array, Executable, Memory, Value
from halocline_engine.backends.cuda.choice import tile_words
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.entries import (
    Entry,
    Loop,
    Pointer,
    RoomPointer,
    ScalarValue,
    Size,
    StrideValue,
    Variant,
    arrays_of,
    entries_of,
    parameters,
    steps_of,
)
from halocline_engine.backends.cuda.homes import without_memory
from halocline_engine.backends.cuda.launch import Launch, launches, level_range
from halocline_engine.backends.cuda.machine import Kernels, Machine
from halocline_engine.backends.cuda.memory import PitchedMemory
from halocline_engine.backends.cuda.staged import between
from halocline_engine.backends.cuda.staged_memory import reserve
from halocline_engine.backends.cuda.staged_tile import Room, rooms_of
from halocline_engine.backends.cuda.strips import worth_turning
from halocline_engine.backends.cuda.tiles import TileFor, shared_bytes, tile_for, tiles_of
from halocline_engine.backends.cuda.tiling import Domain, Tile
from halocline_engine.backends.cuda.views import View, variant_of, view_of
from halocline_engine.cache import Cache, key_of
from halocline_engine.ir.extent import CENTRE, Horizontal, Range, enclose
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.schedule.nodes import Buffer, Schedule
from halocline_engine.schedule.temporaries import kernels_of

__all__ = ["CallKind", "CudaExecutable", "Prepared"]

#: How many kinds of calls an executable remembers, some kB each. A pass of many steps shrinks its
#: blocks at each of them: that many kinds follow each other, block after block.
_KINDS = 1024
#: Strides in elements, by stride kind.
_Strides: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class CallKind:
    """What calls have in common: how arrays lie, their strides, and the size of the domain.

    `backward` where the blocks of kernels may run from the last to the first.
    """

    variant: Variant
    strides: _Strides
    domain: Domain
    backward: bool = False


@dataclass(frozen=True, slots=True)
class _Queued:
    """One launch of a kind of call.

    `values` are the arguments, with zeros for those that differ from call to call: `addresses` and
    `scalars` say which they are, as (position, name).
    """

    name: str
    launch: Launch
    shared: int
    values: tuple[np.generic, ...]
    addresses: tuple[tuple[int, str], ...]
    scalars: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Loaded code and the launches of a kind of call, in order; buffers and rooms need memory.

    `tiling` says in words how its kernels are cut, and why so.
    """

    kernels: Kernels
    queue: tuple[_Queued, ...]
    buffers: tuple[Buffer, ...]
    rooms: tuple[Room, ...]
    tiling: tuple[str, ...]


class CudaExecutable:
    """A program that is alive on one machine.

    Variants of the code are compiled when a call needs them first, and kept. Several threads may
    call it, each on its own stream. `tile_for` chooses their tiles, for a `reason` that is shown.
    """

    def __init__(
        self,
        schedule: Schedule,
        machine: Machine,
        cache: Cache,
        tile_for: TileFor = tile_for,
        reason: str = "as they were given",
    ) -> None:
        self._schedule = schedule
        self._machine = machine
        self._cache = cache
        self._memory = PitchedMemory(machine)
        self._tile_for = tile_for
        self._reason = reason
        self._steps = steps_of(schedule)
        self._arrays = arrays_of(schedule)
        self._buffers = between(schedule)
        self._names = tuple(buffer.name for buffer in self._buffers)
        self._written = _written(schedule)
        self._around = _around(schedule)
        self._axes = {f.name: f.axes for f in schedule.program.fields}
        self._scalars = {s.name: np.dtype(s.dtype.value) for s in schedule.program.scalars}
        self._compiled: dict[str, Kernels] = {}
        self._prepared: dict[CallKind, Prepared | CudaExecutable] = {}
        self._lock = threading.Lock()

    @property
    def memory(self) -> Memory:
        """Where its arrays must live."""
        return self._memory

    def __call__(
        self,
        fields: Mapping[str, Array],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> None:
        """Queue the program on the current stream; see `backends.base.Executable`."""
        self.queue(fields, scalars, origins, domain)

    def queue(
        self,
        fields: Mapping[str, Array],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
        *,
        backward: bool = False,
    ) -> None:
        """Queue the program as a call does; `backward` where its blocks may run from the last."""
        if 0 in domain:
            return
        views = self._views(fields, origins)
        typed = {
            name: dtype.type(scalars[name])
            for name, dtype in self._scalars.items()
            if name in scalars
        }
        prepared = self._prepare(replace(self._kind(views, domain), backward=backward))
        if isinstance(prepared, CudaExecutable):
            prepared.queue(fields, scalars, origins, domain, backward=backward)
            return
        buffers = self._allocate(prepared.buffers, domain) | reserve(prepared.rooms, self._machine)
        # Buffers that need no memory are parameters all the same.
        addresses = dict.fromkeys(self._names, 0)
        addresses |= {name: view.address for name, view in views.items()}
        addresses |= {name: self._machine.address(array) for name, array in buffers.items()}
        for queued in prepared.queue:
            arguments = list(queued.values)
            for position, name in queued.addresses:
                arguments[position] = np.uint64(addresses[name])
            for position, name in queued.scalars:
                arguments[position] = typed[name]
            launch = queued.launch
            prepared.kernels.launch(
                queued.name, launch.grid, launch.block, tuple(arguments), queued.shared
            )

    def repeat(self, work: Callable[[], None], times: int) -> None:
        """Do again what `work` queues; see `backends.base.Executable`."""
        self._machine.repeat(work, times)

    def turned(self) -> Executable:
        """Return an executable for every other step; see `backends.base.Turning`."""
        return _Turned(self)

    def compile_for(self, views: Mapping[str, View], domain: Domain) -> None:
        """Compile what calls on fields that lie so need, and keep it; needs no device."""
        self._code(self.source_for(self._kind(views, domain).variant, domain))

    def tilings(self) -> tuple[str, ...]:
        """Return lines that say how kernels are cut for each kind of call so far, and why so."""
        with self._lock:
            several = tuple(self._prepared.values())
        return tuple(
            line
            for one in several
            for line in (one.tilings() if isinstance(one, CudaExecutable) else one.tiling)
        )

    def source_for(self, variant: Variant, domain: Domain) -> str:
        """Return the generated code for a kind of call."""
        return emit(self._schedule, variant, self._tiles(variant, domain))

    def _tiles(self, variant: Variant, domain: Domain) -> Mapping[str, Tile]:
        return tiles_of(self._schedule, variant, domain, self._tile_for)

    def _room(self, domain: Domain) -> tuple[Domain, Domain]:
        """Return the shape of every buffer, and where the domain begins in it.

        All have the same shape, so that those of one element size share their strides.
        """
        (i_low, i_high), (j_low, j_high) = _enclosing(self._buffers)
        shape = (domain[0] + i_high - i_low, domain[1] + j_high - j_low, domain[2])
        return shape, (-i_low, -j_low, 0)

    def _views(
        self, fields: Mapping[str, Array], origins: Mapping[str, tuple[int, int, int]]
    ) -> dict[str, View]:
        """Return how a call uses its fields, in the order of the schedule."""
        return {
            name: self._view(name, fields[name], dtype, origins[name])
            for name, dtype in self._arrays
            if name in self._axes
        }

    def _kind(self, views: Mapping[str, View], domain: Domain) -> CallKind:
        every = (*views.values(), *self._planned(domain).values())
        return _kind_of(every, self._written, domain, self._machine.cache)

    def _planned(self, domain: Domain) -> dict[str, View]:
        """Return how a call uses its buffers, as if the domain began at the address 0 in each.

        They share no memory with any other array.
        """
        shape, start = self._room(domain)
        views: dict[str, View] = {}
        for buffer in self._buffers:
            dtype = np.dtype(buffer.dtype.value)
            strides = self._memory.strides(shape, dtype, start)
            first = -sum(o * s for o, s in zip(start, strides, strict=True))
            view = view_of(buffer.name, first, dtype.itemsize, shape, strides, start, self._around)
            views[buffer.name] = replace(view, first=0, last=0)
        return views

    def _allocate(self, buffers: Sequence[Buffer], domain: Domain) -> dict[str, Array]:
        """Return memory for buffers, each from the domain's first point on."""
        shape, start = self._room(domain)
        arrays = {
            b.name: self._memory.empty(shape, np.dtype(b.dtype.value), start) for b in buffers
        }
        i, j, k = start
        return {name: array[i:, j:, k:] for name, array in arrays.items()}

    def _view(self, name: str, array: Array, dtype: DType, origin: tuple[int, int, int]) -> View:
        """Return how a call uses an array; a stride along an axis it does not have counts as 0."""
        present = self._axes.get(name, tuple(Axis))
        i, j, k = (
            stride if axis in present else 0
            for axis, stride in zip(Axis, array.strides, strict=True)
        )
        return view_of(
            name,
            self._machine.address(array),
            dtype.itemsize,
            array.shape,
            (i, j, k),
            origin,
            self._around,
        )

    def _prepare(self, kind: CallKind) -> Prepared | CudaExecutable:
        """Return what a kind of call launches; the oldest kind is forgotten for a new one."""
        with self._lock:
            found = self._prepared.get(kind)
            if found is None:
                found = self._new(kind)
                if len(self._prepared) >= _KINDS:
                    del self._prepared[next(iter(self._prepared))]
                self._prepared[kind] = found
            return found

    def _new(self, kind: CallKind) -> Prepared | CudaExecutable:
        reason = "by the cost model" if self._tile_for is tile_for else self._reason
        return self._made(kind, self._tile_for, reason)

    def _made(self, kind: CallKind, choose: TileFor, reason: str) -> Prepared:
        tiles = self._turned_for(kind, tiles_of(self._schedule, kind.variant, kind.domain, choose))
        source = emit(self._schedule, kind.variant, tiles)
        kernels = self._compiled.get(source)
        if kernels is None:
            kernels = self._compiled[source] = self._machine.load(self._code(source))
        queue = tuple(
            _queued(entry, self._schedule, kind, tiles[entry.name], launch)
            for entry, levels in _sequence(self._steps, kind.domain[2])
            for launch in launches(entry, kind.domain, tiles[entry.name], levels)
        )
        absent = without_memory(self._schedule, tiles)
        buffers = tuple(b for b in self._buffers if b.name not in absent)
        rooms = (
            room
            for entry in entries_of(self._schedule)
            if entry.staged is not None
            for room in rooms_of(entry.staged, tiles[entry.name], kind.domain)
        )
        words = (f"  {name}: {tile_words(tile)}" for name, tile in tiles.items())
        tiling = (f"tiles of {' x '.join(map(str, kind.domain))} points {reason}", *words)
        return Prepared(kernels, queue, buffers, tuple(rooms), tiling)

    def _turned_for(self, kind: CallKind, tiles: Mapping[str, Tile]) -> Mapping[str, Tile]:
        """Return the tiles with blocks that run from the last, where that is asked for and good."""
        if not kind.backward or len(tiles) > 1:
            return tiles
        moved = prod(kind.domain) * sum(dtype.itemsize for _, dtype in self._arrays)
        back = worth_turning(moved, kind.domain[2], kind.variant.cache)
        return {name: replace(tile, backward=back) for name, tile in tiles.items()}

    def _code(self, source: str) -> bytes:
        """Return compiled code; what was compiled before is kept in the cache."""
        key = key_of(source, self._machine.compiler)
        return self._cache.get(key, lambda: self._machine.compile(source))


@dataclass(frozen=True, slots=True)
class _Turned:
    """A program whose kernels may run through the domain from its end."""

    executable: CudaExecutable

    @property
    def memory(self) -> Memory:
        return self.executable.memory

    def __call__(
        self,
        fields: Mapping[str, Array],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> None:
        self.executable.queue(fields, scalars, origins, domain, backward=True)

    def repeat(self, work: Callable[[], None], times: int) -> None:
        self.executable.repeat(work, times)


def _kind_of(
    views: Sequence[View], written: Sequence[bool], domain: Domain, cache: int
) -> CallKind:
    variant = variant_of(views, written, cache)
    strides = dict(zip(variant.arrays, (view.strides for view in views), strict=True))
    return CallKind(variant, tuple(strides[number] for number in range(len(strides))), domain)


def _sequence(steps: Sequence[Entry | Loop], size: int) -> Iterator[tuple[Entry, Range]]:
    """Yield what to launch and for which levels, in order."""
    for step in steps:
        match step:
            case Entry():
                yield step, _levels_of(step, size)
            case Loop(order, levels):
                for interval, entries in levels:
                    low, high = level_range(interval, size)
                    ascending = range(low, high)
                    for level in ascending if order is Order.FORWARD else reversed(ascending):
                        yield from ((entry, (level, level + 1)) for entry in entries)
            case _:
                assert_never(step)


def _levels_of(entry: Entry, size: int) -> Range:
    """Return the levels that a kernel's sections span."""
    ranges = [level_range(section.interval, size) for section in entry.kernel.sections]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _queued(
    entry: Entry, schedule: Schedule, kind: CallKind, tile: Tile, launch: Launch
) -> _Queued:
    """Return a launch with the values of its parameters, in order and with their types."""
    index = np.int64 if kind.variant.wide else np.int32
    sizes = dict(zip(("ni", "nj", "nk"), kind.domain, strict=True))
    sizes |= {"row": launch.row, "level": launch.level, "top": launch.top}
    scalars = {s.name: np.dtype(s.dtype.value) for s in schedule.program.scalars}

    def value(arg: Size | StrideValue | Pointer | ScalarValue | RoomPointer) -> np.generic:
        match arg:
            case Size(name):
                return np.int32(sizes[name])
            case StrideValue(number, axis):
                return index(kind.strides[number][axis])
            case Pointer() | RoomPointer():
                return np.uint64(0)
            case ScalarValue(name):
                return scalars[name].type(0)
            case _:
                assert_never(arg)

    arguments = parameters(entry, schedule, kind.variant)
    places = list(enumerate(arguments))
    return _Queued(
        name=entry.name,
        launch=launch,
        shared=shared_bytes(entry, schedule, kind.variant, tile, kind.domain),
        values=tuple(map(value, arguments)),
        addresses=tuple(
            (n, arg.array) for n, arg in places if isinstance(arg, Pointer | RoomPointer)
        ),
        scalars=tuple((n, arg.name) for n, arg in places if isinstance(arg, ScalarValue)),
    )


def _written(schedule: Schedule) -> tuple[bool, ...]:
    names = {name for entry in entries_of(schedule) for name in entry.written}
    return tuple(name in names for name, _ in arrays_of(schedule))


def _around(schedule: Schedule) -> int:
    """Return the most points beyond the domain that a kernel computes in any direction."""
    extents = (kernel.extent for kernel in kernels_of(schedule.steps))
    return max((abs(n) for extent in extents for pair in extent for n in pair), default=0)


def _enclosing(buffers: Sequence[Buffer]) -> Horizontal:
    return reduce(enclose, (buffer.extent for buffer in buffers), CENTRE)
