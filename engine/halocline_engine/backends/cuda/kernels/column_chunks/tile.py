"""Cost model for kernels whose warps move columns in chunks of levels.

Chunks should be as long as what memory is read in. But all windows of a warp are in shared memory,
and a processor needs many warps, as each level of a column waits for the one before. What a pass
looks up again, the cache of the device still has where few columns are under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import hypot

from halocline_engine.backends.cuda.kernels.column_chunks.windows import (
    COLUMNS,
    PassWindows,
    Window,
    cut_windows,
    shared_bytes,
    uncut_windows,
    windows_of,
)
from halocline_engine.backends.cuda.kernels.columns.latency import level_cycles
from halocline_engine.backends.cuda.kernels.columns.placement import (
    ALL,
    copies_of,
    placement_of,
    with_copies,
)
from halocline_engine.backends.cuda.kernels.kind import BlockMemory
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Stride,
    Variant,
    arrays_of,
    is_guarded,
    lies_along_k,
)
from halocline_engine.backends.cuda.model.speed import H200
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import accesses_of
from halocline_engine.schedule.nodes import Schedule

__all__ = [
    "CHUNKS",
    "chunks_blocks",
    "chunks_bytes",
    "chunks_fitted",
    "chunks_memory",
    "chunks_tile",
]

#: Bytes of shared memory of all blocks of a processor, and what each of them takes besides.
_CHIP, _RESERVED = 228 * 1024, 1024
#: The most that a block can have, the most blocks of a processor, and the most that go through all
#: columns.
_MOST, _BLOCKS, _LOOPING = 227 * 1024, 32, 16
#: Registers of a processor, and those of a thread for anything but what it moves of a chunk.
_REGISTERS, _OTHERS = 65536, 64
_ALL_LOOPING = _LOOPING * H200.processors
#: The fewest blocks that a processor should have, so that some compute while others wait.
_FEWEST = 2
#: Levels of a chunk, and of all chunks of a column at most, for each of the column (decision 0134).
CHUNKS, _MORE = (8, 16, 32, 64), 1.5
#: Bytes that a processor of a large device moves in a cycle.
_RATE = 12.0
#: Pieces of this many bytes each take twice as long as long ones, as measured (decision 0102).
_PIECE = 20
#: Cycles of a level for each array that is loaded and stored, for each that all columns share, and
#: for each that it looks up in memory, at levels that only a run knows.
_UPDATE, _SHARED, _LOOKUP = 30, 40, 1000
#: Columns that a number of 32 bits counts, with a set of columns of every block besides.
_LARGEST = 2**31 - COLUMNS * _BLOCKS * H200.processors
#: What the memory of a block is aligned to: the lines of caches.
_ALIGNED = 128


def chunks_tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    """Return the tile whose levels take the least time, or None for another kind of kernel."""
    if not _suits(entry, schedule, variant, domain):
        return None
    sizes = (dtype.itemsize for name, dtype in arrays_of(schedule) if name in entry.arrays)
    words = max(sizes, default=0) // 4
    shared = _shared(schedule, variant)
    own = Tile((COLUMNS, 1), on_chip=ALL, levels=domain[2])
    places = [slot.dtype.itemsize for slot in placement_of(entry.kernel, schedule, own).shared]
    places += (d.itemsize for d in copies_of(entry, schedule, variant, domain[2]).values())
    found: dict[Tile, tuple[bool, float]] = {}
    for on_chip in accumulate(places, initial=0):
        if _FEWEST * COLUMNS * domain[2] * on_chip > _CHIP:
            break
        made = with_copies(entry, schedule, variant, replace(own, on_chip=on_chip))
        looping = replace(own, on_chip=on_chip, blocks=_ALL_LOOPING)
        uncut = uncut_windows(*made, looping)
        if uncut is None:
            continue
        for chunk in _lengths(domain[2]):
            tile = replace(looping, chunk=chunk)
            passes = cut_windows(uncut, chunk)
            fitted = _with_blocks(tile, entry, schedule, passes)
            if fitted and passes and _moves(fitted, words):
                alone = _resident(passes) < _FEWEST
                found[fitted] = alone, _time(made[0], passes, variant, fitted, shared)
    return min(found, key=found.__getitem__) if found else None


def _lengths(levels: int) -> Iterator[int]:
    """Yield the lengths of chunks that are worth a look."""
    for chunk in CHUNKS:
        if chunk == CHUNKS[0] or -(-levels // chunk) * chunk <= _MORE * levels:
            yield chunk


def chunks_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile, or None where the kernel, its arrays or its domain do not suit it."""
    if tile.chunk not in CHUNKS or not _suits(entry, schedule, variant, domain):
        return None
    made = Tile(
        (COLUMNS, 1),
        levels=domain[2],
        chunk=tile.chunk,
        on_chip=tile.on_chip,
        blocks=tile.blocks or _ALL_LOOPING,
    )
    passes = windows_of(*with_copies(entry, schedule, variant, made), made)
    return _with_blocks(made, entry, schedule, passes)


