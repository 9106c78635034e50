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
from halocline_engine.kernels.whole import whole_numbers

__all__ = [
    "LEFT_OUT",
    "Groups",
    "Outside",
    "check_whole",
    "duplicate_error",
    "first_duplicate",
    "group",
    "keep_last",
    "narrowest",
    "outside_error",
    "outside_of",
    "resolve",
]

#: What stands for an element that is not moved.
LEFT_OUT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of elements that go to the same place.

    `places` are the places in ascending order; to `places[n]` go the elements
    `order[starts[n]:starts[n + 1]]`, in the order of the indices.
    """

    places: Index
    starts: Index
    order: Index


@dataclass(frozen=True, slots=True)
class Outside:
    """Indices that are out of range: how many, the place of the first one, and the index there."""

    count: int
    place: int
    given: int


def narrowest(index: NDArray[Any], size: int) -> Index:
    """Return indices of `size` elements with 32 bits where these are enough, else with 64."""
    dtype = np.int32 if size < 2**31 else np.int64
    return np.ascontiguousarray(index.astype(dtype, copy=False))


def resolve(index: NDArray[Any], size: int, policy: Policy, *, name: str = "index") -> Index:
    """Return indices from 0 to `size` - 1, or `LEFT_OUT`, for those that were given.

    `index` is one-dimensional and holds whole numbers. Raises `ArgumentError` that names the first
    index out of range, where that is the policy.
    """
    check_whole(index.dtype, name)
    if index.size == 0:
        return np.empty(0, np.int32)
    low, high = int(index.min()), int(index.max())
    if low >= 0 and high < size:
        return narrowest(index, size)
    whole = _counted(index, size, policy)
    return narrowest(_in_range(whole, index, size, policy.out_of_range, name), size)


def outside_of(index: NDArray[Any], size: int, policy: Policy) -> Outside | None:
    """Return which one-dimensional indices name no element; None where all do."""
    if index.size == 0 or (int(index.min()) >= 0 and int(index.max()) < size):
        return None
    return _outside(_counted(index, size, policy), index, size)


def check_whole(dtype: np.dtype[Any], name: str) -> None:
    """Raise `ArgumentError` for indices that are not whole numbers."""
    if dtype.kind not in "iu":
        raise ArgumentError(
            f"The indices '{name}' must be whole numbers, got '{dtype}'.",
            hint="Convert them with astype('int64').",
        )


def outside_error(outside: Outside, size: int, name: str) -> ArgumentError:
    """Return the error that names the first index out of range."""
    more = outside.count - 1
    others = f" {more} more are out of range." if more else ""
    return ArgumentError(
        f"Index {outside.given} at place {outside.place} of '{name}' is out of range: expected"
        f" numbers from 0 to {size - 1}.{others}",
        hint="Use out_of_range='clip', 'wrap' or 'mask' if that is meant.",
    )


def duplicate_error(index: int, place: int, before: int, name: str) -> ArgumentError:
    """Return the error that names an index that was there before."""
    return ArgumentError(
        f"Index {index} at place {place} of '{name}' was at place {before} before:"
        " two elements would go to one place.",
        hint="Use duplicates='last', 'sum', 'min' or 'max' if that is meant.",
    )


def _counted(index: NDArray[Any], size: int, policy: Policy) -> NDArray[np.int64]:
    """Return indices of 64 bits, counted from the start where the policy counts from the end.

    Those that wrap around are within one period of numbers that 64 bits with a sign do not hold.
    """
    if policy.out_of_range is OutOfRange.WRAP and index.dtype == np.uint64 and size:
        return (index % np.uint64(size)).astype(np.int64)
    whole = whole_numbers(index)
    if policy.negative is Negative.FROM_END:
        whole = np.where((whole < 0) & (whole >= -size), whole + size, whole)
    return whole


def _outside(whole: NDArray[np.int64], given: NDArray[Any], size: int) -> Outside | None:
    outside = (whole < 0) | (whole >= size)
    if not outside.any():
        return None
    first = int(outside.argmax())
    return Outside(int(outside.sum()), first, int(given[first]))


def _in_range(
    whole: NDArray[np.int64], given: NDArray[Any], size: int, rule: OutOfRange, name: str
) -> NDArray[np.int64]:
    outside = _outside(whole, given, size)
    if outside is None:
        return whole
    if size == 0 and rule in (OutOfRange.CLIP, OutOfRange.WRAP):
        raise ArgumentError(
            f"The indices '{name}' point into nothing: there are no elements to take instead.",
            hint="Use out_of_range='mask'.",
        )
    match rule:
        case OutOfRange.ERROR:
            raise outside_error(outside, size, name)
        case OutOfRange.CLIP:
            return np.clip(whole, 0, size - 1)
        case OutOfRange.WRAP:
            return whole % size
        case OutOfRange.MASK:
            return np.where((whole < 0) | (whole >= size), LEFT_OUT, whole)
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
        raise duplicate_error(int(index[place]), place, before, name)
    groups = group(index)
    kept = np.full_like(index, LEFT_OUT)
    last = groups.order[groups.starts[1:] - 1]
    kept[last] = index[last]
    return kept
