"""Ghost cells around an array, and targets that fill all of them at once.

Ghosts of an array are the cells beyond its data. They are made of the data along I, then J, then K,
so that a corner belongs to the later axis: a cell beyond the data along K has the value that the
rule of K makes of cells of its column, which may be ghosts along J, and so on. So each ghost
follows from data alone, and all of them may be made at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import setitem
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from halocline_engine.analysis.boundaries import Kind, cells_of, is_negated
from halocline_engine.backends.base import Array

__all__ = ["Ends", "Filling", "Framed", "Rule", "Side", "copies"]


class Rule(StrEnum):
    """Rule by which ghosts at one end follow from data: see `distribute.grid.boundary`."""

    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"
    ANTISYMMETRIC = "antisymmetric"
    EXTRAPOLATE = "extrapolate"
    WRAP = "wrap"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Side:
    """One end of an axis; `value` belongs to CONSTANT."""

    rule: Rule
    value: float = 0.0


#: Both ends of I, J and K, for all arrays; None where nothing is made.
Ends: TypeAlias = tuple[tuple[Side | None, Side | None], ...]


@dataclass(frozen=True, slots=True)
class Framed:
    """An array indexed [i, j, k], and which indices hold data along each axis.

    Those before and behind them are ghosts, if there is a rule for that end.
    """

    array: Array
    data: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@runtime_checkable
class Filling(Protocol):
    """An executable that fills the ghosts of several of its memory's arrays at once."""

    def filling(self, ends: Ends, several: Sequence[Framed]) -> Callable[[], None] | None:
        """Return what fills all ghosts from the data that arrays hold by then, by one thread.

        On a device that is queued on the current stream. None where this cannot be done.
        """
        ...


def copies(one: Framed, ends: Ends) -> list[Callable[[], None]]:
    """Return what fills the ghosts of an array, in order, from what it holds by then.

    It copies slices, which NumPy and CuPy both understand.
    """
    found: list[Callable[[], None]] = []
    for axis, ((first, stop), (low, high)) in enumerate(zip(one.data, ends, strict=True)):
        size = one.array.shape[axis]
        if low is not None and first > 0:
            found += _filled(one.array, axis, low, _End(first, 1, first, stop - first))
        if high is not None and stop < size:
            found += _filled(one.array, axis, high, _End(stop - 1, -1, size - stop, stop - first))
    return found


@dataclass(frozen=True, slots=True)
class _End:
    """An end of an axis: its last cell, the way inwards, how many ghosts and cells there are."""

    last: int
    inwards: int
    depth: int
    cells: int

    def cell(self, inwards: int) -> int:
        """Return the index of a cell that is so far from the last one; of a ghost, if negative."""
        return self.last + self.inwards * inwards


def _filled(array: Array, axis: int, side: Side, end: _End) -> Iterator[Callable[[], None]]:
    for distance in range(1, end.depth + 1):
        ghost = _part(array, axis, end.cell(-distance))
        match side.rule:
            case Rule.CONSTANT:
                yield partial(setitem, ghost, ..., side.value)
            case Rule.WRAP:
                yield partial(
                    setitem, ghost, ..., _part(array, axis, end.cell(end.cells - distance))
                )
            case Rule.EDGE | Rule.REFLECT | Rule.SYMMETRIC | Rule.ANTISYMMETRIC | Rule.EXTRAPOLATE:
                kind = Kind(side.rule.value)
                cells = [_part(array, axis, end.cell(cell)) for cell in cells_of(kind, distance)]
                if len(cells) > 1:
                    yield partial(_on_the_line, ghost, distance, *cells)
                elif is_negated(kind):
                    yield partial(np.negative, cells[0], ghost)
                else:
                    yield partial(setitem, ghost, ..., cells[0])


def _on_the_line(ghost: Array, distance: int, last: Array, inner: Array) -> None:
    # Cells that no step needs hold anything.
    with np.errstate(all="ignore"):
        ghost[...] = last + distance * (last - inner)


def _part(array: Array, axis: int, index: int) -> Array:
    """Return the view of the cells that have an index along an axis."""
    return array[(slice(None),) * axis + (slice(index, index + 1),)]
