"""Addresses of an array on any device, and whether two arrays share a byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from halocline_engine.backends.base import Array, HostArray

__all__ = ["Span", "disjoint"]

#: How long to look for a shared element before it is taken for granted.
_MAX_WORK = 100_000


@dataclass(frozen=True, slots=True)
class Span:
    """The address of the first element, and the shape and the strides in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of(cls, array: Array) -> Span:
        """Return the span of a NumPy or CuPy array."""
        # CuPy's arrays say where they are at once; describing themselves takes them longer.
        address: int | None = getattr(getattr(array, "data", None), "ptr", None)
        if address is None:
            device: object = getattr(array, "__cuda_array_interface__", None)
            interface = cast("Mapping[str, Any]", device or array.__array_interface__)
            address = int(interface["data"][0])
        return cls(address, tuple(array.shape), tuple(array.strides), array.dtype.itemsize)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first byte and one past the last; equal where there is no element."""
        if 0 in self.shape:
            return self.address, self.address
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = sum(step for step in steps if step < 0)
        high = sum(step for step in steps if step > 0)
        return self.address + low, self.address + high + self.itemsize

    def shares(self, other: Span) -> bool:
        """Whether any byte belongs to both; where that is too hard to say, yes."""
        (a, b), (c, d) = self.bounds, other.bounds
        if b <= c or d <= a:
            return False
        # NumPy's stubs know only two of the values that max_work takes.
        shares_memory = cast("Any", np.shares_memory)
        try:
            return bool(shares_memory(self._ghost(), other._ghost(), max_work=_MAX_WORK))
        except np.exceptions.TooHardError:
            return True

    def _ghost(self) -> HostArray:
        """Return an array at these addresses, which may be another device's: never look inside."""
        return np.asarray(_Ghost(self))


class _Ghost:
    """Array interface for NumPy that keeps no memory alive."""

    def __init__(self, span: Span) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (span.address, True),
            "shape": span.shape,
            "strides": span.strides,
            "typestr": f"|V{span.itemsize}",
        }


def disjoint(spans: Sequence[tuple[int, int]], written: Sequence[bool]) -> bool:
    """Whether no written array has memory between the first and last byte of another one.

    `spans` are the addresses of the first byte of each array and of the one past its last.

    >>> disjoint([(0, 8), (4, 12)], [False, False]), disjoint([(0, 8), (4, 12)], [True, False])
    (True, False)
    """
    ordered = sorted((*span, is_written) for span, is_written in zip(spans, written, strict=True))
    return not any(_overlap(ordered))


def _overlap(spans: Iterable[tuple[int, int, bool]]) -> Iterable[bool]:
    """Yield, for each span and those that begin inside it, whether one of them is written."""
    ordered = list(spans)
    for position, (_, last, is_written) in enumerate(ordered):
        for first, _, other_is_written in ordered[position + 1 :]:
            if first >= last:
                break
            yield is_written or other_is_written
