"""Memory that blocks of threads keep temporaries in."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.kernels.staged.tile import Room
from halocline_engine.backends.cuda.runtime.machine import Machine

__all__ = ["reserve"]


def reserve(rooms: Iterable[Room], machine: Machine) -> dict[str, Array]:
    """Return new memory for each room by its name, aligned; contents are not defined.

    Raises `CapacityError` where it does not fit.
    """
    found: dict[str, Array] = {}
    for room in rooms:
        size = room.elements * room.itemsize

        def start(address: int, alignment: int = room.alignment) -> int:
            return -address % alignment

        found[room.name] = machine.allocate(
            size + room.alignment, start, (size, 1, 1), np.dtype(np.uint8), (1, size, size)
        )
    return found
