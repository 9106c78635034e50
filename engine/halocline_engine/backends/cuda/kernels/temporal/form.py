"""Subject of the code of fused steps: its values, arrays and tile, and its parameters.

Where the stream is along J, a warp has a strip of columns, and planes are independent. Where it is
along K, the warps of a block lie above one another, each with some rows, and go from plane to
plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from halocline_engine.backends.cuda.kernels.temporal.order import INVERSES
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.backends.cuda.model.entries import (
    Arg,
    Kind,
    Pointer,
    ScalarValue,
    Size,
    Stride,
    StrideValue,
)
from halocline_engine.ir.extent import Extent, Range
from halocline_engine.ir.nodes import Parameter
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import walk
from halocline_engine.schedule.temporal.levels import Levels

__all__ = [
    "LANES",
    "SIZE_NAMES",
    "VECTOR",
    "Form",
    "Kept",
    "arrays_of_steps",
    "kept_of",
    "parameters_of",
]

LANES = 32
#: Bytes that one load of a thread may have at most.
VECTOR = 16
_FETCHED = 2
#: What beyond the sizes of the domain is known at a launch only: the first plane, the positions of
#: a block; first and last points that steps compute; how far open sides grow; the points around
#: which nothing is special; and what divides numbers of blocks.
_SIZES = ("ni", "nj", "nk", "level", "depth")
_LIMITS = tuple(f"{axis}{end}" for axis in "ij" for end in ("lo", "hi"))
_GROWN = tuple(f"{axis}grown{end}" for axis in "ij" for end in (0, 1))
_INNER = tuple(f"{axis}inner{end}" for axis in "ijk" for end in (0, 1))
SIZE_NAMES = (*_SIZES, *_LIMITS, *_GROWN, *_INNER, *INVERSES)


@dataclass(frozen=True, slots=True)
class Kept:
    """Elements of a value that a thread has, by the age of their row.

    `ages` is how many rows there are. `left` and `right` give for each number of columns beyond the
    thread's own the ages at which they are there: the first one fetches them from other lanes.
    `below` and `above` say the same of rows of other warps, whose columns reach `across` beyond.
    """

    ages: int
    left: tuple[Range, ...]
    right: tuple[Range, ...]
    below: tuple[Range, ...] = ()
    above: tuple[Range, ...] = ()
    across: Range = (0, 0)

    @property
    def first(self) -> int:
        """The highest age at which rows of other warps are fetched."""
        return max((low for low, _ in (*self.below, *self.above)), default=0)


@dataclass(frozen=True)
class Form:
    """The code for some steps, arrays that lie in some way, and a tile.

    `kinds` gives each array the number of its stride kind and that kind, `names` its name in the
    code. With `alternate`, steps with odd numbers find beyond the domain what the outputs hold.
    """

    levels: Levels
    kinds: Mapping[str, tuple[int, Kind]]
    aligned: frozenset[str]
    wide: bool
    tile: FusedTile
    alternate: bool

    @property
    def vertical(self) -> bool:
        """Whether the stream is along K."""
        return self.levels.along is Axis.K

    @property
    def width(self) -> int:
        """The columns of a lane."""
        return self.tile.width

    @property
    def rows(self) -> int:
        """The rows of a lane across the stream."""
        return self.tile.rows

    @property
    def lanes(self) -> tuple[int, int]:
        """Number of lanes at both ends of a warp that have no column of their own."""
        left, right = self.levels.low[0], self.levels.high[0]
        return -(-left // self.width), -(-right // self.width)

    @property
    def columns(self) -> int:
        """Number of columns of results of a warp."""
        return (LANES - sum(self.lanes)) * self.width

    @property
    def lines(self) -> int:
        """Number of rows of results of a block across the stream."""
        tall = self.tile.block[1] * self.rows
        return tall - self.levels.low[1] - self.levels.high[1]

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The fields that the code touches, in the order of the program."""
        return arrays_of_steps(self.levels)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each array in the code."""
        return {one.name: f"f{n}" for n, one in enumerate(self.levels.step.program.fields)}

    @cached_property
    def scalars(self) -> Mapping[str, str]:
        """The name of each scalar in the code."""
        return {one.name: f"p{n}" for n, one in enumerate(self.levels.step.program.scalars)}

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """Elements of each value that a thread has."""
        return tuple(kept_of(self.levels, n) for n in range(len(self.levels.nodes)))

    @property
    def fetched(self) -> int:
        """How many rows more are brought to the cache, ahead of those that are loaded.

        Threads that share rows wait for the slowest load of all.
        """
        return _FETCHED if self.vertical else 0

    def dtype(self, name: str) -> DType:
        """Return the type of a field."""
        return self.levels.step.dtypes[name]

    def halo_of(self, level: int, name: str) -> str:
        """Return the array that a step finds the values of a fed field beyond the domain in."""
        odd = self.alternate and level % 2
        return self.levels.step.feedback[name] if odd else name

    def extent(self, name: str) -> Extent:
        """Return how far around the points that are computed an array is read."""
        step = self.levels.step
        if name in step.extents:
            return step.extents[name]
        old = next(old for old, new in step.feedback.items() if new == name)
        return step.extents[old]

    def is_along(self, name: str) -> bool:
        """Whether an array has different elements along I."""
        return self.kinds[name][1][0] is not Stride.NONE

    def is_across(self, name: str) -> bool:
        """Whether an array has different elements across the stream and I."""
        return not self.vertical or self.kinds[name][1][1] is not Stride.NONE

    def piece(self, name: str) -> int:
        """Return how many elements of an array a thread moves at once."""
        if name not in self.aligned or self.kinds[name][1][0] is not Stride.ONE:
            return 1
        return max(1, min(self.width, VECTOR // self.dtype(name).itemsize))


def arrays_of_steps(levels: Levels) -> tuple[str, ...]:
    """Return the fields that steps touch, in the order of the program."""
    touched = {node.name for node in levels.nodes if node.value is None}
    touched |= {node.halo for node in levels.nodes if node.halo is not None}
    touched |= {name for node in levels.nodes for name in node.outputs}
    return tuple(one.name for one in levels.step.program.fields if one.name in touched)


def parameters_of(form: Form) -> tuple[Arg, ...]:
    """Return the parameters of the kernel in order: sizes, strides, addresses, scalars."""
    kinds = sorted({form.kinds[name] for name in form.arrays})
    strides = (
        StrideValue(number, axis)
        for number, kind in kinds
        for axis, stride in enumerate(kind)
        if stride is Stride.ANY or (axis == 2 and stride is Stride.ONE)
    )
    used = {
        node.name
        for one in form.levels.nodes
        for node in (walk(one.value) if one.value is not None else ())
        if isinstance(node, Parameter)
    }
    return (
        *map(Size, SIZE_NAMES),
        *strides,
        *map(Pointer, form.arrays),
        *(ScalarValue(one.name) for one in form.levels.step.program.scalars if one.name in used),
    )


def kept_of(levels: Levels, number: int) -> Kept:
    """Return what a thread has of a value."""
    uses = levels.uses[number]
    across = [one for one in uses if one.j]
    return Kept(
        ages=max((one.age for one in uses), default=0) + 1,
        left=_reached([(one.age, -one.i) for one in uses]),
        right=_reached([(one.age, one.i) for one in uses]),
        below=_reached([(one.age, -one.j) for one in across]),
        above=_reached([(one.age, one.j) for one in across]),
        across=(
            min((one.i for one in across), default=0),
            max((one.i for one in across), default=0),
        ),
    )


def _reached(uses: list[tuple[int, int]]) -> tuple[Range, ...]:
    """Return for each distance from 1 on the first and the last age at which it is read."""
    found: list[Range] = []
    for distance in range(1, max((far for _, far in uses), default=0) + 1):
        ages = [age for age, far in uses if far >= distance]
        found.append((min(ages), max(ages)))
    return tuple(found)
