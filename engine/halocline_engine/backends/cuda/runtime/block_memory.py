"""Memory for the temporaries of blocks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.kernels.staged.tile import BlockMemory
from halocline_engine.backends.cuda.runtime.machine import Machine

__all__ = ["reserve"]


def reserve(block_memory: Iterable[BlockMemory], machine: Machine) -> dict[str, Array]:
    """Return new memory for each of them by its name, aligned; contents are not defined.

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
