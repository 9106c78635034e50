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
from halocline_engine.ir.walk import accesses_of, reads, targets_of
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
        if current and _may_unite(order, current, sweep, single, levels):
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
    order: Order,
    first: Sequence[Section],
    second: Sequence[Section],
    single: frozenset[str],
    levels: int,
) -> bool:
    """Return whether a level may do what both do before the next level does.

    The second may need nothing of what the first makes further on, and the first nothing of what
    was where the second has been.
    """
    ahead = 1 if order is Order.FORWARD else -1
    if _finds(second, first, ahead, levels) or _finds(first, second, -ahead, levels):
        return False
    return not (_names(first) & _names(second) & single)


def _finds(readers: Sequence[Section], writers: Sequence[Section], side: int, levels: int) -> bool:
    """Return whether some sections read, on one side of a level, what others assign there."""
    return any(
        read.offset[2] * side > 0
        and read.name in targets_of(writer.body)
        and _meet(reader.interval, writer.interval, read.offset[2], levels)
        for reader in readers
        for writer in writers
        for read in reads(reader.body)
    )


def _meet(one: Interval, other: Interval, k: int, levels: int) -> bool:
    """Return whether some levels, so many further, are among others."""
    (start, end), (low, high) = level_range(one, levels), level_range(other, levels)
    return max(start + k, low) < min(end + k, high)


def _names(sections: Sequence[Section]) -> frozenset[str]:
    return frozenset(
        name
        for section in sections
        for name in (*targets_of(section.body), *dict(accesses_of(section.body)))
    )


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
