"""Run generated kernels: pack arguments and launch, on whatever machine is given.

The machine is a CUDA device, or in tests its emulation, so that all of this is tested where there
is no device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

import numpy as np

from halocline_engine.backends.base import Array, Memory, Value
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.entries import (
    Entry,
    Loop,
    Pointer,
    ScalarValue,
    Size,
    StrideValue,
    Variant,
    arrays_of,
    entries_of,
    parameters,
    steps_of,
)
from halocline_engine.backends.cuda.launch import (
    Block,
    Domain,
    Launch,
    block_for,
    launches,
    level_range,
)
from halocline_engine.backends.cuda.machine import Kernels, Machine
from halocline_engine.backends.cuda.memory import PitchedMemory
from halocline_engine.backends.cuda.rows import rows_per_thread
from halocline_engine.backends.cuda.views import View, variant_of, view_of
from halocline_engine.cache import Cache, key_of
from halocline_engine.ir.extent import CENTRE, Horizontal, Range, enclose
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.schedule.nodes import Buffer, Schedule

__all__ = ["CudaExecutable"]


@dataclass(frozen=True, slots=True)
class _Call:
    """One call, with everything that its launches need."""

    variant: Variant
    kernels: Kernels
    sizes: Mapping[str, int]
    views: Mapping[str, View]
    strides: Mapping[int, tuple[int, int, int]]
    scalars: Mapping[str, np.generic]


class CudaExecutable:
    """A program that is alive on one machine.

    Variants of the code are compiled when a call needs them first, and kept. Several threads may
    call it, each on its own stream.
    """

    def __init__(
        self,
        schedule: Schedule,
        machine: Machine,
        cache: Cache,
        block_for: Callable[[Entry, Domain], Block] = block_for,
    ) -> None:
        self._schedule = schedule
        self._machine = machine
        self._cache = cache
        self._memory = PitchedMemory(machine)
        self._block_for = block_for
        self._steps = steps_of(schedule)
        self._arrays = arrays_of(schedule)
        self._written = _written(schedule)
        self._around = _around(schedule)
        self._axes = {f.name: f.axes for f in schedule.program.fields}
        self._scalars = {s.name: np.dtype(s.dtype.value) for s in schedule.program.scalars}
        self._compiled: dict[Variant, Kernels] = {}
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
        if 0 in domain:
            return
        buffers, places = self._allocate(domain)
        arrays = {**fields, **buffers}
        starts = {**origins, **places}
        views = {
            name: self._view(name, arrays[name], dtype, starts[name])
            for name, dtype in self._arrays
        }
        variant = variant_of(list(views.values()), self._written)
        call = _Call(
            variant=variant,
            kernels=self._kernels(variant),
            sizes=dict(zip(("ni", "nj", "nk"), domain, strict=True)),
            views=views,
            strides={
                kind: view.strides
                for kind, view in zip(variant.arrays, views.values(), strict=True)
            },
            scalars={
                name: dtype.type(scalars[name])
                for name, dtype in self._scalars.items()
                if name in scalars
            },
        )
        for entry, levels in _sequence(self._steps, domain[2]):
            self._launch(entry, call, domain, levels)

    def source_for(self, variant: Variant) -> str:
        """Return the generated code for a kind of call."""
        return emit(self._schedule, variant)

    def _allocate(self, domain: Domain) -> tuple[dict[str, Array], dict[str, tuple[int, int, int]]]:
        """Return the buffers of a call and where the domain begins in them.

        All have the same shape, so that those of one element size share their strides.
        """
        buffers = self._schedule.buffers
        if not buffers:
            return {}, {}
        (i_low, i_high), (j_low, j_high) = _enclosing(buffers)
        shape = (domain[0] + i_high - i_low, domain[1] + j_high - j_low, domain[2])
        start = (-i_low, -j_low, 0)
        empty = self._memory.empty
        arrays = {b.name: empty(shape, np.dtype(b.dtype.value), start) for b in buffers}
        return arrays, dict.fromkeys(arrays, start)

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

    def _kernels(self, variant: Variant) -> Kernels:
        with self._lock:
            found = self._compiled.get(variant)
            if found is None:
                found = self._compile(self.source_for(variant))
                self._compiled[variant] = found
            return found

    def _compile(self, source: str) -> Kernels:
        """Compile and load code; what was compiled before is kept in the cache."""
        key = key_of(source, self._machine.compiler)
        return self._machine.load(self._cache.get(key, lambda: self._machine.compile(source)))

    def _launch(self, entry: Entry, call: _Call, domain: Domain, levels: Range) -> None:
        block = self._block_for(entry, domain)
        rows = rows_per_thread(entry, disjoint=call.variant.disjoint)
        for launch in launches(entry, domain, block, rows, levels):
            arguments = _arguments(entry, self._schedule, call, launch)
            call.kernels.launch(entry.name, launch.grid, launch.block, arguments)


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


def _arguments(
    entry: Entry, schedule: Schedule, call: _Call, launch: Launch
) -> tuple[np.generic, ...]:
    """Return the values of a kernel's parameters, in order and with their types."""
    index = np.int64 if call.variant.wide else np.int32
    sizes = {**call.sizes, "row": launch.row, "level": launch.level}

    def value(arg: Size | StrideValue | Pointer | ScalarValue) -> np.generic:
        match arg:
            case Size(name):
                return np.int32(sizes[name])
            case StrideValue(kind, axis):
                return index(call.strides[kind][axis])
            case Pointer(array):
                return np.uint64(call.views[array].address)
            case ScalarValue(name):
                return call.scalars[name]
            case _:
                assert_never(arg)

    return tuple(map(value, parameters(entry, schedule, call.variant)))


def _written(schedule: Schedule) -> tuple[bool, ...]:
    names = {name for entry in entries_of(schedule) for name in entry.written}
    return tuple(name in names for name, _ in arrays_of(schedule))


def _around(schedule: Schedule) -> int:
    """Return the most points beyond the domain that a kernel computes in any direction."""
    extents = (entry.kernel.extent for entry in entries_of(schedule))
    return max((abs(n) for extent in extents for pair in extent for n in pair), default=0)


def _enclosing(buffers: Sequence[Buffer]) -> Horizontal:
    return reduce(enclose, (buffer.extent for buffer in buffers), CENTRE)
