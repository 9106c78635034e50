"""Schedule: the loops that are run, between the program and a target's code.

Bodies use the statements of `ir.nodes`. Inside a kernel, a point (PARALLEL) or a column (FORWARD,
BACKWARD) is computed by one thread from top to bottom of the text, so a body reads what the same
kernel writes only at horizontal offset (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from halocline_engine.ir.extent import Facts, Horizontal
from halocline_engine.ir.nodes import Interval, Program, Statement, Temporary, While
from halocline_engine.ir.remember import Remembering, remembered
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import irregular, statements, targets_of
from halocline_engine.schedule.traversal.walks import AS_FITS, Walk

__all__ = [
    "Buffer",
    "Home",
    "Kernel",
    "Level",
    "Levels",
    "Schedule",
    "Section",
    "Staging",
    "Step",
]


@dataclass(frozen=True, slots=True)
class Section(Remembering):
    """One body for the levels of one interval.

    `order` is that of its levels, where a column kernel has sections of both orders.
    """

    interval: Interval
    body: tuple[Statement, ...]
    order: Order | None = None

    @property
    @remembered
    def assigned(self) -> frozenset[str]:
        """The names that it assigns."""
        return frozenset(targets_of(self.body))


@dataclass(frozen=True, slots=True)
class Kernel(Remembering):
    """One loop nest over the domain widened by `extent`.

    PARALLEL: points are independent, and so are sections. FORWARD and BACKWARD: columns are
    independent; a column visits the sections in order and the levels of each in that order, or in
    the section's own where it has one.
    `registers` are temporaries that live within one point of one level, and `flat` the fields
    that it assigns which are the same on every level.
    """

    order: Order
    extent: Horizontal
    sections: tuple[Section, ...]
    registers: tuple[Temporary, ...]
    flat: frozenset[str] = frozenset()

    @property
    @remembered
    def irregular(self) -> frozenset[str]:
        """The names that it reads or assigns at levels that only a run knows."""
        return frozenset(name for section in self.sections for name in irregular(section.body))

    @property
    @remembered
    def is_general(self) -> bool:
        """Whether it has loops of its own, or levels that only a run knows.

        Such a kernel goes point by point, or column by column, in the order of the text.
        """
        return bool(self.irregular) or any(
            isinstance(statement, While)
            for section in self.sections
            for statement in statements(section.body)
        )


@dataclass(frozen=True, slots=True)
class Level:
    """For each level of an interval: PARALLEL kernels of one section each, one after the other.

    The interval of those sections is not looked at: they run on the level at hand.
    """

    interval: Interval
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Levels:
    """A sequential computation whose levels need horizontal neighbours of the same computation."""

    order: Order
    levels: tuple[Level, ...]


Step: TypeAlias = Kernel | Levels


@dataclass(frozen=True, slots=True)
class Buffer:
    """A temporary in memory: all levels of the domain, widened horizontally by `extent`."""

    name: str
    dtype: DType
    extent: Horizontal


class Home(StrEnum):
    """Storage of the temporaries of a block of points."""

    SHARED = "shared"
    """In shared memory, a plane of one level."""
    BLOCK = "block"
    """In memory of its own, all levels; the base is the first point that is no halo."""
    MOVED = "block-moved"
    """The same, where the base is the first halo point, moved by the halo that is not used."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Neighbouring PARALLEL steps that blocks of points run one after the other, each by itself.

    They are the `count` steps from `first` on, all of them kernels. A block computes each of them
    on its points and the kernel's extent around them. No other step touches `temporaries`, so each
    block has its own, in `home`; whatever else the steps write they touch at the point alone.
    `alignment` is what the address of a block's first point is a multiple of, in bytes. `deep` says
    that a temporary is read at other levels: a block then computes a step on all levels before the
    next. A target may pass over all this and run the steps as they stand.
    """

    first: int
    count: int
    temporaries: tuple[str, ...]
    home: Home
    alignment: int
    deep: bool


@dataclass(frozen=True, slots=True)
class Schedule(Remembering):
    """Steps in order, and the temporaries that live in memory between them.

    Those that `staging` names need no memory where blocks run the steps. `walk` is for loops.
    """

    program: Program
    facts: Facts
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    staging: tuple[Staging, ...] = ()
    walk: Walk = AS_FITS
