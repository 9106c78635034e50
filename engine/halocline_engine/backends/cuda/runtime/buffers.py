"""Memory of the temporaries that kernels hand on, all of a call in one allocation.

They lie as most bytes of the fields do: where elements of a call's fields are neighbours along K,
threads are too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.kernels.kind import BlockMemory
from halocline_engine.backends.cuda.model.layout import DEVICE_ALIGNMENT, DEVICE_LAYOUT
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import View, view_of
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.cuda.runtime.memory import PitchedMemory
from halocline_engine.ir.extent import CENTRE, enclose
from halocline_engine.schedule.nodes import Buffer

__all__ = ["BufferPlaces", "Buffers", "Layout", "layout_like", "reserve_blocks"]

#: The order of the axes, as `model.layout` has it.
Layout: TypeAlias = tuple[int, int, int]
#: K the fastest, then J or I.
_ALONG_K: tuple[Layout, Layout] = ((1, 0, 2), (0, 1, 2))


def layout_like(fields: Iterable[tuple[View, int]]) -> Layout:
    """Return the order of axes of buffers beside fields, given with the sizes of their elements."""
    full = [(view.strides, size) for view, size in fields if 0 not in view.strides]
    along = [(strides, size) for strides, size in full if strides[2] == 1 != strides[0]]
    if 2 * sum(size for _, size in along) <= sum(size for _, size in full):
        return DEVICE_LAYOUT
    votes = sum(1 if abs(j) < abs(i) else -1 for (i, j, _), _ in along)
    return _ALONG_K[votes > 0]


@dataclass(frozen=True, slots=True)
class BufferPlaces:
    """Offset of the domain's first point in each buffer, in bytes from the start of `size`."""

    size: int
    starts: Mapping[str, int]

    def room(self, machine: Machine) -> Array:
        """Return memory for all of them; raises `CapacityError` where it does not fit."""
        size = self.size
        return machine.allocate(
            size + DEVICE_ALIGNMENT, _aligned, (size, 1, 1), np.dtype(np.uint8), (1, size, size)
        )

    def at(self, address: int) -> dict[str, int]:
        """Return the address of the domain's first point in each buffer."""
        return {name: address + start for name, start in self.starts.items()}


@dataclass(frozen=True, slots=True)
class Buffers:
    """The temporaries that live in memory between the kernels of a program."""

    buffers: tuple[Buffer, ...]
    memory: PitchedMemory

    def places(self, used: Sequence[Buffer], domain: Domain, layout: Layout) -> BufferPlaces:
        """Return where those that are used lie; the first point of every row is aligned."""
        shape, origin = self._room(domain)
        starts: dict[str, int] = {}
        size = 0
        for buffer in used:
            info = self.memory.info(shape, np.dtype(buffer.dtype.value), origin, layout)
            itemsize = buffer.dtype.itemsize
            first = size + info.shift(size, itemsize, DEVICE_ALIGNMENT)
            starts[buffer.name] = first + info.offset * itemsize
            size += -(-info.allocation * itemsize // DEVICE_ALIGNMENT) * DEVICE_ALIGNMENT
        return BufferPlaces(size, starts)

    def views(self, domain: Domain, around: int, layout: Layout) -> dict[str, View]:
        """Return how a call uses all of them, as if the domain began at the address 0 in each.

        They share no memory with any other array.
        """
        shape, start = self._room(domain)
        views: dict[str, View] = {}
        for buffer in self.buffers:
            dtype = np.dtype(buffer.dtype.value)
            info = self.memory.info(shape, dtype, start, layout)
            i, j, k = (stride * dtype.itemsize for stride in info.strides)
            strides = (i, j, k)
            first = -sum(o * s for o, s in zip(start, strides, strict=True))
            view = view_of(buffer.name, first, dtype.itemsize, shape, strides, start, around)
            views[buffer.name] = replace(view, first=0, last=0)
        return views

    def _room(self, domain: Domain) -> tuple[Domain, Domain]:
        """Return the shape of every buffer, and where the domain begins in it.

        All have the same shape, so that those of one element size share their strides.
        """
        extents = (buffer.extent for buffer in self.buffers)
        (i_low, i_high), (j_low, j_high) = reduce(enclose, extents, CENTRE)
        shape = (domain[0] + i_high - i_low, domain[1] + j_high - j_low, domain[2])
        return shape, (-i_low, -j_low, 0)


def _aligned(address: int) -> int:
    return -address % DEVICE_ALIGNMENT


def reserve_blocks(block_memory: Iterable[BlockMemory], machine: Machine) -> dict[str, Array]:
    """Return new memory for temporaries of blocks, by name, aligned; contents are not defined.

    Raises `CapacityError` where it does not fit.
    """
    found: dict[str, Array] = {}
    for memory in block_memory:
        size = memory.elements * memory.itemsize

        def start(address: int, alignment: int = memory.alignment) -> int:
            return -address % alignment

        found[memory.name] = machine.allocate(
            size + memory.alignment, start, (size, 1, 1), np.dtype(np.uint8), (1, size, size)
        )
    return found
