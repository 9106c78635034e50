"""Union of sections that visit the same levels of a column one after the other.

A column that goes through its levels once, and does at each what several sections do there, hands
on in variables what it would otherwise keep for all levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from halocline_engine.backends.cuda.model.intervals import level_range
from halocline_engine.ir.nodes import Interval
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments, reads
from halocline_engine.schedule.nodes import Section

__all__ = ["sweeps", "united_sections"]


def united_sections(
    order: Order, sections: tuple[Section, ...], single: frozenset[str], levels: int
) -> tuple[Section, ...]:
    """Return the sections of a pass over so many levels, united where levels find the same.

    Of the names in `single` a column has one value for all levels.
    """
    done: list[Section] = []
    current: tuple[Section, ...] = ()
    for sweep in sweeps(order, sections, levels):
        if current and _may_unite(order, current, sweep, single):
            current = tuple(_united(order, current, sweep, levels))
        else:
            done += current
            current = sweep
    return (*done, *current)


def sweeps(
    order: Order, sections: tuple[Section, ...], levels: int
) -> Iterator[tuple[Section, ...]]:
    """Yield sections that lie behind each other."""
    current: list[Section] = []
    for section in sections:
        if current and not _follows(order, current[-1], section, levels):
            yield tuple(current)
            current = []
        current.append(section)
    yield tuple(current)


def _follows(order: Order, first: Section, second: Section, levels: int) -> bool:
    one, two = level_range(first.interval, levels), level_range(second.interval, levels)
    return one[1] <= two[0] if order is Order.FORWARD else two[1] <= one[0]


def _may_unite(
    order: Order, first: Sequence[Section], second: Sequence[Section], single: frozenset[str]
) -> bool:
    """Return whether a level may do what both do before the next level does.

    The second may need nothing of what the first makes further on, and the first nothing of what
    was where the second has been.
    """
    ahead = 1 if order is Order.FORWARD else -1
    if any(k * ahead > 0 for k in _offsets(second, _written(first))):
        return False
    if any(k * ahead < 0 for k in _offsets(first, _written(second))):
        return False
    return not (_names(first) & _names(second) & single)


def _written(sections: Sequence[Section]) -> frozenset[str]:
    return frozenset(a.target for section in sections for a in assignments(section.body))


def _names(sections: Sequence[Section]) -> frozenset[str]:
    return _written(sections) | {read.name for s in sections for read in reads(s.body)}


def _offsets(sections: Sequence[Section], names: frozenset[str]) -> Iterator[int]:
    """Yield the offsets along K at which sections read some names."""
    for section in sections:
        yield from (read.offset[2] for read in reads(section.body) if read.name in names)


def _united(
    order: Order, first: Sequence[Section], second: Sequence[Section], levels: int
) -> Iterator[Section]:
    """Yield sections with the statements of both, in the order of visits."""
    every = [*first, *second]
    bounds = {
        bound.level(levels): bound
        for section in every
        for bound in (section.interval.end, section.interval.start)
    }
    places = sorted(bounds)
    pairs = list(pairwise(places))
    for low, high in pairs if order is Order.FORWARD else reversed(pairs):
        bodies = [
            section.body
            for section in every
            for start, end in (level_range(section.interval, levels),)
            if start <= low and high <= end
        ]
        if bodies:
            interval = Interval(bounds[low], bounds[high])
            yield Section(interval, tuple(s for body in bodies for s in body), order)
