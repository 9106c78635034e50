"""Arrays beside memory that cannot be read."""

from __future__ import annotations

import ctypes
import mmap
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["guarded"]

_NOTHING = 0


def guarded(shape: tuple[int, ...], dtype: np.dtype[Any], *, behind: bool) -> NDArray[Any]:
    """Return an array in Fortran's order that ends where no memory is, or begins behind such."""
    size, page = prod(shape) * dtype.itemsize, mmap.PAGESIZE
    pages = -(-size // page)
    room = mmap.mmap(-1, (pages + 2) * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None, use_errno=True)
    for edge in (address, address + (pages + 1) * page):
        done = libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(page), _NOTHING)
        assert done == 0, ctypes.get_errno()
    start = (pages + 1) * page - size if behind else page
    return np.ndarray(shape, dtype, room, start, order="F")
