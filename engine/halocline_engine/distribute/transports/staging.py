"""Rooms of a pipeline: where the arrays of several fields are in one buffer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.datasets.match import FieldUse
from halocline_engine.distribute.grid.partition import Box

__all__ = ["ALIGNED", "StagingLayout", "box_bytes", "shape_of", "staging_bytes"]

#: Bytes that what is copied to or from a device begins at a multiple of.
ALIGNED = 256


class StagingLayout:
    """A buffer of bytes, parts of which belong to fields; `most` is what each may need."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self._starts: dict[str, int] = {}
        self.size = 0
        for name, size in most.items():
            self._starts[name] = self.size
            self.size += -(-size // ALIGNED) * ALIGNED

    def part(self, buffer: Array, name: str) -> Array:
        """Return the bytes of a field."""
        start = self._starts[name]
        return buffer[start : start + self._most[name]]

    def array(self, buffer: Array, use: FieldUse, box: Box) -> Array:
        """Return the array of a field that holds a box: dense, indexed [i, j, k], I fastest."""
        part = self.part(buffer, use.name)[: box_bytes(use, box)]
        return part.view(use.dtype).reshape(shape_of(box), order="F")


def staging_bytes(size: int) -> int:
    """Return the bytes of a room, at most, for so many that are in the files of chunks.

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
