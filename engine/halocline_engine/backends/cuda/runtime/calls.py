"""Launches of a kind of call, with their arguments packed as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, assert_never

import numpy as np

from halocline_engine.backends.base import Array, Scalars
from halocline_engine.backends.cuda.kernels.choose import launches, shared_bytes
from halocline_engine.backends.cuda.kernels.kind import BlockMemory
from halocline_engine.backends.cuda.model.entries import (
    Arg,
    BlockPointer,
    Entry,
    Loop,
    Pointer,
    ScalarValue,
    Size,
    StrideValue,
    Variant,
    parameters,
)
from halocline_engine.backends.cuda.model.intervals import level_range
from halocline_engine.backends.cuda.model.launch import Launch, inverse_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import View, variant_of
from halocline_engine.backends.cuda.runtime.buffers import Layout
from halocline_engine.ir.extent import Range
from halocline_engine.ir.types import Order
from halocline_engine.kernels.machine import Kernels
from halocline_engine.schedule.nodes import Buffer, Schedule

__all__ = [
    "CallKind",
    "Located",
    "Prepared",
    "Queued",
    "Ready",
    "Reserve",
    "kind_of",
    "queue_of",
    "queued",
    "typed_scalars",
]

#: Makes memory for temporaries: the address of each by its name, and what keeps it alive.
Reserve: TypeAlias = Callable[[], tuple[Mapping[str, int], Sequence[Array]]]

#: Strides in elements, by stride kind.
_Strides: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class CallKind:
    """Common properties of calls: layout of arrays, strides, size of the domain.

    `layout` is the order of axes of buffers; `backward` where the blocks of kernels may run from
    the last to the first.
    """

    variant: Variant
    strides: _Strides
    domain: Domain
    layout: Layout
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Queued:
    """One launch of a kind of call: what `launch` is given at each, addresses before scalars."""

    launch: Callable[..., None]
    addresses: tuple[str, ...]
    scalars: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The launches of a kind of call, in order; `buffers` and `block_memory` are allocated.

    `layout` is the order of axes of buffers; `tiling` says in words how its kernels are cut, and
    why so.
    """

    queue: tuple[Queued, ...]
    buffers: tuple[Buffer, ...]
    layout: Layout
    block_memory: tuple[BlockMemory, ...]
    tiling: tuple[str, ...]


class Located:
    """The launches of a call on arrays that are somewhere, made with the values of its scalars.

    `starts` says where the domain's first point is in each field; the memory that `reserve` makes
    at each call goes back after it. The arrays themselves are not kept.
    """

    def __init__(
        self, queue: Sequence[Queued], starts: Mapping[str, int], reserve: Reserve | None = None
    ) -> None:
        self._queue, self._starts, self._reserve = queue, starts, reserve
        self._launches = () if reserve else tuple(_at(one, starts) for one in queue)

    def __call__(self, typed: Mapping[str, np.generic]) -> None:
        """Queue the launches on the current stream; `typed` has every scalar with its type."""
        launches, _memory = self._launches, None
        if self._reserve is not None:
            made, _memory = self._reserve()
            addresses = {**self._starts, **made}
            launches = [_at(one, addresses) for one in self._queue]
        for launch, addresses, scalars in launches:
            launch(*addresses, *[typed[name] for name in scalars])


def _at(
    one: Queued, addresses: Mapping[str, int]
) -> tuple[Callable[..., None], list[int], tuple[str, ...]]:
    """Return a launch with its addresses, and the names of its scalars."""
    return one.launch, [addresses[name] for name in one.addresses], one.scalars


@dataclass(frozen=True, slots=True)
class Ready:
    """Launches of one call, the values of its scalars, and the arrays that it is about."""

    located: Located
    typed: Mapping[str, np.generic]
    arrays: Sequence[Array]

    def __call__(self) -> None:
        """Queue the launches on the current stream."""
        self.located(self.typed)


def typed_scalars(
    dtypes: Mapping[str, np.dtype[np.generic]], scalars: Scalars
) -> dict[str, np.generic]:
    """Return scalars as kernels take them."""
    return {name: dtype.type(scalars[name]) for name, dtype in dtypes.items() if name in scalars}


def kind_of(
    views: Sequence[View], written: Sequence[bool], domain: Domain, layout: Layout, cache: int
) -> CallKind:
    """Return the kind of a call on arrays, of which `written` says which ones are written."""
    variant = variant_of(views, written, cache)
    strides = dict(zip(variant.arrays, (view.strides for view in views), strict=True))
    several = tuple(strides[number] for number in range(len(strides)))
    return CallKind(variant, several, domain, layout)


def queue_of(
    steps: Sequence[Entry | Loop],
    schedule: Schedule,
    kind: CallKind,
    tiles: Mapping[str, Tile],
    kernels: Kernels,
    *,
    follows: bool,
) -> tuple[Queued, ...]:
    """Return all launches of a kind of call, in order; `follows` as the code was emitted."""
    return tuple(
        _queued(entry, schedule, kind, tiles[entry.name], launch, kernels, follows=follows)
        for entry, levels in _sequence(steps, kind.domain[2])
        for launch in launches(entry, kind.domain, tiles[entry.name], levels)
    )


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
    entry: Entry,
    schedule: Schedule,
    kind: CallKind,
    tile: Tile,
    launch: Launch,
    kernels: Kernels,
    *,
    follows: bool,
) -> Queued:
    """Return a launch with the values of its parameters, in order and with their types."""
    index = np.int64 if kind.variant.wide else np.int32
    sizes = dict(zip(("ni", "nj", "nk"), kind.domain, strict=True))
    sizes |= {"row": launch.row, "level": launch.level, "top": launch.top}
    sizes["deep"] = launch.deep(tile)
    scalars = {s.name: np.dtype(s.dtype.value) for s in schedule.program.scalars}

    def value(arg: Arg) -> np.generic:
        match arg:
            case Size("inverse"):
                return np.uint32(inverse_of(sizes["deep"]))
            case Size(name):
                return np.int32(sizes[name])
            case StrideValue(number, axis):
                return index(kind.strides[number][axis])
            case Pointer() | BlockPointer():
                return np.uint64(0)
            case ScalarValue(name):
                return scalars[name].type(0)
            case _:
                assert_never(arg)

    arguments = parameters(entry, schedule, kind.variant, tile)
    shared = shared_bytes(entry, schedule, kind.variant, tile, kind.domain)
    ready = partial(
        kernels.ready, entry.name, launch.grid, launch.block, shared=shared, follows=follows
    )
    return queued(ready, arguments, value)


def queued(
    ready: Callable[..., Callable[..., None]],
    arguments: Sequence[Arg],
    value: Callable[[Arg], np.generic],
) -> Queued:
    """Return a launch whose addresses and scalars come with each call; `value` gives the rest.

    `ready` is `Kernels.ready` for a kernel, without arguments.
    """
    places = list(enumerate(arguments))
    pointers = [(n, arg.array) for n, arg in places if isinstance(arg, Pointer | BlockPointer)]
    scalars = [(n, arg.name) for n, arg in places if isinstance(arg, ScalarValue)]
    changing = [n for n, _ in (*pointers, *scalars)]
    return Queued(
        launch=ready(arguments=tuple(map(value, arguments)), changing=changing),
        addresses=tuple(name for _, name in pointers),
        scalars=tuple(name for _, name in scalars),
    )
