"""Reductions with the integers of Python, value by value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.reduce.states import (
    BITS,
    COUNT,
    DIGITS,
    LOWEST,
    NAN_PLACE,
    NANS,
    NEGATIVE,
    PLACE,
    POSITIVE,
    WIDTH,
    States,
    carrier,
    new_extremes,
    new_sums,
)

__all__ = ["add_up", "find_extremes", "round_sums", "total_of"]


def add_up(
    values: NDArray[Any],
    codes: NDArray[np.int64] | None,
    labels: int,
    weights: NDArray[Any] | None = None,
) -> States:
    """Return the states of sums.

    Parameters
    ----------
    values : array of shape (rows, values) or, without `codes`, (rows, lines, values)
        Numbers of any real type.
    codes : array of the same shape, or None
        Label of each value, below zero for those that are left out.
    labels : int
        Number of labels; 1 without `codes`.
    weights : array of the same shape, or None
        Factor of each value. Products are rounded to float64 before they are added.

    Returns
    -------
    array of shape (rows * labels, COLUMNS)
        State of each row and label.

    """
    if weights is not None:
        values = np.multiply(values, weights, dtype=np.float64)
    values = values.reshape(len(values), math.prod(values.shape[1:]))
    states, totals = new_sums(len(values) * labels), [0] * (len(values) * labels)
    for group, _, value in _members(values, codes, labels):
        if not math.isfinite(value):
            column = NANS if math.isnan(value) else POSITIVE if value > 0 else NEGATIVE
            states[group, column] += 1
            continue
        states[group, COUNT] += 1
        upper, lower = value.as_integer_ratio()
        totals[group] += (upper << -LOWEST) // lower
    for group, total in enumerate(totals):
        for digit in range(DIGITS - 1):
            states[group, digit] = (total >> WIDTH * digit) & ((1 << WIDTH) - 1)
        states[group, DIGITS - 1] = total >> WIDTH * (DIGITS - 1)
    return states


def find_extremes(
    values: NDArray[Any], codes: NDArray[np.int64] | None, labels: int, *, largest: bool
) -> States:
    """Return the states of extremes, with places along the row; see `add_up`."""
    states = new_extremes(len(values) * labels)
    bits = values.astype(carrier(values.dtype)).view(np.int64)
    best: dict[int, Any] = {}
    for group, (row, at), value in _members(values, codes, labels):
        if value != value:
            if states[group, NAN_PLACE] < 0:
                states[group, NAN_PLACE] = at
        elif group not in best or (value > best[group] if largest else value < best[group]):
            best[group] = value
            states[group, BITS], states[group, PLACE] = bits[row, at], at
    return states


def round_sums(states: States) -> NDArray[np.float64]:
    """Return the sums, each the nearest double to the exact one, as IEEE 754 adds infinities.

    NaNs are left out; see `states.NANS` for their number.
    """
    sums = np.empty(len(states))
    for group, state in enumerate(states):
        if state[POSITIVE] or state[NEGATIVE]:
            sums[group] = (math.inf if state[POSITIVE] else 0.0) - (
                math.inf if state[NEGATIVE] else 0.0
            )
            continue
        try:
            sums[group] = total_of(state) / (1 << -LOWEST)
        except OverflowError:
            sums[group] = math.copysign(math.inf, int(state[DIGITS - 1]))
    return sums


def total_of(state: NDArray[np.int64]) -> int:
    """Return the exact sum of finite values in units of ``2**LOWEST``."""
    return sum(int(state[digit]) << (WIDTH * digit) for digit in range(DIGITS))


def _members(
    values: NDArray[Any], codes: NDArray[np.int64] | None, labels: int
) -> Iterator[tuple[int, tuple[int, int], Any]]:
    """Yield the group, the row and place, and the value of each member of a group."""
    for row, at in np.ndindex(values.shape):
        code = 0 if codes is None else int(codes[row, at])
        if code >= 0:
            yield row * labels + code, (row, at), values[row, at].item()
