"""A column program with known staggering: nodes in a row, their operands by number.

Grammar::

    Columns = (Item* items, Result* results)
    Result  = (str name, int value, Place place)
    Item    = Constant(value) | Leaf(str name, DType dtype, At at) | Input(str name)
            | Compute(str kind, str name, int* operands, At at, bool truth)
            | Stencil(str operator, int* arguments, End? bottom, End? top, str word, At at)
            | Weight(At at) | Slot(int fold, int number) | Element(int fold, int number)
            | Fold(int* arguments, int* start, int* step, int finish, bool reverse, bool total,
                   At source, At at)
    End     = (str kind, int value)

An item comes after its operands, and equal items are one. A `Slot` is a part of a fold's state and
an `Element` one of its arguments at the level that it takes in; both stand below `step` and
`finish` only. `Weight` is the width that integrals multiply with. `place` is where an error points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from halocline_engine.ir.columns.table import At
from halocline_engine.ir.types import DType
from halocline_engine.language.source import START, Place

__all__ = [
    "Columns",
    "Compute",
    "Constant",
    "Element",
    "End",
    "Fold",
    "Input",
    "Item",
    "Leaf",
    "Result",
    "Slot",
    "Stencil",
    "Weight",
]


class _Flat:
    """An item without a level."""

    __slots__ = ()

    @property
    def at(self) -> At:
        """Position along the column: none, as it has no level."""
        return At.FLAT


@dataclass(frozen=True, slots=True)
class Constant(_Flat):
    """A number or a truth value."""

    value: bool | float


@dataclass(frozen=True, slots=True)
class Leaf:
    """A variable of the dataset."""

    name: str
    dtype: DType
    at: At


@dataclass(frozen=True, slots=True)
class Input(_Flat):
    """A scalar."""

    name: str


@dataclass(frozen=True, slots=True)
class Compute:
    """One operation point by point: `kind` is "unary", "binary", "call" or "select"."""

    kind: str
    name: str
    operands: tuple[int, ...]
    at: At
    truth: bool
    place: Place = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class End:
    """A boundary condition; `value` is an item without a level, -1 where there is none."""

    kind: str
    value: int = -1


@dataclass(frozen=True, slots=True)
class Stencil:
    """An operator on its arguments."""

    operator: str
    arguments: tuple[int, ...]
    bottom: End | None
    top: End | None
    word: str
    at: At
    place: Place = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Weight:
    """The width of a cell, or of a face as a quadrature counts it: half at the ends."""

    at: At


@dataclass(frozen=True, slots=True)
class _OfFold(_Flat):
    """A number of a fold, which `fold` tells from others."""

    fold: int
    number: int


@dataclass(frozen=True, slots=True)
class Slot(_OfFold):
    """A part of the state of a fold."""


@dataclass(frozen=True, slots=True)
class Element(_OfFold):
    """An argument of a fold at one level."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A column in order: `start` makes a state, `step` takes in a level, `finish` is the value.

    `reverse` goes from top to bottom. Where `total`, only the last value is kept, and it has no
    level; otherwise there is one at every point of `at`, which may differ from `source`.
    """

    arguments: tuple[int, ...]
    start: tuple[int, ...]
    step: tuple[int, ...]
    finish: int
    reverse: bool
    total: bool
    source: At
    at: At
    place: Place = field(default=START, compare=False)


Item: TypeAlias = Constant | Leaf | Input | Compute | Stencil | Weight | Slot | Element | Fold


@dataclass(frozen=True, slots=True)
class Result:
    """A named value."""

    name: str
    value: int
    place: Place


@dataclass(frozen=True, slots=True)
class Columns:
    """A whole program."""

    items: tuple[Item, ...]
    results: tuple[Result, ...]

    def is_truth(self, number: int) -> bool:
        """Whether an item is a truth value."""
        item = self.items[number]
        match item:
            case Constant(value):
                return isinstance(value, bool)
            case Leaf(_, dtype):
                return dtype is DType.BOOL
            case Compute():
                return item.truth
            case _:
                return False
