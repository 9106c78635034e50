"""Execution of generated kernels: pack arguments and launch, on whatever machine is given.

The machine is a CUDA device, or in tests its emulation, so that all of this is tested where there
is no device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import numpy as np

from halocline_engine.backends.base import (
    Array,
    Executable,
    Fields,
    Launch,
    Launcher,
    Memory,
    Origins,
    Overlap,
    Point,
    Repetition,
    Scalars,
)
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import TileFor, block_memory, tile_for, tiles_of
from halocline_engine.backends.cuda.kernels.column_blocks.held import held_on_chip
from halocline_engine.backends.cuda.kernels.columns.placement import without_memory
from halocline_engine.backends.cuda.kernels.points.block_swizzle import worth_reversing
from halocline_engine.backends.cuda.model.coalesce import (
    ArrayLayout,
    axes_alike,
    coalesced,
)
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
    relative_view,
)
from halocline_engine.backends.cuda.runtime.buffers import Buffers, layout_like, reserve_blocks
from halocline_engine.backends.cuda.runtime.calls import (
    CallKind,
    Located,
    Prepared,
    Ready,
    Reserve,
    kind_of,
    queue_of,
    typed_scalars,
)
from halocline_engine.backends.cuda.runtime.dependent_launch import (
    SHORT,
    dependent_tile,
    may_launch_dependently,
)
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable
from halocline_engine.backends.cuda.runtime.fusing import StepStreams
from halocline_engine.backends.cuda.runtime.ghosts import GhostFiller
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.cuda.runtime.memory import PitchedMemory
from halocline_engine.backends.cuda.runtime.tile_cache import TileCache
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.backends.ghosts import Ends, Framed
from halocline_engine.backends.span import disjoint
from halocline_engine.cache import Cache, key_of
from halocline_engine.ir.types import Axis, DType
from halocline_engine.kernels.machine import Kernels
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


class CudaExecutable(FusingExecutable[FusedExecutable]):
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
        super().__init__(schedule, StepStreams(machine, cache))
        self._schedule = schedule
        self._machine = machine
        self._cache = cache
        self._memory = PitchedMemory(machine)
        self._filler = GhostFiller(machine, cache)
        self._tile_for = tile_for
        self._reason = reason
        self._steps = steps_of(schedule)
        self._arrays = arrays_of(schedule)
        self._buffers = Buffers(between(schedule), self._memory)
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
        self._relative_views: dict[ArrayLayout, RelativeView] = {}
        self._lock = threading.Lock()

    @property
    def memory(self) -> Memory:
        """The memory in which its arrays must live."""
        return self._memory

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Queue the program on the current stream; see `backends.base.Executable`."""
        if 0 not in domain:
            self.ready(fields, scalars, origins, domain)()

    def launcher(self, fields: Fields, origins: Origins, domain: Point) -> Launcher | None:
        """Return calls on arrays that lie like these; see `backends.base.Launching`."""
        layouts, points = self._layouts(fields, origins, domain)

        def at(addresses: Mapping[str, int]) -> Launch:
            located = self.located(layouts, points, addresses, backward=False)
            return lambda scalars: located(typed_scalars(self._scalars, scalars))

        return at

    def prepared(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return a call that only launches; see `backends.base.Preparable`."""
        return self.ready(fields, scalars, origins, domain)

    def ready(
        self,
        fields: Fields,
        scalars: Scalars,
        origins: Origins,
        domain: Point,
        *,
        backward: bool = False,
    ) -> Callable[[], None]:
        """Return the launches of a call; `backward` where blocks may run from the last."""
        layouts, points = self._layouts(fields, origins, domain)
        located = self.located(layouts, points, self._addresses(fields), backward=backward)
        return Ready(located, typed_scalars(self._scalars, scalars), tuple(fields.values()))

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues; see `backends.base.Executable`."""
        self._machine.repeat(work, times, look)

    def repetition(self, work: Callable[[], None]) -> Repetition:
        """Return what does work again and again; see `backends.base.Repeating`."""
        return self._machine.repetition(work)

    def overlap(self) -> Overlap:
        """Return what queues work beside other work; see `backends.base.Overlapping`."""
        return self._machine.overlap()

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

    def _layouts(
        self, fields: Fields, origins: Origins, domain: Domain
    ) -> tuple[tuple[ArrayLayout, ...], Domain]:
        """Return how the arrays of a call lie, in the order of the schedule, and its domain."""
        layouts = tuple(
            _layout(name, dtype, fields[name], origins[name], self._axes[name])
            for name, dtype in self._own
        )
        alike = axes_alike(self._schedule)
        return coalesced(layouts, domain, alike) if alike else (layouts, domain)

    def _addresses(self, fields: Fields) -> dict[str, int]:
        return {name: self._machine.address(fields[name]) for name, _ in self._own}

    def _lying(
        self, fields: Fields, origins: Origins, domain: Domain
    ) -> tuple[dict[str, View], CallKind]:
        """Return how a call uses its fields, in the order of the schedule, and its kind."""
        layouts, points = self._layouts(fields, origins, domain)
        views = self._views(layouts, self._addresses(fields))
        return views, self._kind(views, points)

    def _views(self, several: Sequence[ArrayLayout], at: Mapping[str, int]) -> dict[str, View]:
        return {one.name: self._relative_view(one).at(at[one.name]) for one in several}

    def located(
        self,
        layouts: tuple[ArrayLayout, ...],
        domain: Domain,
        addresses: Mapping[str, int],
        *,
        backward: bool,
    ) -> Located:
        """Return what a call launches; one like a call before is known by how its arrays lie."""
        starts: dict[str, int] = {}
        spans: list[tuple[int, int]] = []
        relative_views: list[tuple[Hashable, int]] = []
        for layout in layouts:
            view, address = self._relative_view(layout), addresses[layout.name]
            start = starts[layout.name] = address + view.start
            spans.append((address + view.first, address + view.last))
            relative_views.append((view, start % _ALIGNED))
        alone = disjoint(spans, self._written[: len(spans)])
        call = (tuple(relative_views), alone, domain, backward)
        prepared = self._calls.get(call)
        if prepared is None:
            kind = self._kind(self._views(layouts, addresses), domain)
            prepared = self._prepare(replace(kind, backward=backward), call)
        if isinstance(prepared, CudaExecutable):
            return prepared.located(layouts, domain, addresses, backward=backward)
        return Located(prepared.queue, starts, self._reserving(prepared, domain))

    def _reserving(self, prepared: Prepared, domain: Domain) -> Reserve | None:
        """Return what makes memory for the temporaries of a call, and says where each begins."""
        if not self._buffers.buffers and not prepared.block_memory:
            return None
        # Buffers that need no memory are parameters all the same.
        absent = dict.fromkeys((buffer.name for buffer in self._buffers.buffers), 0)
        places = self._buffers.places(prepared.buffers, domain, prepared.layout)

        def reserve() -> tuple[Mapping[str, int], Sequence[Array]]:
            made = reserve_blocks(prepared.block_memory, self._machine)
            addresses = absent | {n: self._machine.address(array) for n, array in made.items()}
            if not places.starts:
                return addresses, tuple(made.values())
            room = places.room(self._machine)
            return addresses | places.at(self._machine.address(room)), (*made.values(), room)

        return reserve

    def _kind(self, views: Mapping[str, View], domain: Domain) -> CallKind:
        sizes = (dtype.itemsize for _, dtype in self._own)
        layout = layout_like(zip(views.values(), sizes, strict=True))
        own = self._buffers.views(domain, self._around, layout)
        every = (*views.values(), *own.values())
        return kind_of(every, self._written, domain, layout, self._machine.cache)

    def _relative_view(self, layout: ArrayLayout) -> RelativeView:
        found = self._relative_views.get(layout)
        if found is None:
            found = relative_view(*layout, around=self._around)
            with self._lock:
                _keep(self._relative_views, layout, found)
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
        own = tuple(block_memory(self._schedule, tiles, kind.domain))
        words = (f"  {name}: {tile_words(tile)}" for name, tile in tiles.items())
        tiling = (f"tiles of {' x '.join(map(str, kind.domain))} points {reason}", *words)
        return Prepared(queue, code.buffers, kind.layout, own, tiling)

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
            absent = without_memory(self._schedule, tiles) | held_on_chip(self._entries, tiles)
            buffers = tuple(b for b in self._buffers.buffers if b.name not in absent)
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
class _Reversed:
    """A program whose kernels may run through the domain from its end."""

    executable: CudaExecutable

    @property
    def memory(self) -> Memory:
        return self.executable.memory

    def prepared(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        return self.executable.ready(fields, scalars, origins, domain, backward=True)

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        if 0 not in domain:
            self.prepared(fields, scalars, origins, domain)()

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        self.executable.repeat(work, times, look)


def _layout(
    name: str, dtype: DType, array: Array, origin: Point, axes: Sequence[Axis]
) -> ArrayLayout:
    """Return how an array lies; a stride along an axis that it does not have counts as 0."""
    several = zip(Axis, array.strides, strict=True)
    i, j, k = (stride if axis in axes else 0 for axis, stride in several)
    return ArrayLayout(name, dtype.itemsize, array.shape, (i, j, k), origin)


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
