"""Interface of a transport, which moves one field between a store and a device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from halocline_engine.backends.base import Array, HostArray
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.chunks import Tally
from halocline_engine.distribute.grid.partition import Block, Box

__all__ = [
    "Copies",
    "Loading",
    "Part",
    "Storing",
    "TransferredBytes",
    "box_bytes",
    "shape_of",
    "staging_bytes",
]


@dataclass(frozen=True, slots=True)
class Part:
    """Values that an item of a pipeline has of a field, and the slot that it is in.

    `block` has one point of the dimensions that are not axes of the program.
    """

    item: int
    slot: int
    block: Block
    box: Box


@dataclass(frozen=True, slots=True)
class TransferredBytes:
    """Bytes that were moved; of these, those without a copy on the host, and those directly."""

    size: int
    zero_copy: int = 0
    direct_io: int = 0


class Copies(Protocol):
    """Queues the copies between host and device."""

    def send(self, host: HostArray, into: Array) -> None:
        """Queue the copy of an array [i, j, k] to the device; points along I stand side by side."""
        ...

    def fetch(self, array: Array, into: HostArray) -> None:
        """Queue the copy of a target's array to such an array."""
        ...


class Loading(Protocol):
    """Brings a field from its source to the device."""

    @property
    def several(self) -> bool:
        """Whether several items may be read at the same time, as that leaves nothing in a cache."""
        ...

    def read(self, part: Part, tally: Tally) -> TransferredBytes:
        """Read values to where the device copies them from, or find that they are there."""
        ...

    def send(self, part: Part, into: Array) -> None:
        """Queue the copies of what was read to an array [i, j, k] of the device."""
        ...


class Storing(Protocol):
    """Brings a field from the device to its sink."""

    def prepare(self, part: Part) -> None:
        """Find where the values go, before they are computed."""
        ...

    def fetch(self, part: Part, made: Array) -> None:
        """Queue the copies of an array [i, j, k] of the device."""
        ...

    def write(self, part: Part) -> TransferredBytes:
        """Write what was fetched, if it is not where it belongs."""
        ...


def staging_bytes(size: int) -> int:
    """Return the bytes of a buffer, at most, for so many that are in the files of chunks.

    Chunks have cells behind the end of the data, and beside those that a block needs.
    """
    return size * 5 // 4


def shape_of(box: Box) -> tuple[int, int, int]:
    """Return how many points a box has along I, J and K."""
    i, j, k = (span.size for span in box)
    return i, j, k


def box_bytes(use: FieldUse, box: Box) -> int:
    """Return the bytes of a field's values in a box."""
    return math.prod(shape_of(box)) * np.dtype(use.dtype).itemsize
