"""States of reductions: integers that merge without rounding.

A sum is kept as the digits of an integer, in units of ``2**-1080``. A digit has `WIDTH` bits and
stands for `WIDTH` exponents; all digits are below ``2**WIDTH`` and none is negative except the
last, so that a state has one form only. Digits of several states add up to digits of their union.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BITS",
    "COLUMNS",
    "COUNT",
    "DIGITS",
    "EXTREME_COLUMNS",
    "LOWEST",
    "NANS",
    "NAN_PLACE",
    "NEGATIVE",
    "PLACE",
    "POSITIVE",
    "WIDTH",
    "States",
    "carried",
    "carrier",
    "merged_extremes",
    "merged_sums",
    "new_extremes",
    "new_sums",
    "whole_sums",
]

#: States of groups, indexed [group, column].
States: TypeAlias = NDArray[np.int64]

WIDTH = 40
#: Exponent of the unit of the first digit: a multiple of `WIDTH` below that of all doubles.
LOWEST = -27 * WIDTH
#: Digits of 2**63 values of the largest exponent.
DIGITS = 55
#: Columns behind the digits: numbers of finite values, NaNs and infinities of each sign.
COUNT, NANS, POSITIVE, NEGATIVE = range(DIGITS, DIGITS + 4)
COLUMNS = DIGITS + 4

#: Columns of an extreme: the bits of its value, its place and that of the first NaN; -1 for none.
BITS, PLACE, NAN_PLACE = range(3)
EXTREME_COLUMNS = 3


def new_sums(groups: int) -> States:
    """Return the states of sums of nothing."""
    return np.zeros((groups, COLUMNS), np.int64)


def new_extremes(groups: int) -> States:
    """Return the states of extremes of nothing."""
    return np.full((groups, EXTREME_COLUMNS), -1, np.int64)


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of eight bytes that holds all values of a type.

    >>> carrier(np.dtype("float32")), carrier(np.dtype("uint8")), carrier(np.dtype("bool"))
    (dtype('float64'), dtype('int64'), dtype('int64'))
    """
    if dtype.kind == "f":
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


def carried(states: States) -> States:
    """Return states of sums in their one form, from digits of up to 62 bits."""
    made = states.copy()
    for digit in range(DIGITS - 1):
        over = made[..., digit] >> WIDTH
        made[..., digit] -= over << WIDTH
        made[..., digit + 1] += over
    return made


def merged_sums(states: States) -> States:
    """Return the states of unions, from states indexed [part, group, column]."""
    return carried(states.sum(axis=0, dtype=np.int64))


def merged_extremes(states: States, dtype: np.dtype[Any], *, largest: bool) -> States:
    """Return the states of unions, from states indexed [part, group, column].

    Of equal values the one at the lowest place wins, in any order of parts.
    """
    merged = states[0].copy()
    for other in states[1:]:
        held, given = (
            one[:, BITS].view(carrier(dtype)) for one in (merged, np.ascontiguousarray(other))
        )
        better = given > held if largest else given < held
        earlier = (given == held) & (other[:, PLACE] < merged[:, PLACE])
        takes = (other[:, PLACE] >= 0) & ((merged[:, PLACE] < 0) | better | earlier)
        merged[takes, :NAN_PLACE] = other[takes, :NAN_PLACE]
        nan = other[:, NAN_PLACE]
        first = (nan >= 0) & ((merged[:, NAN_PLACE] < 0) | (nan < merged[:, NAN_PLACE]))
        merged[first, NAN_PLACE] = nan[first]
    return merged


def whole_sums(states: States) -> NDArray[np.int64]:
    """Return exact sums of whole numbers, which have a place in int64."""
    unit = -LOWEST // WIDTH
    return states[:, unit] + (states[:, unit + 1] << WIDTH)
