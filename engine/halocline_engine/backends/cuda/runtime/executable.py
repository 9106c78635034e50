"""Execution of generated kernels: pack arguments and launch, on whatever machine is given.

The machine is a CUDA device, or in tests its emulation, so that all of this is tested where there
is no device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import TypeVar

import numpy as np

from halocline_engine.backends.base import Array, Executable, Memory, Value
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import TileFor, tile_for, tiles_of
from halocline_engine.backends.cuda.kernels.columns.placement import without_memory
from halocline_engine.backends.cuda.kernels.points.block_swizzle import worth_reversing
from halocline_engine.backends.cuda.kernels.staged.tile import block_memory_of
from halocline_engine.backends.cuda.model.entries import (
    Variant,
    arrays_of,
    entries_of,
    steps_of,
)
from halocline_engine.backends.cuda.model.staged import between
from halocline_engine.backends.cuda.model.tile import Domain, Tile, tile_words
from halocline_engine.backends.cuda.model.views import (
    RelativeView,
    View,
    disjoint,
    relative_view,
    view_of,
)
from halocline_engine.backends.cuda.runtime.block_memory import reserve
from halocline_engine.backends.cuda.runtime.calls import CallKind, Prepared, kind_of, queue_of
from halocline_engine.backends.cuda.runtime.dependent_launch import (
    SHORT,
    dependent_tile,
    may_launch_dependently,
)
from halocline_engine.backends.cuda.runtime.fusing import FusingExecutable, StepFuser
from halocline_engine.backends.cuda.runtime.ghosts import GhostFiller
from halocline_engine.backends.cuda.runtime.machine import Kernels, Machine
from halocline_engine.backends.cuda.runtime.memory import PitchedMemory
from halocline_engine.backends.cuda.runtime.tile_cache import TileCache
from halocline_engine.backends.ghosts import Ends, Framed
from halocline_engine.cache import Cache, key_of
from halocline_engine.ir.extent import CENTRE, Horizontal, enclose
from halocline_engine.ir.types import Axis, DType
from halocline_engine.schedule.nodes import Buffer, Schedule
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["CudaExecutable"]

#: How many kinds of calls an executable remembers, some kB each. A pass of many steps shrinks its
#: blocks at each of them: that many kinds follow each other, block after block.
_KINDS = 4096
#: Bytes that one load of a thread may have at most.
_ALIGNED = 16
_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Code for a kind of arrays and some tiles, and the buffers that it needs."""

    kernels: Kernels
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A call: what it launches, and where the domain's first point is in each field."""

    prepared: Prepared | CudaExecutable
    starts: Mapping[str, int]


