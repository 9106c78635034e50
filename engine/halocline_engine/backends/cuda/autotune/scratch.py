"""Arrays to try a program on, so that nothing of its user's is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.runtime.machine import Machine

__all__ = ["scratch_fields"]

#: Addresses are equal to those of the user's arrays up to a multiple of this.
_LINE = 256


def scratch_fields(
    machine: Machine, fields: Mapping[str, Array], written: Collection[str], read: Collection[str]
) -> dict[str, Array]:
    """Return the fields, with new memory that lies in the same way for those that are written.

    What is `read` of these has the same contents. Raises `CapacityError` where it does not fit.
    """
    found = dict(fields)
    for name in written:
        if name in fields:
            found[name] = _like(machine, fields[name])
            if name in read:
                found[name][...] = fields[name]
    return found


def _like(machine: Machine, array: Array) -> Array:
    dtype = np.dtype(array.dtype)
    spans = [step * (size - 1) for step, size in zip(array.strides, array.shape, strict=True)]
    before = -sum(min(0, span) for span in spans)
    after = sum(max(0, span) for span in spans) + dtype.itemsize
    lowest = machine.address(array) - before

    def start(address: int) -> int:
        return before + (lowest - address) % _LINE

    i, j, k = array.strides
    ni, nj, nk = array.shape
    return machine.allocate(before + after + _LINE, start, (ni, nj, nk), dtype, (i, j, k))
