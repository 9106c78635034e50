"""Values that a column hands from level to level in variables instead of memory.

A column that reads what it wrote one level before would wait for its own store at each level. Such
values are kept in a variable, if the level always writes them: 'before0' holds the value of the
level before and 'here0' that of this level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from halocline_engine.ir.nodes import Assign, Read
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments, reads
from halocline_engine.schedule.nodes import Section

__all__ = ["NOTHING", "Carry", "carry_of"]


@dataclass(frozen=True, slots=True)
class Carry:
    """The names that are carried, each with its number, and the K offset of the level before."""

    numbers: Mapping[str, int]
    step: int

    def before(self, read: Read) -> str | None:
        """Return the variable that holds what is read, if one does."""
        if read.name in self.numbers and read.offset == (0, 0, self.step):
            return f"before{self.numbers[read.name]}"
        return None


NOTHING = Carry({}, 0)


def carry_of(section: Section, order: Order, arrays: frozenset[str]) -> Carry:
    """Return which of `arrays` a column of this section carries.

    It is those that are read at the level before and whose first write is outside any `if`, so
    that each level has a value to hand on.
    """
    step = -1 if order is Order.FORWARD else 1
    wanted = {read.name for read in reads(section.body) if read.offset == (0, 0, step)} & arrays
    settled: dict[str, bool] = {}
    for statement in section.body:
        for assign in assignments((statement,)):
            settled.setdefault(assign.target, isinstance(statement, Assign))
    names = [name for name, always in settled.items() if always and name in wanted]
    return Carry({name: number for number, name in enumerate(names)}, step)
