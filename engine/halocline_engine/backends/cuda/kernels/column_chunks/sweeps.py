"""Sweeps: sections of a column that go through its levels together, chunk after chunk.

The sections of a pass are visited one after the other, and may visit the same levels again. They
go together where each level finds what it would have found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    Pass,
    carries,
    passes_of,
)
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import reads
from halocline_engine.schedule.nodes import Section
from halocline_engine.schedule.stages import follows

__all__ = ["Sweep", "sweeps_of"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sections in one order, and what each has of the level before in variables."""

    one: Pass
    carried: tuple[Carry, ...]


def sweeps_of(entry: Entry, least: int) -> tuple[Sweep, ...]:
    """Return the sweeps of a kernel in a domain of `least` levels or more."""
    arrays = frozenset(entry.arrays)
    found: list[Sweep] = []
    for whole in passes_of(entry.kernel):
        parts: list[Sweep] = []
        for sections in _ordered(whole, least):
            one = Pass(whole.order, sections)
            new = Sweep(one, carries(one, arrays))
            if parts and _go_together(parts[-1], new):
                before = parts.pop()
                one = Pass(whole.order, (*before.one.sections, *sections))
                new = Sweep(one, (*before.carried, *new.carried))
            parts.append(new)
        found += parts
    return tuple(found)


def _ordered(one: Pass, least: int) -> Iterator[tuple[Section, ...]]:
    """Yield sections that lie behind each other."""
    current: list[Section] = []
    for section in one.sections:
        if current:
            low, high = current[-1].interval, section.interval
            if one.order is Order.BACKWARD:
                low, high = high, low
            if not follows(low.end, high.start, least):
                yield tuple(current)
                current = []
        current.append(section)
    yield tuple(current)


def _go_together(first: Sweep, second: Sweep) -> bool:
    """Return whether levels find the same if the second sweep follows the first at each chunk.

    The second may need nothing of what the first makes further on, and the first nothing of what
    was where the second has been. Each variable has the values of one of them.
    """
    ahead = -first.one.step
    if any(ks * ahead > 0 for ks in _offsets(second.one, first.one.written)):
        return False
    if any(ks * ahead < 0 for ks in _offsets(first.one, second.one.written)):
        return False
    before = [frozenset[str]().union(*(c.before for c in s.carried)) for s in (first, second)]
    handed = [frozenset[str]().union(*(c.handed for c in s.carried)) for s in (first, second)]
    return not (before[1] & (before[0] | handed[0]) or before[0] & handed[1])


def _offsets(one: Pass, names: frozenset[str]) -> Iterator[int]:
    """Yield the offsets along K at which a pass reads some names."""
    for section in one.sections:
        yield from (read.offset[2] for read in reads(section.body) if read.name in names)
