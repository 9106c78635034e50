"""Windows: the levels of an array that a warp has in shared memory for each of its columns.

A window is a ring of chunks of levels. Chunks are loaded before their levels are visited, and those
of what is written are stored after it; neighbouring threads have neighbouring levels then, though
each computes a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.columns.flat_fields import flat_fields
from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    Pass,
    always_assigned,
    carries,
    passes_of,
)
from halocline_engine.backends.cuda.kernels.columns.placement import placement_of
from halocline_engine.backends.cuda.kernels.columns.united import sweeps
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant, arrays_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.ir.nodes import Interval
from halocline_engine.ir.walk import assignments
from halocline_engine.schedule.nodes import Schedule, Section
from halocline_engine.schedule.stages import is_within, joined
from halocline_engine.schedule.storage.coverage import exposed, moved

__all__ = ["COLUMNS", "PassWindows", "Window", "shared_bytes", "windows_of"]

#: The columns of a warp.
COLUMNS = 32
#: Bytes of an offset of a column.
_OFFSET = 8


@dataclass(frozen=True, slots=True)
class Window:
    """An array at one horizontal offset, as one pass has it in shared memory.

    `loaded` are the levels that come from memory and `stored` those that go there. So many levels
    `behind` and `ahead` of the one at hand are read, in the order of visits; `chunks` are in the
    ring. It begins `start` bytes behind the first one.
    """

    name: str
    across: tuple[int, int]
    size: int
    loaded: tuple[Interval, ...]
    stored: tuple[Interval, ...]
    behind: int
    ahead: int
    chunks: int = 1
    start: int = 0

    def pitch(self, chunk: int) -> int:
        """Return the elements from a column to the next; an odd number, so that banks differ."""
        return self.chunks * chunk + 1


@dataclass(frozen=True, slots=True)
class PassWindows:
    """The windows of a sweep, whose sections lie behind each other, and what each carries.

    Chunks are loaded so many `early` before they are computed.
    """

    one: Pass
    carried: tuple[Carry, ...]
    windows: tuple[Window, ...]
    early: int
    bytes: int


def windows_of(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile
) -> tuple[PassWindows, ...] | None:
    """Return what each pass has in shared memory, or None where the kernel cannot be cut so."""
    kinds = dict(zip((n for n, _ in arrays_of(schedule)), variant.arrays, strict=True))
    variables = placement_of(entry.kernel, schedule, tile).variables
    # What all columns share is looked up where it is, and so are levels that only a run knows.
    alike, irregular = (Stride.NONE, Stride.NONE), entry.kernel.irregular
    every = {
        name
        for name in entry.arrays
        for i, j, k in (variant.kinds[kinds[name]],)
        if k is Stride.ONE and (i, j) != alike and name not in variables
    }
    sizes = {name: dtype.itemsize for name, dtype in arrays_of(schedule)}
    along = every - irregular
    if sum(sizes[name] for name in along) <= sum(sizes[name] for name in every & irregular):
        return None
    found: list[PassWindows] = []
    passes = tuple(_sweeps(entry, tile.levels))
    handed = carries(passes, frozenset(entry.arrays) - flat_fields(entry.kernel), tile.levels)
    for one, carried in zip(passes, handed, strict=True):
        made = list(_windows(one, carried, along, sizes, tile.levels))
        written = {window.name for window in made if window.stored}
        if any(window.across != (0, 0) and window.name in written for window in made):
            return None
        if any(max(window.behind, window.ahead) > tile.chunk for window in made):
            return None
        found.append(_placed(one, carried, made, tile.chunk))
    return tuple(found)


def shared_bytes(passes: Iterable[PassWindows], kinds: int) -> int:
    """Return the bytes of shared memory: offsets of columns for each kind, and one pass's windows.

    >>> shared_bytes((), 2)
    512
    """
    return kinds * COLUMNS * _OFFSET + max((one.bytes for one in passes), default=0)


def _placed(one: Pass, carried: tuple[Carry, ...], made: list[Window], chunk: int) -> PassWindows:
    early = 1 + any(window.ahead and window.loaded for window in made)
    placed: list[Window] = []
    start = 0
    for window in sorted(made, key=lambda window: -window.size):
        needed = 1 + (window.behind > 0) + (early if window.loaded else 0)
        chunks = 1 << (needed - 1).bit_length()
        new = Window(
            window.name,
            window.across,
            window.size,
            window.loaded,
            window.stored,
            window.behind,
            window.ahead,
            chunks,
            start,
        )
        placed.append(new)
        start += COLUMNS * new.pitch(chunk) * new.size
    return PassWindows(one, carried, tuple(placed), early, start)


def _sweeps(entry: Entry, levels: int) -> Iterator[Pass]:
    """Yield the parts of passes whose sections lie behind each other."""
    for one in passes_of(entry.kernel, levels):
        yield from (Pass(one.order, part) for part in sweeps(one.order, one.sections, levels))


def _windows(
    one: Pass,
    carried: tuple[Carry, ...],
    along: set[str],
    sizes: dict[str, int],
    least: int,
) -> Iterator[Window]:
    """Yield the windows of a sweep, in the order of its text; `least` levels a domain has."""
    seen: dict[tuple[str, tuple[int, int]], list[tuple[Interval, int]]] = {}
    for section, carry in zip(one.sections, carried, strict=True):
        for name, (i, j, k) in carry.looked_up(section):
            if name in along:
                seen.setdefault((name, (i, j)), []).append((section.interval, k))
        for assign in assignments(section.body):
            if assign.target in along:
                seen.setdefault((assign.target, (0, 0)), [])
    for (name, across), uses in seen.items():
        stored = [s.interval for s in one.sections if _assigned(s, name)] if _here(across) else []
        offsets = [-k * one.step for _, k in uses]
        is_loaded = not stored or not _provides(one, name, uses, least)
        levels = [moved(interval, k) for interval, k in uses]
        yield Window(
            name=name,
            across=across,
            size=sizes[name],
            loaded=(*levels, *stored) if is_loaded else (),
            stored=tuple(joined(stored, least)),
            behind=max((-n for n in offsets), default=0),
            ahead=max((0, *offsets)),
        )


def _assigned(section: Section, name: str) -> bool:
    return any(assign.target == name for assign in assignments(section.body))


def _here(across: tuple[int, int]) -> bool:
    return across == (0, 0)


def _provides(one: Pass, name: str, uses: list[tuple[Interval, int]], least: int) -> bool:
    """Return whether a sweep surely assigns all that it reads of an array, before it reads it.

    It then also assigns every level that it stores.
    """
    done: list[Interval] = []
    for section in one.sections:
        always = name in always_assigned(section)
        offsets = {k for interval, k in uses if interval == section.interval}
        open_here = (_assigned(section, name) and not always) or (
            0 in offsets and (not always or (0, 0, 0) in exposed(section.body, name))
        )
        if open_here and not _within(section.interval, done, least):
            return False
        if any(k * one.step < 0 for k in offsets):
            return False
        if always:
            done.append(section.interval)
        if not all(_within(moved(section.interval, k), done, least) for k in offsets - {0}):
            return False
    return True


def _within(interval: Interval, done: list[Interval], least: int) -> bool:
    return any(is_within(interval, united, least) for united in joined(done, least))