def _suits(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> bool:
    """Return whether a kernel, its arrays and its domain may be of this kind."""
    if entry.kernel.order is Order.PARALLEL or not variant.disjoint or entry.level_at_hand:
        return False
    if is_guarded(entry, {field.name for field in schedule.program.fields}):
        return False
    return _columns(entry, domain) <= _LARGEST and lies_along_k(entry, schedule, variant)


def _with_blocks(
    tile: Tile, entry: Entry, schedule: Schedule, passes: tuple[PassWindows, ...] | None
) -> Tile | None:
    """Return the tile with as many blocks as may loop, or None where windows do not fit."""
    if passes is None or shared_bytes(passes) > _MOST:
        return None
    if not placement_of(entry.kernel, schedule, tile).block:
        return replace(tile, blocks=0)
    return replace(tile, blocks=min(tile.blocks, _resident(passes) * H200.processors))


def chunks_bytes(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return the bytes of shared memory of a block."""
    return shared_bytes(windows_of(*with_copies(entry, schedule, variant, tile), tile) or ())


def chunks_blocks(entry: Entry, domain: Domain, tile: Tile) -> int:
    """Return the blocks of a launch: one for each set of columns, or those of the tile."""
    sets = -(-_columns(entry, domain) // COLUMNS)
    return min(sets, tile.blocks) if tile.blocks else sets


def chunks_memory(
    entry: Entry, schedule: Schedule, tile: Tile, domain: Domain
) -> Iterator[BlockMemory]:
    """Yield the memory of temporaries: all levels of the columns that blocks have at a time."""
    elements = chunks_blocks(entry, domain, tile) * COLUMNS * domain[2]
    for slot in placement_of(entry.kernel, schedule, tile).block:
        yield BlockMemory(slot.names[0], slot.dtype.itemsize, elements, _ALIGNED)


def _moves(tile: Tile, words: int) -> bool:
    """Return whether threads have registers for their elements of a chunk, and the offsets.

    Blocks that go through all columns are compiled for as many on a processor.
    """
    columns = COLUMNS * -(-tile.blocks // H200.processors)
    return not columns or min(tile.chunk, COLUMNS) * (1 + words) <= _REGISTERS // columns - _OTHERS


def _resident(passes: tuple[PassWindows, ...]) -> int:
    """Return how many blocks with these windows a processor has at a time."""
    return min(_BLOCKS, _CHIP // (shared_bytes(passes) + _RESERVED))


def _columns(entry: Entry, domain: Domain) -> int:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    return max(domain[0] + i_high - i_low, 0) * max(domain[1] + j_high - j_low, 0)


def _again(passes: tuple[PassWindows, ...]) -> list[frozenset[str]]:
    """Return the fields that each pass loads and a pass before had."""
    known: frozenset[str] = frozenset()
    found: list[frozenset[str]] = []
    for one in passes:
        fields = [window for window in one.windows if not window.own]
        found.append(frozenset(window.name for window in fields if window.loaded) & known)
        known |= {window.name for window in fields}
    return found


def _kept(passes: tuple[PassWindows, ...]) -> int:
    """Return the bytes of a level that passes look up again."""
    return sum(
        window.size
        for one, again in zip(passes, _again(passes), strict=True)
        for window in one.windows
        if window.loaded and (window.own or window.name in again)
    )


def _shared(schedule: Schedule, variant: Variant) -> frozenset[str]:
    """Return the arrays along K that all columns share."""
    kinds = zip((name for name, _ in arrays_of(schedule)), variant.arrays, strict=True)
    alike = (Stride.NONE, Stride.NONE)
    return frozenset(
        name
        for name, number in kinds
        if variant.kinds[number][:2] == alike and variant.kinds[number][2] is not Stride.NONE
    )


def _time(
    entry: Entry,
    passes: tuple[PassWindows, ...],
    variant: Variant,
    tile: Tile,
    shared: frozenset[str],
) -> float:
    """Return how long the levels of a column take, in bytes that memory moves meanwhile.

    A level takes as long as its bytes, more of them where chunks are shorter than the pieces of
    memory, and as its operations, where few columns are there to hide what each waits for: a warp
    that waits for a chunk computes nothing.
    """
    columns = COLUMNS * (tile.blocks or _resident(passes) * H200.processors)
    lost = min(1.0, 2 * _kept(passes) * tile.levels * columns / variant.cache)
    total = 0.0
    for one, again in zip(passes, _again(passes), strict=True):
        memory = sum(_bytes(window, tile, lost, window.name in again) for window in one.windows)
        updated = sum(bool(window.loaded and window.stored) for window in one.windows)
        touched = {name for s in one.one.sections for name, _ in accesses_of(s.body)}
        irregular = entry.kernel.irregular & (touched | one.one.written)
        cycles = level_cycles(one.one) + updated * _UPDATE
        cycles += len(shared & touched) * _SHARED + len(irregular) * _LOOKUP
        total += hypot(memory, cycles * _RATE * H200.processors / columns)
    return total


def _bytes(window: Window, tile: Tile, lost: float, is_again: bool) -> float:
    """Return the bytes of a level of a window, as many as memory moves in the same time."""
    if window.own:
        return (bool(window.loaded) + bool(window.stored or not window.chunks)) * window.size * lost
    loaded = bool(window.loaded) * (lost if is_again else 1.0)
    pieces = bool(window.loaded) + bool(window.stored)
    return (loaded + bool(window.stored)) * window.size + pieces * _PIECE / tile.chunk
