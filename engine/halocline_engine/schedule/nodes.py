"""What is run, in which loops: the nouns between the program and a target's code.

Bodies use the statements of `ir.nodes`. Inside a kernel, a point (PARALLEL) or a column (FORWARD,
BACKWARD) is computed by one thread from top to bottom of the text, so a body reads what the same
kernel writes only at horizontal offset (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.ir.extent import Facts, Horizontal
from halocline_engine.ir.nodes import Interval, Program, Statement, Temporary
from halocline_engine.ir.types import DType, Order

__all__ = ["Buffer", "Kernel", "Level", "Levels", "Schedule", "Section", "Step"]


@dataclass(frozen=True, slots=True)
class Section:
    """One body for the levels of one interval."""

    interval: Interval
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One loop nest over the domain widened by `extent`.

    PARALLEL: points are independent, and so are sections. FORWARD and BACKWARD: columns are
    independent; a column visits the sections in order and the levels of each in that order.
    `registers` are temporaries that live within one point of one level.
    """

    order: Order
    extent: Horizontal
    sections: tuple[Section, ...]
    registers: tuple[Temporary, ...]


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


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps in order, and the temporaries that live in memory between them."""

    program: Program
    facts: Facts
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
