"""Conversion of whole numbers of any type to 64 bits, in which none wraps around to another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["first_fraction", "whole_numbers"]

_LARGEST = 2**63 - 1


def whole_numbers(given: NDArray[Any]) -> NDArray[np.int64]:
    """Return whole numbers as int64.

    Those of unsigned types that int64 does not hold become its largest number: there is no array
    with so many elements, so they name none in both forms. The same holds for floats, which must
    have no fraction, see `first_fraction`.
    """
    if given.dtype.kind == "u" and given.dtype.itemsize == 8:
        return np.minimum(given, np.uint64(_LARGEST)).astype(np.int64)
    if given.dtype.kind != "f":
        return given.astype(np.int64, copy=False)
    wide = given.astype(np.result_type(given, np.float64), copy=False)
    above, below = wide >= 2.0**63, wide < -(2.0**63)
    inside = np.where(above | below, 0.0, wide).astype(np.int64)
    return np.where(above, _LARGEST, np.where(below, -_LARGEST - 1, inside))


def first_fraction(given: NDArray[Any]) -> int | None:
    """Return the index of the first value that is not a whole number, or None.

    Values that are neither integers nor floats are none.
    """
    if given.dtype.kind in "iu":
        return None
    if given.dtype.kind != "f":
        return 0 if given.size else None
    flat = given.reshape(-1)
    with np.errstate(invalid="ignore"):
        wrong = ~(np.isfinite(flat) & (np.trunc(flat) == flat))
    return int(wrong.argmax()) if wrong.any() else None
