"""Fused multiply-add with NumPy: `a * b + c` as if computed exactly and then rounded once.

Sums and products of doubles have errors that are doubles as well and can be computed exactly. What
is rounded to odd first can be rounded again to fewer bits without harm: S. Boldo and G. Melquiond,
"Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57 (2008).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import numpy as np

from halocline_engine.backends.base import HostArray

__all__ = ["multiply_add"]

#: Splits a double into two halves of 26 bits.
_SPLIT = float((1 << 27) + 1)
#: Within these, no error of a product is lost below the smallest number and nothing overflows.
_LARGE, _HUGE, _SMALL = 2.0**995, 2.0**1020, 2.0**-900


def multiply_add(a: HostArray, b: HostArray, c: HostArray) -> HostArray:
    """Return `a * b + c`, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == np.float32:
        # A product of singles is exact in doubles.
        product, more = np.multiply(a, b, dtype=np.float64), c.astype(np.float64)
        return _odd_sum(product, more).astype(np.float32)
    return _of_doubles(a, b, c)


def _of_doubles(a: HostArray, b: HostArray, c: HostArray) -> HostArray:
    rough = a * b
    size = np.abs(rough)
    usual = (size >= _SMALL) & (size <= _HUGE) & (np.abs(c) <= _HUGE)
    usual &= (np.abs(a) <= _LARGE) & (np.abs(b) <= _LARGE)
    high, low = _product(a, b)
    above, below = _sum(c, low)
    first, second = _sum(high, above)
    # Neither infinities, NaN nor zeros are rounded; what is left has exponents near the ends.
    finite = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite & ~np.isfinite(c), c, rough + c)
    found = np.asarray(np.where(usual, first + _odd_sum(below, second), plain))
    for at in np.argwhere(finite & np.isfinite(c) & ~usual & (a != 0) & (b != 0)):
        place = tuple(at)
        found[place] = _exact(float(a[place]), float(b[place]), float(c[place]))
    return found


def _exact(a: float, b: float, c: float) -> float:
    """Return the same by fractions, which Python rounds correctly."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _sum(x: HostArray, y: HostArray) -> tuple[HostArray, HostArray]:
    """Return a sum and its error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _product(x: HostArray, y: HostArray) -> tuple[HostArray, HostArray]:
    """Return a product and its error."""
    total = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = ((x_high * y_high - total) + x_high * y_low + x_low * y_high) + x_low * y_low
    return total, rest


def _halves(x: HostArray) -> tuple[HostArray, HostArray]:
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _odd_sum(x: HostArray, y: HostArray) -> HostArray:
    """Return a sum, rounded to a number whose last bit is 1 where it is not exact."""
    total, error = _sum(x, y)
    bits: Any = np.asarray(total).view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    odd = np.array(bits)
    odd[...] += inexact * step
    return cast("HostArray", odd.view(np.float64))
