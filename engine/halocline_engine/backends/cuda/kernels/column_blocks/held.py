"""Arrays of which a block of columns has all levels on chip.

Those are temporaries that a sweep makes for the points of its column, and copies of fields that it
reads or that points look up again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant, arrays_of
from halocline_engine.backends.cuda.model.intervals import level_range
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.ir.nodes import Read, While
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import reads, statements
from halocline_engine.schedule.nodes import Schedule, Section

__all__ = ["Held", "Place", "held_of", "held_on_chip", "wanted"]


@dataclass(frozen=True, slots=True)
class Place:
    """An array on chip: its type, and whether it is a copy that the sweep or points read there."""

    name: str
    dtype: DType
    copied: bool = False
    in_sweep: bool = True
    at_points: bool = True


@dataclass(frozen=True, slots=True)
class Held:
    """The arrays on chip, the first ones first."""

    places: tuple[Place, ...]

    @property
    def on_chip(self) -> int:
        """The bytes of a level of a column."""
        return sum(place.dtype.itemsize for place in self.places)

    @property
    def copies(self) -> tuple[str, ...]:
        """The fields that are loaded before anything else is done."""
        return tuple(place.name for place in self.places if place.copied)


def held_of(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> Held:
    """Return what a block has on chip under a tile."""
    room, places = tile.on_chip, list[Place]()
    for place in wanted(entry, schedule, variant, tile.levels).places:
        if place.dtype.itemsize <= room:
            places.append(place)
            room -= place.dtype.itemsize
    return Held(tuple(places))


def wanted(entry: Entry, schedule: Schedule, variant: Variant, levels: int) -> Held:
    """Return what is best on chip: temporaries, then what loops look up, then what sweeps read."""
    dtypes = dict(arrays_of(schedule))
    own = (Place(name, dtypes[name]) for name in entry.arrays if name in entry.own)
    copies = list(_copies(entry, schedule, variant, levels))
    return Held((*own, *sorted(copies, key=lambda place: not place.at_points)))


def held_on_chip(entries: Iterable[Entry], tiles: Mapping[str, Tile]) -> frozenset[str]:
    """Return the buffers that need no memory, as blocks of columns have all of their own on chip.

    `tiles` gives the tile of each kernel by its name.
    """
    return frozenset(name for entry in entries if tiles[entry.name].on_chip for name in entry.own)


def _copies(entry: Entry, schedule: Schedule, variant: Variant, levels: int) -> Iterator[Place]:
    """Yield the fields that are worth a copy, of what lies at each point and nobody writes."""
    if not variant.disjoint:
        return
    sections = entry.kernel.sections
    sweep, points = sections[: entry.swept], sections[entry.swept :]
    again = {read.name for read in _in_loops(points) if read.level is not None}
    first = {read.name for section in sweep for read in reads(section.body)}
    for (name, dtype), number in zip(arrays_of(schedule), variant.arrays, strict=True):
        if name in entry.own or name in entry.written or name not in entry.arrays:
            continue
        if Stride.NONE in variant.kinds[number]:
            continue
        in_sweep = name in first and _stay(sweep, name, levels)
        at_points = _stay(points, name, levels)
        if in_sweep or (name in again and at_points):
            yield Place(name, dtype, copied=True, in_sweep=in_sweep, at_points=at_points)


def _in_loops(sections: Iterable[Section]) -> Iterator[Read]:
    for section in sections:
        for statement in statements(section.body):
            if isinstance(statement, While):
                yield from reads((statement,))


def _stay(sections: Iterable[Section], name: str, levels: int) -> bool:
    """Whether all reads of an array are in the column, on levels of the domain or looked up."""
    for section in sections:
        low, high = level_range(section.interval, levels)
        for read in reads(section.body):
            if read.name != name or low >= high:
                continue
            if read.offset[:2] != (0, 0):
                return False
            if (
                read.level is None
                and not 0 <= low + read.offset[2] < high + read.offset[2] <= levels
            ):
                return False
    return True
