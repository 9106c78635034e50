"""Arrays and numbers that a call makes for fields and scalars that no caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add, mul, sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Memory, Point, Scalars
from halocline_engine.errors import ArgumentError, InternalError, LimitError
from halocline_engine.ir.extent import Range
from halocline_engine.ir.integers import MOST_LEVELS
from halocline_engine.ir.nodes import (
    Binary,
    Call,
    Cast,
    Choice,
    Expr,
    Limit,
    Number,
    Parameter,
    Position,
    Scratch,
)
from halocline_engine.ir.show import show_expr
from halocline_engine.ir.types import Axis
from halocline_engine.language.limits import LIMITS

__all__ = [
    "Along",
    "Reach",
    "check_loops",
    "chosen_parts",
    "limit_of",
    "position_array",
    "table_array",
    "watched",
    "widened",
]

_ARITHMETIC = {"+": add, "-": sub, "*": mul}


@dataclass(frozen=True, slots=True)
class Along:
    """A domain that begins at `first` of a whole of some `sizes`."""

    domain: Point
    first: Point
    sizes: Point
    periodic: tuple[bool, bool, bool]


@dataclass(frozen=True, slots=True)
class Reach:
    """Cells around the domain that kernels read of a field, along each of its axes."""

    name: str
    reach: tuple[tuple[int, Range], ...]


def position_array(one: Position, along: Along, reach: Range, memory: Memory) -> Array:
    """Return the array [i, j, k] of a position, with stride 0 along axes it does not have."""
    at = list(Axis).index(one.axis)
    if one.axis is Axis.K and along.sizes[at] > MOST_LEVELS:
        raise ArgumentError(
            f"A program that uses K as a value takes up to {MOST_LEVELS} levels, but got"
            f" {along.sizes[at]}.",
            hint="Name another axis K.",
        )
    first, last = along.first[at] + reach[0], along.first[at] + along.domain[at] + reach[1]
    indices, size = np.arange(first, last, dtype=np.int64), along.sizes[at]
    values = _values(one, indices % size if along.periodic[at] else indices, size)
    return _lengthwise(values, at, -reach[0], memory)


def table_array(dtype: str, values: bytes, memory: Memory) -> Array:
    """Return the array [i, j, k] of a table, whose elements lie along K."""
    return _lengthwise(np.frombuffer(values, dtype), 2, 0, memory)


def _lengthwise(values: NDArray[Any], at: int, halo: int, memory: Memory) -> Array:
    """Return an array [i, j, k] with values along one axis, and stride 0 along the others."""
    i, j, k = (values.size if axis == at else 1 for axis in range(3))
    halo_i, halo_j, halo_k = (halo if axis == at else 0 for axis in range(3))
    array = memory.empty((i, j, k), values.dtype, (halo_i, halo_j, halo_k))
    memory.upload(values.reshape(i, j, k), array)
    # Other queues of a device may read it next: a copy back is complete when it returns.
    memory.download(array)
    for axis in range(3):
        if axis != at:
            before = (slice(None),) * axis
            array = array[(*before, 0)][(*before, None)]
    return array


def widened(
    read: Reach, array: Array, origin: Point, domain: Point, memory: Memory
) -> tuple[Array, Point]:
    """Return an array that has all that kernels read, and its origin."""
    before, after = [0, 0, 0], [0, 0, 0]
    for at, (low, high) in read.reach:
        before[at] = max(0, -(origin[at] + low))
        after[at] = max(0, origin[at] + domain[at] + high - array.shape[at])
    if not any((*before, *after)):
        return array, origin
    sizes = [n + b + a for n, b, a in zip(array.shape, before, after, strict=True)]
    i, j, k = (start + more for start, more in zip(origin, before, strict=True))
    wide = memory.empty((sizes[0], sizes[1], sizes[2]), np.dtype(array.dtype), (i, j, k))
    wide[...] = 0
    held = tuple(slice(b, b + n) for b, n in zip(before, array.shape, strict=True))
    wide[held] = array
    return wide, (i, j, k)


def limit_of(
    limit: Limit, arrays: Mapping[str, Array], origins: Mapping[str, Point], domain: Point
) -> int:
    """Return the first or the last level of an array; they count from the domain's first."""
    if limit.field is None:
        return domain[2] - 1 if limit.last else 0
    first = -origins[limit.field][2]
    return first + arrays[limit.field].shape[2] - 1 if limit.last else first


def chosen_parts(choices: Iterable[Choice], scalars: Scalars) -> Iterator[tuple[str, str]]:
    """Yield the name of each choice with that of the part which it chooses.

    Without scalars, the first part stands for the others.
    """
    for one in choices:
        number = _evaluated(one.index, scalars) if scalars else 0
        yield one.name, one.parts[min(max(number, 0), len(one.parts) - 1)]


def _evaluated(index: Expr, scalars: Scalars) -> int:
    """Return the value of an expression of integers, which wraps around as those of 64 bits do."""
    match index:
        case Number(_, value):
            return int(value)
        case Parameter(name):
            return int(scalars[name])
        case Cast(_, operand):
            return _evaluated(operand, scalars)
        case Binary(operator, left, right):
            value = _ARITHMETIC[operator](_evaluated(left, scalars), _evaluated(right, scalars))
            return (value + 2**63) % 2**64 - 2**63
        case Call(function, arguments):
            several = (_evaluated(one, scalars) for one in arguments)
            return min(several) if function == "min" else max(several)
        case _:
            raise InternalError(f"'{show_expr(index)}' is no index on scalars.")


def watched(loops: Scratch | None, scalars: Scalars, levels: int) -> Scratch | None:
    """Return the field of loops, if they may not end with such scalars and so many levels."""
    if loops is None or not loops.within:
        return loops
    whole = (abs(n) for n in scalars.values() if isinstance(n, int | np.integer))
    return loops if max((levels, *whole)) > loops.within else None


def check_loops(loops: Scratch | None, arrays: Mapping[str, Array], memory: Memory) -> None:
    """Raise `LimitError` where a loop did not end; `arrays` have a shared row for it."""
    if loops is None:
        return
    number = int(memory.download(arrays[loops.name][:, :1, :1]).max())
    if number:
        place = loops.loops[number - 1]
        raise LimitError(
            f"A 'while' was not over after {LIMITS.turns} turns at a point.",
            hint="Limit the number of iterations in its condition.",
            rule="loops",
            line=place.line,
            column=place.column,
        )


def _values(
    position: Position, indices: NDArray[np.int64], size: int
) -> NDArray[np.int64] | NDArray[np.bool_]:
    """Return what a position is at some indices of an axis with so many points."""
    if position.span is None:
        return indices
    start, end = position.span.start.level(size), position.span.end.level(size)
    return (indices >= start) & (indices < end)
