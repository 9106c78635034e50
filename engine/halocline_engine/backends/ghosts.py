"""Ghost cells around an array, and targets that fill all of them at once.

Ghosts of an array are the cells beyond its data. They are made of the data along I, then J, then K,
so that a corner belongs to the later axis: a cell beyond the data along K has the value that the
rule of K makes of cells of its column, which may be ghosts along J, and so on. So each ghost
follows from data alone, and all of them may be made at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from halocline_engine.backends.base import Array

__all__ = ["Ends", "Filling", "Framed", "Rule", "Side"]


class Rule(StrEnum):
    """Rule by which ghosts at one end follow from data: see `distribute.grid.boundary`."""

    EDGE = "edge"
    REFLECT = "reflect"
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