class CudaExecutable(FusingExecutable):
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
        super().__init__(StepFuser(schedule, machine, cache))
        self._schedule = schedule
        self._machine = machine
        self._cache = cache
        self._memory = PitchedMemory(machine)
        self._filler = GhostFiller(machine, cache)
        self._tile_for = tile_for
        self._reason = reason
        self._steps = steps_of(schedule)
        self._arrays = arrays_of(schedule)
        self._buffers = between(schedule)
        self._names = tuple(buffer.name for buffer in self._buffers)
        self._entries = tuple(entries_of(schedule))
        self._written = _written(schedule)
        self._around = _around(schedule)
        self._axes = {f.name: f.axes for f in schedule.program.fields}
        self._scalars = {s.name: np.dtype(s.dtype.value) for s in schedule.program.scalars}
        self._own = tuple((name, dtype) for name, dtype in self._arrays if name in self._axes)
        self._loaded: dict[tuple[Variant, tuple[tuple[str, Tile], ...], bool], _Loaded] = {}
        self._tile_cache = TileCache(self._entries)
        self._prepared: dict[CallKind, Prepared | CudaExecutable] = {}
        # Calls and arrays as they came, so that a call like one before is known at once.
        self._calls: dict[Hashable, Prepared | CudaExecutable] = {}
        self._relative_views: dict[Hashable, RelativeView] = {}
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
        found = self._look(fields, origins, domain, backward=backward)
        if isinstance(found.prepared, CudaExecutable):
            found.prepared.queue(fields, scalars, origins, domain, backward=backward)
            return
        addresses, _memory = self._placed(found.prepared, found.starts, domain)
        typed = self._typed(scalars)
        for queued in found.prepared.queue:
            queued.launch(
                *[addresses[name] for name in queued.addresses],
                *[typed[name] for name in queued.scalars],
            )

    def prepared(
        self,
        fields: Mapping[str, Array],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
        *,
        backward: bool = False,
    ) -> Callable[[], None]:
        """Return a call that only launches; see `backends.base.Preparable`."""
        found = self._look(fields, origins, domain, backward=backward)
        if isinstance(found.prepared, CudaExecutable):
            return found.prepared.prepared(fields, scalars, origins, domain, backward=backward)
        if self._buffers or found.prepared.block_memory:
            # What kernels hand on is in memory of each call, which goes back after it.
            return partial(self.queue, fields, scalars, origins, domain, backward=backward)
        typed = self._typed(scalars)
        launches = [
            partial(
                queued.launch,
                *[found.starts[name] for name in queued.addresses],
                *[typed[name] for name in queued.scalars],
            )
            for queued in found.prepared.queue
        ]
        return _Ready(launches, tuple(fields.values()))

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues; see `backends.base.Executable`."""
        self._machine.repeat(work, times, look)

    def filling(self, ends: Ends, several: Sequence[Framed]) -> Callable[[], None] | None:
        """Return what queues launches that fill all ghosts; see `backends.ghosts.Filling`."""
        return self._filler.filling(ends, several)

    def turned(self) -> Executable:
        """Return an executable for every other step; see `backends.base.Turning`."""
        return _Reversed(self)

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

    def follows(self, domain: Domain, tiles: Mapping[str, Tile]) -> bool:
        """Whether kernels are so short that bringing them to the processors counts."""
        moved = prod(domain) * sum(dtype.itemsize for _, dtype in self._arrays)
        short = self._machine.follows and moved <= SHORT
        return short and all(
            may_launch_dependently(entry, tiles[entry.name]) for entry in self._entries
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
            name: self._relative_view(name, fields[name], dtype, origins[name]).at(
                self._machine.address(fields[name])
            )
            for name, dtype in self._own
        }

    def _look(
        self,
        fields: Mapping[str, Array],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
        *,
        backward: bool,
    ) -> _Found:
        """Return what a call launches; one like a call before is known by how its arrays lie."""
        starts: dict[str, int] = {}
        spans: list[tuple[int, int]] = []
        relative_views: list[tuple[Hashable, bool]] = []
        for name, dtype in self._own:
            view = self._relative_view(name, fields[name], dtype, origins[name])
            address = self._machine.address(fields[name])
            start = starts[name] = address + view.start
            spans.append((address + view.first, address + view.last))
            relative_views.append((view, start % _ALIGNED == 0))
        alone = disjoint(spans, self._written[: len(spans)])
        call = (tuple(relative_views), alone, domain, backward)
        prepared = self._calls.get(call)
        if prepared is None:
            kind = self._kind(self._views(fields, origins), domain)
            prepared = self._prepare(replace(kind, backward=backward), call)
        return _Found(prepared, starts)

    def _placed(
        self, prepared: Prepared, starts: Mapping[str, int], domain: Domain
    ) -> tuple[Mapping[str, int], Sequence[Array]]:
        """Return the address of every array of a call, and the memory that was made for it."""
        if not self._buffers and not prepared.block_memory:
            return starts, ()
        made = self._allocate(prepared.buffers, domain) | reserve(
            prepared.block_memory, self._machine
        )
        # Buffers that need no memory are parameters all the same.
        addresses = dict.fromkeys(self._names, 0)
        addresses |= starts
        addresses |= {name: self._machine.address(array) for name, array in made.items()}
        return addresses, tuple(made.values())

    def _typed(self, scalars: Mapping[str, Value]) -> dict[str, np.generic]:
        return {
            name: dtype.type(scalars[name])
            for name, dtype in self._scalars.items()
            if name in scalars
        }

    def _kind(self, views: Mapping[str, View], domain: Domain) -> CallKind:
        every = (*views.values(), *self._planned(domain).values())
        return kind_of(every, self._written, domain, self._machine.cache)

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

    def _relative_view(
        self, name: str, array: Array, dtype: DType, origin: tuple[int, int, int]
    ) -> RelativeView:
        """Return how an array lies; a stride along an axis it does not have counts as 0."""
        key = (name, array.shape, array.strides, origin)
        found = self._relative_views.get(key)
        if found is None:
            present = self._axes.get(name, tuple(Axis))
            i, j, k = (
                stride if axis in present else 0
                for axis, stride in zip(Axis, array.strides, strict=True)
            )
            found = relative_view(
                name, dtype.itemsize, array.shape, (i, j, k), origin, self._around
            )
            with self._lock:
                _keep(self._relative_views, key, found)
        return found

    def _prepare(self, kind: CallKind, call: Hashable) -> Prepared | CudaExecutable:
        """Return what a kind of call launches, of which this call is one."""
        with self._lock:
            found = self._prepared.get(kind)
            if found is None:
                found = self._new(kind)
                _keep(self._prepared, kind, found)
            _keep(self._calls, call, found)
            return found

    def forget(self) -> None:
        """Prepare calls again when they come; what was compiled is kept."""
        with self._lock:
            self._prepared.clear()
            self._calls.clear()

    def _new(self, kind: CallKind) -> Prepared | CudaExecutable:
        reason = "by the cost model" if self._tile_for is tile_for else self._reason
        return self._made(kind, self._tile_for, reason)

    def _made(self, kind: CallKind, choose: TileFor, reason: str) -> Prepared:
        tiles = self._reversed_for(kind, self._chosen_for(kind, choose))
        follows = self.follows(kind.domain, tiles)
        if follows and choose is tile_for:
            tiles = {name: dependent_tile(tile) for name, tile in tiles.items()}
        code = self._code_of(kind.variant, tiles, follows=follows)
        queue = queue_of(self._steps, self._schedule, kind, tiles, code.kernels, follows=follows)
        block_memory = (
            memory
            for entry in self._entries
            if entry.staged is not None
            for memory in block_memory_of(entry.staged, tiles[entry.name], kind.domain)
        )
        words = (f"  {name}: {tile_words(tile)}" for name, tile in tiles.items())
        tiling = (f"tiles of {' x '.join(map(str, kind.domain))} points {reason}", *words)
        return Prepared(queue, code.buffers, tuple(block_memory), tiling)

    def _chosen_for(self, kind: CallKind, choose: TileFor) -> Mapping[str, Tile]:
        """Return the tiles of a kind of call; those of a domain that is near are as good."""

        def chosen() -> Mapping[str, Tile]:
            return tiles_of(self._schedule, kind.variant, kind.domain, choose)

        if choose is not self._tile_for:
            return chosen()
        return self._tile_cache.tiles(kind.variant, kind.domain, chosen)

    def _code_of(self, variant: Variant, tiles: Mapping[str, Tile], *, follows: bool) -> _Loaded:
        """Return the code for arrays and tiles; it is loaded once."""
        key = (variant, tuple(tiles.items()), follows)
        found = self._loaded.get(key)
        if found is None:
            source = emit(self._schedule, variant, tiles, follows=follows)
            kernels = self._machine.load(self._code(source))
            absent = without_memory(self._schedule, tiles)
            buffers = tuple(b for b in self._buffers if b.name not in absent)
            found = self._loaded[key] = _Loaded(kernels, buffers)
        return found

    def _reversed_for(self, kind: CallKind, tiles: Mapping[str, Tile]) -> Mapping[str, Tile]:
        """Return the tiles with blocks that run from the last, where that is asked for and good."""
        if not kind.backward or len(tiles) > 1:
            return tiles
        moved = prod(kind.domain) * sum(dtype.itemsize for _, dtype in self._arrays)
        back = worth_reversing(moved, kind.domain[2], kind.variant.cache)
        return {name: replace(tile, backward=back) for name, tile in tiles.items()}

    def _code(self, source: str) -> bytes:
        """Return compiled code; what was compiled before is kept in the cache."""
        key = key_of(source, self._machine.compiler)
        return self._cache.get(key, lambda: self._machine.compile(source))


@dataclass(frozen=True, slots=True)
class _Ready:
    """Launches of one call, and the arrays that they are about."""

    launches: Sequence[Callable[[], None]]
    arrays: Sequence[Array]

    def __call__(self) -> None:
        for launch in self.launches:
            launch()


@dataclass(frozen=True, slots=True)
class _Reversed:
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

    def prepared(
        self,
        fields: Mapping[str, Array],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> Callable[[], None]:
        return self.executable.prepared(fields, scalars, origins, domain, backward=True)

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        self.executable.repeat(work, times, look)


def _keep(known: dict[_Key, _Kept], key: _Key, found: _Kept) -> None:
    """Remember something; the oldest is forgotten where there is much."""
    if len(known) >= _KINDS:
        del known[next(iter(known))]
    known[key] = found


def _written(schedule: Schedule) -> tuple[bool, ...]:
    names = {name for entry in entries_of(schedule) for name in entry.written}
    return tuple(name in names for name, _ in arrays_of(schedule))


def _around(schedule: Schedule) -> int:
    """Return the most points beyond the domain that a kernel computes in any direction."""
    extents = (kernel.extent for kernel in kernels_of(schedule.steps))
    return max((abs(n) for extent in extents for pair in extent for n in pair), default=0)


def _enclosing(buffers: Sequence[Buffer]) -> Horizontal:
    return reduce(enclose, (buffer.extent for buffer in buffers), CENTRE)
