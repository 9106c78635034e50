"""Windows: the levels of an array that a warp has in shared memory for each of its columns.

A window is a ring of chunks of levels. Chunks are loaded before their levels are visited, and those
of what is written are stored after it; neighbouring threads have neighbouring levels then, though
each computes a column. Temporaries that a block keeps in memory of its own lie there level after
level, with an element of every column, so that threads store them as they compute them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

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
from halocline_engine.ir.walk import accesses_of, irregular, targets_of
from halocline_engine.schedule.nodes import Schedule, Section
from halocline_engine.schedule.stages import is_within, joined
from halocline_engine.schedule.storage.coverage import exposed, moved

__all__ = [
    "COLUMNS",
    "PassWindows",
    "Window",
    "cut_windows",
    "shared_bytes",
    "uncut_windows",
    "windows_of",
]

#: The columns of a warp.
COLUMNS = 32
#: What the windows of a block are aligned to, so that threads may move 16 bytes at a time.
_ALIGNED = 16


@dataclass(frozen=True, slots=True)
class Window:
    """An array at one horizontal offset, as one pass has it in shared memory.

    `loaded` are the levels that come from memory and `stored` those that go there. So many levels
    `behind` and `ahead` of the one at hand are read, in the order of visits; `chunks` are in the
    ring. It begins `start` bytes behind the first one. Levels of an array of the block's `own` lie
    in memory and in the ring as they do there; where a pass does not look at them, it has no ring.
    """

    name: str
    across: tuple[int, int]
    size: int
    loaded: tuple[Interval, ...]
    stored: tuple[Interval, ...]
    behind: int
    ahead: int
    own: bool = False
    chunks: int = 0
    start: int = 0

    @property
    def early(self) -> int:
        """So many chunks before it is computed, one is loaded."""
        return int(self.ahead > 0)

    def pitch(self, chunk: int) -> int:
        """Return the elements from a column to the next; an odd number, so that banks differ."""
        return 1 if self.own else self.chunks * chunk + 1

    def bytes(self, chunk: int) -> int:
        """Return the bytes of the ring."""
        levels = self.chunks * chunk
        elements = COLUMNS * (levels if self.own else self.pitch(chunk))
        return -(-elements * self.size // _ALIGNED) * _ALIGNED


@dataclass(frozen=True, slots=True)
class PassWindows:
    """The windows of a sweep, whose sections lie behind each other, and what each carries."""

    one: Pass
    carried: tuple[Carry, ...]
    windows: tuple[Window, ...]
    bytes: int = 0

    def cut(self, chunk: int) -> PassWindows | None:
        """Return it with rings of chunks of so many levels, where they serve all that is read."""
        if any(max(window.behind, window.ahead) > chunk for window in self.windows):
            return None
        start = self.bytes
        placed: list[Window] = []
        for window in sorted(self.windows, key=lambda window: -window.size):
            needed = 1 + (window.behind > 0) + (window.early if window.loaded else 0)
            chunks = 1 << (needed - 1).bit_length()
            new = replace(window, chunks=chunks if window.chunks else 0, start=start)
            placed.append(new)
            start += new.bytes(chunk)
        return replace(self, windows=tuple(placed), bytes=start)


def windows_of(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile
) -> tuple[PassWindows, ...] | None:
    """Return what each pass has in shared memory, or None where the kernel cannot be cut so."""
    uncut = uncut_windows(entry, schedule, variant, tile)
    return None if uncut is None else cut_windows(uncut, tile.chunk)


def cut_windows(uncut: Iterable[PassWindows], chunk: int) -> tuple[PassWindows, ...] | None:
    """Return windows with chunks of so many levels, or None where one reads further than that."""
    found: list[PassWindows] = []
    for one in uncut:
        cut = one.cut(chunk)
        if cut is None:
            return None
        found.append(cut)
    return tuple(found)


def uncut_windows(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile
) -> tuple[PassWindows, ...] | None:
    """Return the windows of each pass, whatever the chunks of a tile; None where there are none.

    Their bytes are those in front of them.
    """
    kinds = dict(zip((n for n, _ in arrays_of(schedule)), variant.arrays, strict=True))
    placement = placement_of(entry.kernel, schedule, tile)
    own = placement.names - placement.close
    # What all columns share is looked up where it is, and so are levels that only a run knows.
    alike, irregular = (Stride.NONE, Stride.NONE), entry.kernel.irregular
    every = {
        name
        for name in entry.arrays
        for i, j, k in (variant.kinds[kinds[name]],)
        if k is Stride.ONE and (i, j) != alike and name not in placement.close
    }
    sizes = {name: dtype.itemsize for name, dtype in arrays_of(schedule)}
    along = every - irregular
    # What has no window is looked up as an array of the domain, which memory of a block is not.
    placed = {name for slot in placement.block for name in slot.names}
    if not placed - placement.close <= along:
        return None
    if sum(sizes[name] for name in along) <= sum(sizes[name] for name in every & irregular):
        return None
    found: list[PassWindows] = []
    passes = tuple(_sweeps(entry, tile.levels))
    arrays = frozenset(entry.arrays) - flat_fields(entry.kernel)
    # Smaller rings leave room for more columns, which pay where temporaries are in the cache.
    has_own = placement.names != placement.variables
    handed = carries(passes, arrays, tile.levels, _handed_on(passes, along) if has_own else ())
    # What temporaries have on chip lies in front of the windows.
    start = COLUMNS * tile.levels * placement.on_chip
    for one, carried in zip(passes, handed, strict=True):
        made = list(_windows(one, carried, along, own, sizes, tile.levels))
        written = {window.name for window in made if window.stored}
        if any(window.across != (0, 0) and window.name in written for window in made):
            return None
        found.append(PassWindows(one, carried, tuple(made), start))
    return tuple(found)


def shared_bytes(passes: Iterable[PassWindows]) -> int:
    """Return the bytes of shared memory: windows of one pass are where those of another were."""
    return max((one.bytes for one in passes), default=0)


def _sweeps(entry: Entry, levels: int) -> Iterator[Pass]:
    """Yield the parts of passes whose sections lie behind each other."""
    for one in passes_of(entry.kernel, levels):
        yield from (Pass(one.order, part) for part in sweeps(one.order, one.sections, levels))


def _handed_on(passes: tuple[Pass, ...], along: set[str]) -> tuple[frozenset[str], ...]:
    """Return what each section has in variables for the next level, although no level assigns it.

    The level itself reads it too, so that no level is looked up that nothing else reads.
    """
    found: list[frozenset[str]] = []
    for one in passes:
        reads = [frozenset(accesses_of(section.body)) for section in one.sections]
        behind = {name for every in reads for name, offset in every if offset == (0, 0, one.step)}
        for section, every in zip(one.sections, reads, strict=True):
            here = {name for name in behind & along if (name, (0, 0, 0)) in every}
            found.append(frozenset(here) - one.written - irregular(section.body))
    return tuple(found)


def _windows(
    one: Pass,
    carried: tuple[Carry, ...],
    along: set[str],
    own: frozenset[str],
    sizes: dict[str, int],
    least: int,
) -> Iterator[Window]:
    """Yield the windows of a sweep, in the order of its text; `least` levels a domain has."""
    seen: dict[tuple[str, tuple[int, int]], list[tuple[Interval, int]]] = {}
    for section, carry in zip(one.sections, carried, strict=True):
        for name, (i, j, k) in carry.looked_up(section):
            if name in along:
                seen.setdefault((name, (i, j)), []).append((section.interval, k))
        for name in sorted(carry.handed & along - always_assigned(section)):
            seen.setdefault((name, (0, 0)), []).append((section.interval, 0))
        for name in targets_of(section.body):
            if name in along:
                seen.setdefault((name, (0, 0)), [])
    for (name, across), uses in seen.items():
        stored = [s.interval for s in one.sections if _assigned(s, name)] if _here(across) else []
        offsets = [-k * one.step for _, k in uses]
        is_ring = bool(uses) or name not in own
        is_loaded = is_ring and (not stored or not _provides(one, name, uses, least))
        levels = [moved(interval, k) for interval, k in uses]
        yield Window(
            name=name,
            across=across,
            size=sizes[name],
            loaded=(*levels, *stored) if is_loaded else (),
            stored=tuple(joined(stored, least)) if is_ring else (),
            behind=max((-n for n in offsets), default=0),
            ahead=max((0, *offsets)),
            own=name in own,
            chunks=int(is_ring),
        )


def _assigned(section: Section, name: str) -> bool:
    return name in targets_of(section.body)


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
            0 in offsets and (not always or (0, 0, 0) in exposed(section, name))
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
