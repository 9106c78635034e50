"""Stages on arrays that stay: what each reads and writes of a part of the grid, and its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from halocline_engine.backends.base import Memory
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.stepping.held import Cells, Held, Room, Variable
from halocline_engine.distribute.stepping.schedule import StageFields

__all__ = ["Acts", "BoundStage", "Part", "StayingStage"]

Acts: TypeAlias = list[Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the grid: its number, and its cells along all dimensions."""

    index: int
    spans: Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class BoundStage:
    """The calls of a stage on a part, to be made again and again on the same arrays.

    `ghosts` and `repeated` make the ghosts and the copies of a variable.
    """

    calls: Acts
    ghosts: Mapping[str, Acts] = field(default_factory=dict[str, Acts])
    repeated: Mapping[str, Acts] = field(default_factory=dict[str, Acts])


class StayingStage(Protocol):
    """A stage whose variables stay in memory; small, and it can be pickled."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read and written."""
        ...

    @property
    def memory(self) -> Memory | None:
        """The memory of the target, as far as the stage knows it."""
        ...

    @property
    def whole(self) -> frozenset[str]:
        """The dimensions of which every part must have all points."""
        ...

    @property
    def turned(self) -> Mapping[str, str]:
        """The variables whose place others take after the stage, with those."""
        ...

    @property
    def around(self) -> Mapping[str, bool]:
        """Whether a dimension with neighbours is periodic, by dimension."""
        ...

    @property
    def reach(self) -> Mapping[str, int]:
        """How many cells are read beside a point, before and behind it, by dimension."""
        ...

    def fields(self, cut: frozenset[str], /) -> StageFields:
        """Return the variables by their use, where some dimensions are cut."""
        ...

    def cells(self, part: Part, cut: frozenset[str], /) -> Mapping[str, Cells]:
        """Return the cells of each variable that a part needs room for."""
        ...

    def bytes(self, part: Part, cut: frozenset[str], /) -> int:
        """Return the bytes that a part takes beside the arrays of the variables."""
        ...

    def bound(
        self, part: Part, held: Mapping[str, Held], room: Room, cut: frozenset[str], /
    ) -> BoundStage:
        """Return the calls on arrays; `room` makes those that belong to this stage alone."""
        ...
