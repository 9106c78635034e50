"""What points look up: levels of their columns that only a run knows."""

from __future__ import annotations

from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.ir.nodes import Assign
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import assignments, reads, reads_of
from halocline_engine.schedule.nodes import Schedule

__all__ = ["levels_looked_up"]


def levels_looked_up(entry: Entry, schedule: Schedule) -> list[int]:
    """Return how many levels each point of a section looks up, each point others.

    Tables have nothing to do with columns, and a level that depends on the index along K and on
    scalars alone is the same for all points of a level, so that each is read once.
    """
    columns = {*entry.arrays} - {lookup.name for lookup in schedule.program.lookups}
    alike = _alike(entry, schedule)
    return [
        len(
            {
                read
                for read in reads(section.body)
                if read.name in columns
                and read.level is not None
                and not alike.issuperset(inner.name for inner in reads_of(read.level))
            }
        )
        for section in entry.kernel.sections
    ]


def _alike(entry: Entry, schedule: Schedule) -> set[str]:
    """Return the names that are the same for all points of a level."""
    bodies = [section.body for section in entry.kernel.sections]
    alike = {position.name for position in schedule.program.positions if position.axis is Axis.K}
    alike |= {register.name for register in entry.kernel.registers}
    while True:
        sure = [
            one
            for body in bodies
            for one in body
            if isinstance(one, Assign) and alike.issuperset(read.name for read in reads((one,)))
        ]
        every = [one for body in bodies for one in assignments(body)]
        differing = {one.target for one in every if not any(one is same for same in sure)}
        if alike.isdisjoint(differing):
            return alike
        alike -= differing
