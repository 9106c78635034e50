"""What each section of a column kernel has in variables: its plan, before it is text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.columns.conditional_loads import (
    Conditions,
    conditions_of,
)
from halocline_engine.backends.cuda.kernels.columns.early_loads import (
    TEXT,
    Stream,
    early_reads,
    is_unchanged,
    loaded_bytes,
    streams_of,
    text_of,
)
from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    Pass,
    always_assigned,
    carries,
    passes_of,
)
from halocline_engine.backends.cuda.kernels.columns.placement import Placement
from halocline_engine.backends.cuda.model.entries import Entry, Stride
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.statements import HERE, Scope
from halocline_engine.ir.nodes import Offset, Read
from halocline_engine.ir.walk import assignments, irregular
from halocline_engine.schedule.nodes import Section

__all__ = ["PassParts", "SectionPart", "pass_parts"]

#: The most elements that the sections of one level load early in a pass.
_EARLY = 16
#: The most levels of a round in a pass that loads less than another one: compilers move the loads
#: and divisions of levels that no loop separates to the front, for which registers must do.
_LONGEST = 16
#: The most bytes of a thread in queues, if some of them are loaded under conditions.
_HELD = 4 * 128


@dataclass(frozen=True, slots=True)
class SectionPart:
    """A section with what it carries, its streams, and the variables of single early loads.

    Its levels may assign those of `updated`, of which they have their own elements early.
    Variables of what they load under `conditions` are numbered from `first` on.
    """

    section: Section
    streams: tuple[Stream, ...]
    early: Mapping[tuple[str, Offset], str]
    updated: frozenset[str]
    carry: Carry
    conditions: Conditions
    first: int

    @property
    def is_single(self) -> bool:
        """Whether it has one level in every domain."""
        return is_single(self.section.interval)

    def carrying(self, carry: Carry) -> SectionPart:
        """Return the part with what it carries, which it need not load early."""
        early = {access: name for access, name in self.early.items() if access not in carry.before}
        return replace(self, early=early, carry=carry)


@dataclass(frozen=True, slots=True)
class PassParts:
    """The sections of a pass, and the tile that its rounds have."""

    one: Pass
    tile: Tile
    parts: tuple[SectionPart, ...]


def pass_parts(
    entry: Entry, scope: Scope, placement: Placement, tile: Tile
) -> tuple[PassParts, ...]:
    """Return the parts of each pass of a kernel.

    Where levels load less than those of another pass, rounds are longer, so that as many bytes
    are under way.
    """
    passes = passes_of(entry.kernel, tile.levels)
    carriers = frozenset(entry.arrays) - scope.guarded - scope.outputs.keys()
    tiles = [replace(tile, ahead=_ahead(entry, one, scope, placement, tile)) for one in passes]
    parts = [_parts(entry, *one, scope, placement) for one in zip(passes, tiles, strict=True)]
    updated = [part.updated for several in parts for part in several]
    carried = carries(passes, carriers, tile.levels, updated)
    return tuple(
        PassParts(one, own, tuple(map(SectionPart.carrying, several, those)))
        for one, own, several, those in zip(passes, tiles, parts, carried, strict=True)
    )


def _parts(
    entry: Entry, one: Pass, tile: Tile, scope: Scope, placement: Placement
) -> tuple[SectionPart, ...]:
    """Return the parts of a pass, which carry nothing yet."""
    carriers = frozenset(entry.arrays) - scope.guarded - scope.outputs.keys()
    arrays = frozenset(entry.arrays) - placement.close - scope.outputs.keys()
    flat = frozenset(name for name in arrays if scope.kinds[name][1][2] is Stride.NONE)
    varying = sorted(arrays - flat - (one.written - carriers))
    sizes = {name: scope.dtypes[name].itemsize for name in varying}
    passes = passes_of(entry.kernel, tile.levels)
    parts: list[SectionPart] = []
    streams = early = tests = 0
    for section in one.sections:
        own: tuple[Stream, ...] = ()
        single: dict[tuple[str, Offset], str] = {}
        if tile.ahead:
            if not is_single(section.interval):
                own = streams_of(passes, one, section, sizes, streams)
            streaming = {stream.name for stream in own}
            for read in early_reads(section, one, sizes, flat):
                if read.name not in streaming and early < _EARLY:
                    single[read.name, read.offset] = f"e{early}"
                    early += 1
        streams += len(own)
        loaded = {name for name, offset in single if offset == HERE}
        loaded |= {s.name for s in own if HERE in map(s.at, range(s.ages + 1))}
        updated = _perhaps_assigned(section) & carriers & loaded
        conditions = _conditions(section, one, sizes, (own, single), scope, tile)
        parts.append(SectionPart(section, own, single, updated, Carry(), conditions, tests))
        tests += max(len(conditions.tests), len(conditions.loads))
    return tuple(parts)


def _conditions(
    section: Section,
    one: Pass,
    sizes: Mapping[str, int],
    loaded: tuple[tuple[Stream, ...], Mapping[tuple[str, Offset], str]],
    scope: Scope,
    tile: Tile,
) -> Conditions:
    """Return what the levels of a section load under conditions, where registers allow it.

    Streams and single elements are `loaded` early.
    """
    streams, single = loaded
    if not streams:
        return Conditions()

    def may_load(read: Read) -> bool:
        if read.level is not None or read.name not in sizes:
            return False
        if read.name not in one.written:
            return True
        own = replace(read, offset=HERE)
        return read.offset in (HERE, (0, 0, one.step)) and is_unchanged(own, section, one)

    early = {(s.name, s.at(age)) for s in streams for age in range(s.ages + 1)} | single.keys()
    at_hand = {(s.name, s.at(0)) for s in streams} | single.keys()
    found = conditions_of(section.body, early, at_hand, scope.registers.keys(), may_load)
    held = 2 * sum(sizes[s.name] for s in streams) + sum(sizes[name] for name, _ in found.loads)
    return found if tile.ahead * held <= _HELD else Conditions()


def _ahead(entry: Entry, one: Pass, scope: Scope, placement: Placement, tile: Tile) -> int:
    """Return the levels of a round of a pass, whose number has to be known for longer ones."""
    if not tile.ahead or not tile.levels:
        return tile.ahead
    arrays = frozenset(
        name
        for name in entry.arrays
        if name not in placement.close and scope.kinds[name][1][2] is not Stride.NONE
    )
    sizes = {name: scope.dtypes[name].itemsize for name in arrays}
    passes = passes_of(entry.kernel, tile.levels)
    most = max(loaded_bytes(other, passes, sizes) for other in passes)
    own = loaded_bytes(one, passes, sizes)
    text = max(text_of(section) for section in one.sections)
    longest = min(_LONGEST, tile.levels // 4, TEXT // (2 * text))
    return max(tile.ahead, min(longest, tile.ahead * most // own)) if own else tile.ahead


def _perhaps_assigned(section: Section) -> frozenset[str]:
    """Return the names of which a level assigns its own element, but not at every point."""
    own = {assign.target for assign in assignments(section.body) if assign.level is None}
    return frozenset(own) - always_assigned(section) - irregular(section.body)
