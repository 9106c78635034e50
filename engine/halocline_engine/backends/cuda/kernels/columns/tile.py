"""Cost model for tiles of FORWARD and BACKWARD kernels; no device is asked.

A column takes as long as its memory traffic where about 12 kilobytes are under way on each
processor of a large device. Temporaries on chip save their traffic, and leave room for few columns,
each of which must then have many loads under way, and few that compute while others wait for what
they computed a level before. Levels whose text is long, as that of functions is, are loaded fewer
at once: a loop that does not stay in the cache of instructions waits for its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from halocline_engine.backends.cuda.kernels.columns.early_loads import (
    TEXT,
    loaded_bytes,
    text_of,
)
from halocline_engine.backends.cuda.kernels.columns.latency import level_cycles
from halocline_engine.backends.cuda.kernels.columns.passes import passes_of
from halocline_engine.backends.cuda.kernels.columns.placement import (
    ALL,
    copies_of,
    placement_of,
    with_copies,
)
from halocline_engine.backends.cuda.kernels.kind import BlockMemory
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant, arrays_of
from halocline_engine.backends.cuda.model.tile import Block, Domain, Tile
from halocline_engine.schedule.nodes import Schedule

__all__ = [
    "SHARED_LIMIT",
    "column_blocks",
    "columns_fitted",
    "columns_memory",
    "columns_tile",
    "shared_bytes",
]

#: Bytes of shared memory that a block can have on devices of compute capability 9.0, which is also
#: what all blocks of a processor have together, but for one kilobyte each.
SHARED_LIMIT = 227 * 1024
_RESERVED = 1024
_BUSY = 12 * 1024
_PROCESSORS = 132
#: Bytes that a processor of a large device moves in a cycle.
_RATE = 12.0
_THREADS = 2048
_REGISTERS = 65536
#: Registers of 4 bytes of a thread, for queues and for the rest.
_QUEUES = 192
_OTHERS = 48
_AHEAD = (10, 8, 6, 4, 2, 1)
#: The levels that are loaded ahead where many columns fit on a processor.
_FEW = 4
#: A thread waits for loads in the order of few counters, not for each alone.
_UNDER_WAY = 8
_WIDTHS = (32, 64, 96, 128)
#: Bytes that a row of a block moves beside its own: memory is read in pieces of this size, and a
#: row begins and ends anywhere in them.
_PIECE = 32
_IN_MEMORY = 128
#: What the memory of a block is aligned to: the lines of caches.
_ALIGNED = 128


@dataclass(frozen=True, slots=True)
class _Work:
    """What a level of a column costs, in bytes.

    `loaded` are those of all streams of the pass with most, `moved` those of fields that are read
    or written, `own` those of each place of temporaries, `again` those of each field that later
    passes load again, and `size` those of the smallest element; `text` is that of the largest body.
    `cycles` are those that a level of all passes waits for itself.
    """

    loaded: int
    moved: int
    own: tuple[int, ...]
    again: tuple[int, ...]
    size: int
    text: int
    cycles: int


def columns_tile(
    entry: Entry, schedule: Schedule, variant: Variant, domain: Domain, shared: int = SHARED_LIMIT
) -> Tile:
    """Return the tile of a column kernel for arrays as `variant` says and a domain.

    `shared` is the shared memory that a block can have.
    """
    work = _work(entry, schedule, variant, domain[2] if variant.disjoint else 0)
    ahead = _ahead(work) if variant.disjoint else 0
    tiles = list(_tiles(work, ahead, domain, shared))
    best = min(tiles, key=lambda tile: _time(tile, work, domain[2]))
    threads = best.threads
    if _columns(entry, domain) < 2 * _PROCESSORS * threads:
        threads = min(threads, 32)
    return replace(best, block=_block(threads, entry, domain), levels=domain[2])


def columns_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile:
    """Return the tile, with temporaries in memory of blocks where they do not fit on chip."""
    ahead = tile.ahead if variant.disjoint else 0
    levels = domain[2] if ahead and tile.levels else 0
    made = replace(tile, width=1, rows=1, depth=1, ahead=ahead, levels=levels, blocks=1)
    if shared_bytes(entry, schedule, variant, made, domain) > SHARED_LIMIT:
        made = replace(made, on_chip=0)
    if not placement_of(entry.kernel, schedule, made).block:
        return replace(made, blocks=0)
    work = _work(entry, schedule, variant, levels)
    most = _resident(made, work, domain[2]) // made.threads * _PROCESSORS
    return replace(made, blocks=min(tile.blocks or most, most))


def shared_bytes(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile, domain: Domain
) -> int:
    """Return the bytes of dynamic shared memory that a block of a kernel needs."""
    entry, schedule, _ = with_copies(entry, schedule, variant, tile)
    return domain[2] * tile.threads * placement_of(entry.kernel, schedule, tile).on_chip


def column_blocks(entry: Entry, domain: Domain, tile: Tile) -> int:
    """Return the blocks of a launch: one for each set of columns, or those of the tile."""
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    along = -(-max(domain[0] + i_high - i_low, 0) // tile.block[0])
    sets = along * -(-max(domain[1] + j_high - j_low, 0) // tile.block[1])
    return min(sets, tile.blocks) if tile.blocks else sets


def columns_memory(
    entry: Entry, schedule: Schedule, tile: Tile, domain: Domain
) -> Iterator[BlockMemory]:
    """Yield the memory of temporaries: all levels of the columns that blocks have at a time."""
    elements = column_blocks(entry, domain, tile) * tile.threads * domain[2]
    for slot in placement_of(entry.kernel, schedule, tile).block:
        yield BlockMemory(slot.names[0], slot.dtype.itemsize, elements, _ALIGNED)


def _work(entry: Entry, schedule: Schedule, variant: Variant, levels: int) -> _Work:
    sizes = {name: dtype.itemsize for name, dtype in arrays_of(schedule)}
    kinds = dict(zip(sizes, (variant.kinds[n] for n in variant.arrays), strict=True))
    alone = placement_of(entry.kernel, schedule, Tile((1, 1), on_chip=ALL, levels=levels))
    arrays = frozenset(
        n for n in entry.arrays if n not in alone.names and kinds[n][2] is not Stride.NONE
    )
    passes = passes_of(entry.kernel, levels)
    varying = {name: sizes[name] for name in sorted(arrays)}
    return _Work(
        loaded=max((loaded_bytes(one, passes, varying) for one in passes), default=0),
        moved=sum(varying.values()),
        own=tuple(slot.dtype.itemsize for slot in alone.shared),
        again=tuple(d.itemsize for d in copies_of(entry, schedule, variant, levels).values()),
        size=min(varying.values(), default=1),
        text=max(text_of(section) for one in passes for section in one.sections),
        cycles=sum(level_cycles(one) for one in passes),
    )


def _ahead(work: _Work) -> int:
    """Return how many levels are loaded ahead: as many as registers and text allow."""
    for ahead in _AHEAD:
        if 2 * ahead * work.loaded <= 4 * _QUEUES and 2 * ahead * work.text <= TEXT:
            return ahead
    return 0


def _tiles(work: _Work, ahead: int, domain: Domain, shared: int) -> Iterator[Tile]:
    """Yield tiles with some of the temporaries on chip, the largest first.

    Levels that load temporaries too have fewer of them ahead.
    """
    for on_chip in accumulate((*work.own, *work.again), initial=0):
        few = not on_chip or on_chip < sum(work.own)
        for threads in _WIDTHS if on_chip else (_IN_MEMORY,):
            if threads * domain[2] * on_chip <= shared:
                levels = min(ahead, _FEW) if few else ahead
                yield Tile((threads, 1), on_chip=on_chip, ahead=levels)


def _resident(tile: Tile, work: _Work, levels: int) -> int:
    """Return the threads that a processor has at once."""
    registers = _OTHERS + 2 * tile.ahead * work.loaded // 4
    shared = tile.threads * levels * tile.on_chip
    blocks = min(
        _THREADS // tile.threads,
        _REGISTERS // (registers * tile.threads),
        (SHARED_LIMIT + _RESERVED) // (shared + _RESERVED),
    )
    return blocks * tile.threads


def _time(tile: Tile, work: _Work, levels: int) -> float:
    """Return the time of a level: of its bytes, longer where too few of them are under way.

    It is that of its operations where these take longer. Between equals, more are better.
    """
    resident = _resident(tile, work, levels)
    spilt = max(sum(work.own) - tile.on_chip, 0)
    again = sum((*work.own, *work.again)) - tile.on_chip - spilt
    moved = work.moved + 2 * spilt + again
    under_way = resident * max(1, min(tile.ahead, _UNDER_WAY)) * work.loaded
    pieces = 1 + _PIECE / (tile.threads * work.size)
    moving = moved * pieces * max(1.0, _BUSY / max(under_way, 1))
    return max(moving, work.cycles * _RATE / max(resident, 1)) * (1 - 1e-6 * resident)


def _columns(entry: Entry, domain: Domain) -> int:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    return (domain[0] + i_high - i_low) * (domain[1] + j_high - j_low)


def _block(threads: int, entry: Entry, domain: Domain) -> Block:
    """Return the threads along I, where neighbours lie in most arrays, and along J."""
    (low, high), _ = entry.kernel.extent
    width = domain[0] + high - low
    if domain[1] == 1 or width >= threads:
        return (threads, 1)
    along = 8 if width <= 8 else 16 if width <= 16 else 32
    return (along, threads // along)
