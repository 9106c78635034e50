"""Indices made sure: in range or marked, as narrow as they can be, duplicates dealt with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.indirect.problem import (
    Duplicates,
    Index,
    Negative,
    OutOfRange,
    Policy,
)

__all__ = ["LEFT_OUT", "Groups", "first_duplicate", "group", "keep_last", "narrowest", "resolve"]

#: What stands for an element that is not moved.
LEFT_OUT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Which elements go to the same place.

    `places` are the places in ascending order; to `places[n]` go the elements
    `order[starts[n]:starts[n + 1]]`, in the order of the indices.
    """

    places: Index
    starts: Index
    order: Index


def narrowest(index: NDArray[Any], size: int) -> Index:
    """Return indices of `size` elements with 32 bits where these are enough, else with 64."""
    dtype = np.int32 if size < 2**31 else np.int64
    return np.ascontiguousarray(index.astype(dtype, copy=False))


def resolve(index: NDArray[Any], size: int, policy: Policy, *, name: str = "index") -> Index:
    """Return indices from 0 to `size` - 1, or `LEFT_OUT`, for those that were given.

    `index` is one-dimensional and holds whole numbers. Raises `ArgumentError` that names the first
    index out of range, where that is the policy.
    """
    if index.dtype.kind not in "iu":
        raise ArgumentError(
            f"The indices '{name}' must be whole numbers, got '{index.dtype}'.",
            hint="Convert them with astype('int64').",
        )
    if index.size == 0:
        return np.empty(0, np.int32)
    low, high = int(index.min()), int(index.max())
    if low >= 0 and high < size:
        return narrowest(index, size)
    if high >= 2**63:
        index = np.minimum(index, np.uint64(2**63 - 1))
    whole = index.astype(np.int64)
    if policy.negative is Negative.FROM_END:
        whole = np.where((whole < 0) & (whole >= -size), whole + size, whole)
    return narrowest(_in_range(whole, index, size, policy.out_of_range, name), size)


def _in_range(
    whole: NDArray[np.int64], given: NDArray[Any], size: int, rule: OutOfRange, name: str
) -> NDArray[np.int64]:
    outside = (whole < 0) | (whole >= size)
    if not outside.any():
        return whole
    if size == 0 and rule in (OutOfRange.CLIP, OutOfRange.WRAP):
        raise ArgumentError(
            f"The indices '{name}' point into nothing: there are no elements to take instead.",
            hint="Use out_of_range='mask'.",
        )
    match rule:
        case OutOfRange.ERROR:
            first = int(outside.argmax())
            more = int(outside.sum()) - 1
            others = f" {more} more are out of range." if more else ""
            raise ArgumentError(
                f"Index {int(given[first])} at place {first} of '{name}' is out of range: expected"
                f" numbers from 0 to {size - 1}.{others}",
                hint="Use out_of_range='clip', 'wrap' or 'mask' if that is meant.",
            )
        case OutOfRange.CLIP:
            return np.clip(whole, 0, size - 1)
        case OutOfRange.WRAP:
            return whole % size
        case OutOfRange.MASK:
            return np.where(outside, LEFT_OUT, whole)
        case _:
            assert_never(rule)


def group(index: Index) -> Groups:
    """Return which elements go to the same place; those that are left out are in no group."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    skipped = int(np.searchsorted(ordered, 0))
    order, ordered = order[skipped:], ordered[skipped:]
    first = np.ones(ordered.size, bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.append(np.flatnonzero(first), ordered.size)
    most = index.size + 1
    return Groups(ordered[first], narrowest(starts, most), narrowest(order, most))


def first_duplicate(index: Index) -> tuple[int, int] | None:
    """Return the first place whose index was there before, and where; None if there is none."""
    groups = group(index)
    repeated = np.ones(groups.order.size, bool)
    repeated[groups.starts[:-1]] = False
    if not repeated.any():
        return None
    place = int(groups.order[repeated].min())
    return place, int((index == index[place]).argmax())


def keep_last(index: Index, duplicates: Duplicates, *, name: str = "index") -> Index:
    """Return the indices of a scatter with one element for each place, the last one.

    Raises `ArgumentError` that names the first duplicate, where that is the policy.
    """
    if duplicates is Duplicates.ERROR:
        found = first_duplicate(index)
        if found is None:
            return index
        place, before = found
        raise ArgumentError(
            f"Index {int(index[place])} at place {place} of '{name}' was at place {before} before:"
            " two elements would go to one place.",
            hint="Use duplicates='last', 'sum', 'min' or 'max' if that is meant.",
        )
    groups = group(index)
    kept = np.full_like(index, LEFT_OUT)
    last = groups.order[groups.starts[1:] - 1]
    kept[last] = index[last]
    return kept
