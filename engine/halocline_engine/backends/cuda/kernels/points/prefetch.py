"""Prefetch of the next level into the cache of the device, where blocks run in strips.

In column order the cache of the device has all that blocks read but the level furthest up. A thread
of one point of few bytes waits for memory with little under way; each block asks for what the block
above it will be the first to read, and goes on.
"""

from __future__ import annotations

from halocline_engine.backends.cuda.kernels.points.section import loaded_offsets
from halocline_engine.backends.cuda.model.entries import Entry, Stride
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.statements import Scope, element
from halocline_engine.schedule.nodes import Section

__all__ = ["prefetches"]

#: Most bytes of a point in all arrays where this gains: with 16, enough is under way without.
_FEW = 12


def prefetches(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    """Return what asks for the lines that the block of the next level will be the first to read.

    Nothing is asked for beyond what the points of the domain read: at the last level, lines of this
    level are asked for again, which takes no branch. Kernels of several sections, which may read
    less far at some levels, ask for nothing.
    """
    sections = entry.kernel.sections
    if not tile.strip or entry.level_at_hand or len(sections) != 1:
        return []
    if sum(scope.dtypes[name].itemsize for name in entry.arrays) > _FEW:
        return []
    fresh = [name for name in loaded_offsets(sections[0], entry) if _is_climbed(name, scope)]
    return [_prefetch(name, sections[0], entry, scope, tile) for name in fresh]


def _is_climbed(name: str, scope: Scope) -> bool:
    """Whether other levels of an array lie elsewhere, in rows."""
    _, (along, _, up) = scope.kinds[name]
    return along is Stride.ONE and up is Stride.ANY


def _prefetch(name: str, section: Section, entry: Entry, scope: Scope, tile: Tile) -> str:
    offsets = loaded_offsets(section, entry)[name]
    step = f"s{scope.kinds[name][0]}k"
    if tile.backward:
        lowest = element(scope, name, min(offsets, key=_level))
        return f"fetch(&{lowest[:-1]} - (k > level ? {step} : 0)]);"
    highest = element(scope, name, max(offsets, key=_level))
    return f"fetch(&{highest[:-1]} + (k + 1 < top ? {step} : 0)]);"


def _level(offset: tuple[int, int, int]) -> int:
    return offset[2]
