"""Kernels of a program, compiled for the layout of a call, and the arguments that they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias, cast

import numba
import numpy as np

from halocline_engine.backends.base import HostArray
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.code import Compiled, Signature, machine_code
from halocline_engine.backends.cpu.columns import Cut, Sizes, cut
from halocline_engine.backends.cpu.text.emit import Function, emit
from halocline_engine.backends.cpu.text.layout import Layout, layout_of
from halocline_engine.backends.host import HostMemory
from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.types import Axis, DType
from halocline_engine.schedule.nodes import Buffer, Kernel, Schedule
from halocline_engine.schedule.traversal.walks import Walk

__all__ = [
    "FIRST_ARRAY",
    "Box",
    "Call",
    "Domain",
    "Entry",
    "Kernels",
    "Place",
    "address_of",
    "array_along",
    "buffer_place",
    "cut_of",
    "flat",
    "place_of",
    "sizes_of",
    "threads_of_calls",
    "widened",
    "words_of",
]

#: (first, one past the last) along I, J and K, relative to the domain's first point.
Box: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
Domain: TypeAlias = tuple[int, int, int]

#: Arguments before those of the arrays: the box, the number of levels, rows and width.
FIRST_ARRAY = 9


@dataclass(frozen=True, slots=True)
class Place:
    """The address of the domain's first point and the strides along I, J and K, in bytes.

    `array` keeps memory alive that nothing else does.
    """

    words: tuple[int, int, int, int]
    array: HostArray | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled kernel and what it is called with."""

    function: Function
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class Call:
    """Parameters of a run: code, arrays, and how loops go through the domain."""

    entries: tuple[Entry, ...]
    places: Mapping[str, Place]
    domain: Domain
    inner: Axis
    walk: Walk
    caches: Caches


class Kernels:
    """The kernels of a schedule, compiled for each layout that a call has."""

    def __init__(self, schedule: Schedule, caches: Caches) -> None:
        self.schedule = schedule
        self.caches = caches
        self._compiled: dict[Layout, tuple[Entry, ...]] = {}
        self._lock = Lock()

    def places(
        self, fields: Mapping[str, HostArray], origins: Mapping[str, tuple[int, int, int]]
    ) -> dict[str, Place]:
        """Return where the arrays of all used fields are; whoever calls keeps them."""
        used = [f.name for f in self.schedule.program.fields if f.read or f.written]
        return {n: Place(place_of(fields[n], origins[n]).words) for n in used}

    def call(self, places: Mapping[str, Place], domain: Domain) -> Call:
        """Return what a run on these arrays knows, without memory for temporaries."""
        strides = {name: place.words[1:] for name, place in places.items()}
        apart = len({place.words[0] for place in places.values()}) == len(places)
        layout = layout_of(self.schedule.program, strides, apart=apart)
        entries, walk = self._entries(layout), self.schedule.walk
        return Call(entries, places, domain, layout.inner, walk, self.caches)

    def machine_code(self) -> tuple[str, ...]:
        """Return the assembly of every kernel compiled so far, for people and tests."""
        return tuple(
            "\n".join(cast("Any", entry.compiled).inspect_asm().values())
            for entries in self._compiled.values()
            for entry in entries
        )

    def _entries(self, layout: Layout) -> tuple[Entry, ...]:
        """Return the kernels compiled for a layout; the first call with it waits for Numba."""
        entries = self._compiled.get(layout)
        if entries is None:
            with self._lock:
                entries = self._compiled.get(layout) or _compile(self.schedule, layout)
                self._compiled[layout] = entries
        return entries


def threads_of_calls() -> int:
    """Return how many threads a call of this thread uses."""
    return int(cast("Any", numba).get_num_threads())


def _compile(schedule: Schedule, layout: Layout) -> tuple[Entry, ...]:
    """Compile the text of our own emitter, which holds no name or text of a user's."""
    module = emit(schedule, layout)
    types = {s.name: s.dtype for s in schedule.program.scalars}
    code = machine_code(
        module.text, [_signature(one, types) for one in module.functions], module.parts
    )
    return tuple(map(Entry, module.functions, code))


def _signature(function: Function, types: Mapping[str, DType]) -> Signature:
    words = ["int64"] * (FIRST_ARRAY + 4 * len(function.arrays))
    return function.name, (*words, *(_scalar_type(types[name]) for name in function.scalars))


def _scalar_type(dtype: DType) -> str:
    """Return the type that a scalar is passed in: Python's own, converted inside."""
    return "float64" if dtype.is_float else "boolean" if dtype is DType.BOOL else "int64"


def address_of(array: HostArray) -> int:
    """Return the address of an array's element of index zero."""
    return cast("int", array.__array_interface__["data"][0])


def place_of(array: HostArray, origin: tuple[int, int, int]) -> Place:
    """Return where an array is whose element at `origin` is the domain's first point."""
    i, j, k = array.strides
    return Place(
        (address_of(array) + origin[0] * i + origin[1] * j + origin[2] * k, i, j, k), array
    )


def buffer_place(buffer: Buffer, inner: Axis, domain: Domain) -> Place:
    """Return memory for a temporary on a domain."""
    (i_low, i_high), (j_low, j_high) = buffer.extent
    ni, nj, nk = domain
    sizes = (ni + i_high - i_low, nj + j_high - j_low, nk)
    array = array_along(inner, sizes, np.dtype(buffer.dtype.value), (-i_low, -j_low, 0))
    return place_of(array, (-i_low, -j_low, 0))


def array_along(
    inner: Axis, sizes: Domain, dtype: np.dtype[Any], halo: tuple[int, int, int]
) -> HostArray:
    """Return an array whose elements are adjacent along an axis, aligned at index `halo`."""
    if inner is Axis.I:
        return HostMemory().empty(sizes, dtype, halo)
    (ni, nj, nk), (i, j, k) = sizes, halo
    return HostMemory().empty((nk, nj, ni), dtype, (k, j, i)).transpose(2, 1, 0)


def widened(domain: Domain, extent: Horizontal, levels: tuple[int, int]) -> Box:
    """Return the points of some levels of a domain and its extent."""
    (i_low, i_high), (j_low, j_high) = extent
    return (i_low, domain[0] + i_high), (j_low, domain[1] + j_high), levels


def cut_of(kernel: Kernel, entry: Entry, call: Call, sizes: Sizes) -> Cut:
    """Return the columns that a kernel walks in, where a box has so many points along each axis."""
    i, j, k = sizes
    turned = (i, j, k) if call.inner is Axis.I else (k, j, i)
    return cut(entry.function.reuse, kernel, turned, call.walk, call.caches)


def sizes_of(box: Box) -> Sizes:
    """Return how many points a box has along each axis."""
    (i0, i1), (j0, j1), (k0, k1) = box
    return i1 - i0, j1 - j0, k1 - k0


def words_of(entry: Entry, call: Call, found: Cut) -> tuple[int, ...]:
    """Return the arguments of a kernel that come between those of a box and the scalars."""
    arrays = [word for name in entry.function.arrays for word in call.places[name].words]
    return (call.domain[2], found.rows, found.width, *arrays)


def flat(box: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the arguments of a kernel for a box, the first ones."""
    return (bound for bounds in box for bound in bounds)
