"""Cost model for tiles of PARALLEL kernels; no device is asked.

A thread that loads one element at a time cannot keep the memory of a large device busy: about 32
kilobytes must be under way on each of its processors. Wide tiles load 16 bytes at once, several
rows share what they read of each other, and levels hand on what they have in registers. The size is
bounded by the registers that hold all this, by the text (a long function is written out for each
point), and by the threads that are left for a small domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.points.block_swizzle import Reuse, column_of, strip_of
from halocline_engine.backends.cuda.kernels.points.plane_tile import with_planes
from halocline_engine.backends.cuda.kernels.points.section import VECTOR, loaded_offsets, outputs
from halocline_engine.backends.cuda.kernels.points.windows import windows
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Stride,
    Variant,
    arrays_of,
    is_guarded,
)
from halocline_engine.backends.cuda.model.tile import Block, Domain, Tile
from halocline_engine.ir.nodes import Call, Offset
from halocline_engine.ir.walk import expressions, reads, walk
from halocline_engine.schedule.nodes import Schedule, Section

__all__ = ["points_fitted", "points_tile", "registers_of"]

#: Registers of 4 bytes for windows and outputs; a thread can have 255 in all.
_REGISTERS = 168
#: Functions that are a few instructions; each other one is many, and is written for each point.
_LIGHT = frozenset(
    ("abs", "min", "max", "sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite")
)
_MOST_CALLS = 8
#: Threads that keep a large device busy: 132 processors with 512 each, or one block with planes.
_BUSY = 132 * 512
_BUSY_WITH_PLANES = 132 * 256
#: A tile that is the best where so many threads have one that the last blocks do not matter.
_IF_MANY, _BUSY_IF_MANY = Tile((64, 2), rows=4, depth=4), 64 * _BUSY
#: The block of many threads of a point each: a device begins about one block a cycle, see 0031.
_LARGE: Block = (32, 8)
#: From how many rows along J on blocks keep planes, by the width of a tile.
_FAR = {2: 5, 4: 9}
_NEVER = 1 << 30
#: How many more idle threads along I a block of twice as many may have.
_IDLE = 0.05
_WARP = 32
#: The width of tiles of 8-byte elements.
_FEW = 2
#: From how many rows along J on three rows a thread are better than two.
_WIDE = 7
#: Levels up to which four of them are computed one after the other, and not eight.
_LOW = 3
#: Arrays that are read up to which a thread hands on levels, and up to which it has three rows.
_MOST_DEEP, _MOST_ROWS = 5, 3
#: Levels that a block with planes goes up, about, and at least.
_DEEP, _LEAST_DEEP = 142, 32
#: Processors of a large device, and the levels that a block could go up while it begins.
_PROCESSORS, _BEGIN = 132, 8
#: Registers for windows and outputs of a thread that loads from planes, just before their use.
_REGISTERS_WITH_PLANES = 260


def points_tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
    """Return the tile of a PARALLEL kernel for calls like this one."""
    plain, reuse = Tile((32, 4)), _reuse(entry, schedule)
    if not _is_plain(entry, schedule, variant):
        block = _LARGE if _threads(plain, entry, domain) >= _BUSY_IF_MANY else plain.block
        tile = replace(plain, block=_block(replace(plain, block=block), entry, domain))
        return _in_order(tile, reuse, variant, domain)
    shape, width = _shape(entry, schedule), _width(entry, schedule, variant)
    tile = next(
        (
            tile
            for tile in _candidates(shape, width, level_at_hand=entry.level_at_hand)
            if _fits(tile, entry, schedule, variant) and _is_busy(tile, entry, domain)
        ),
        plain,
    )
    if tile.planes:
        return replace(tile, depth=_depth(tile, entry, domain))
    tile = replace(tile, block=_block(tile, entry, domain))
    return _in_order(tile, reuse, variant, domain)


def _depth(tile: Tile, entry: Entry, domain: Domain) -> int:
    """Return how many levels a block with planes goes up.

    Blocks run in waves, one on each processor, and each wave takes as long as a block.
    """
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    first = i_low // tile.width * tile.width
    along = -(-(domain[0] + i_high - first) // (tile.block[0] * tile.width))
    across = -(-(domain[1] + j_high - j_low) // (tile.block[1] * tile.rows))

    def time(depth: int) -> int:
        blocks = along * across * -(-domain[2] // depth)
        return -(-blocks // _PROCESSORS) * (depth + _BEGIN)

    parts = range(1, max(1, domain[2] // _LEAST_DEEP) + 1)
    return min((-(-domain[2] // part) for part in parts), key=time)


def _in_order(tile: Tile, reuse: Reuse, variant: Variant, domain: Domain) -> Tile:
    """Return the tile with the order in which its blocks run."""
    return replace(
        tile,
        strip=strip_of(tile, reuse, domain, variant.cache),
        column=column_of(tile, reuse, domain, variant.cache),
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """Properties of a kernel's reads that decide its tile.

    `rows` is how many rows along J the points of one row read, `levels` how many levels are handed
    on, and `fields` how many arrays are read beside indices and masks of regions.
    """

    rows: int
    levels: int
    fields: int


def _shape(entry: Entry, schedule: Schedule) -> _Shape:
    rows = levels = 0
    names: set[str] = set()
    for section in entry.kernel.sections:
        for name, found in loaded_offsets(section, entry).items():
            if name not in schedule.program.made:
                names.add(name)
            along = [j for _, j, _ in found]
            rows = max(rows, max(along) - min(along) + 1)
            for offsets in _by_place(found):
                depth = max(k for _, _, k in offsets) - min(k for _, _, k in offsets) + 1
                levels = max(levels, depth)
    return _Shape(rows, levels, len(names))


def _candidates(shape: _Shape, width: int, *, level_at_hand: bool) -> Iterator[Tile]:
    """Yield tiles from the one that was measured as the best for such kernels to the smallest."""
    for best in _measured(shape, width):
        if best.planes:
            if not level_at_hand:
                yield replace(best, width=width)
            continue
        least = best.rows if best == _IF_MANY else 1
        for rows in range(best.rows, least - 1, -1):
            for w in dict.fromkeys((width, 1)):
                tile = replace(best, width=w, rows=rows)
                yield replace(tile, depth=1) if level_at_hand else tile


def _measured(shape: _Shape, width: int) -> Iterator[Tile]:
    """Yield the best tiles on an H200 for kernels of a shape, those of lower depth last.

    Memory serves long pieces of several arrays faster than short ones; blocks of one array rather
    share what their rows read of each other.
    """
    block = (32, 4) if shape.fields == 1 and shape.rows > 1 else (128, 1)
    if shape.levels > 1:
        if shape.rows >= _FAR.get(width, _NEVER):
            yield Tile((32, 8), rows=4, depth=_DEEP, planes=2)
        if shape.rows >= _WIDE:
            yield Tile((32, 4), rows=3, depth=8)
        low = shape.levels <= _LOW
        if low and shape.fields == 1 and width == _FEW:
            yield _IF_MANY
        if shape.fields <= _MOST_DEEP:
            yield Tile(block, rows=2, depth=4 if low else 8)
    elif shape.rows >= 4:
        yield Tile((32, 4), rows=3, depth=2)
    elif shape.rows == 3 and 1 < shape.fields <= _MOST_ROWS:
        yield Tile(block, rows=3)
    yield Tile(block, rows=2)


def points_fitted(tile: Tile, entry: Entry, schedule: Schedule, variant: Variant) -> Tile:
    """Return the tile, or one point a thread where the kernel cannot have a larger one."""
    if _is_plain(entry, schedule, variant):
        tile = replace(tile, depth=1) if entry.level_at_hand else tile
        return with_planes(tile, entry, schedule, variant)
    return replace(tile, width=1, rows=1, depth=1, planes=0)


def registers_of(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return how many registers of 4 bytes hold a tile's windows and outputs."""
    return max(_registers(s, entry, schedule, variant, tile) for s in entry.kernel.sections)


def _is_plain(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Whether loads may go before stores, and every point writes only its own elements.

    Otherwise a thread computes one point, in text order.
    """
    fields = {field.name for field in schedule.program.fields}
    if not variant.disjoint or is_guarded(entry, fields) or entry.kernel.is_general:
        return False
    away = {
        read.name
        for section in entry.kernel.sections
        for read in reads(section.body)
        if read.offset != (0, 0, 0)
    }
    kinds = _kinds(schedule, variant)
    flat = any(Stride.NONE in kinds[name] for name in entry.written)
    return not flat and not away & set(entry.written)


def _fits(tile: Tile, entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    if with_planes(tile, entry, schedule, variant) != tile:
        return False
    points = tile.width * tile.rows
    most = _REGISTERS_WITH_PLANES if tile.planes else _REGISTERS
    return (
        points * _calls(entry) <= _MOST_CALLS
        and registers_of(entry, schedule, variant, tile) <= most
    )


def _is_busy(tile: Tile, entry: Entry, domain: Domain) -> bool:
    if tile.rows * tile.depth == 1:
        return True
    threads = _threads(tile, entry, domain)
    if tile.planes:
        return threads >= _BUSY_WITH_PLANES
    same = (tile.rows, tile.depth) == (_IF_MANY.rows, _IF_MANY.depth)
    return threads >= (_BUSY_IF_MANY if same else _BUSY)


def _reuse(entry: Entry, schedule: Schedule) -> Reuse:
    """Return what the blocks of other levels read again."""
    sizes = dict(arrays_of(schedule))
    places: dict[str, list[Offset]] = {}
    for section in entry.kernel.sections:
        for name, found in loaded_offsets(section, entry).items():
            places.setdefault(name, []).extend(found)
    (i_low, i_high), (j_low, j_high), _ = (
        (min((0, *along)), max((0, *along))) for along in _along(places)
    )
    heights = {name: _reach(found, 2) for name, found in places.items()}
    return Reuse(
        levels=max(heights.values(), default=0),
        rows=(-j_low, j_high),
        columns=(-i_low, i_high),
        shared=sum(sizes[name].itemsize for name, height in heights.items() if height),
        beside=sum(sizes[name].itemsize for name, found in places.items() if _reach(found, 1)),
        all=sum(sizes[name].itemsize for name in entry.arrays),
    )


def _along(places: Mapping[str, Sequence[Offset]]) -> list[list[int]]:
    """Return how far along each axis reads go."""
    return [[offset[axis] for found in places.values() for offset in found] for axis in range(3)]


def _reach(offsets: Sequence[Offset], axis: int) -> int:
    along = [offset[axis] for offset in offsets]
    return max(along) - min(along)


def _width(entry: Entry, schedule: Schedule, variant: Variant) -> int:
    """Return how many points of the smallest element type 16 bytes hold, if they are aligned.

    Types of less than 4 bytes do not count: they are masks beside the numbers. Nor do indices and
    masks of regions, which lie as they were made whatever the fields do.
    """
    kinds, made = _kinds(schedule, variant), schedule.program.made
    aligned = dict(zip((name for name, _ in arrays_of(schedule)), variant.aligned, strict=True))
    sizes = [
        max(4, dtype.itemsize)
        for name, dtype in arrays_of(schedule)
        if name in {*entry.arrays} - {*made} and kinds[name][0] is Stride.ONE and aligned[name]
    ]
    return VECTOR // min(sizes) if sizes else 1


def _kinds(schedule: Schedule, variant: Variant) -> dict[str, tuple[Stride, Stride, Stride]]:
    names = (name for name, _ in arrays_of(schedule))
    return {name: variant.kinds[number] for name, number in zip(names, variant.arrays, strict=True)}


def _by_place(offsets: list[Offset]) -> Iterator[list[Offset]]:
    """Yield the offsets of each place in the horizontal."""
    places: dict[tuple[int, int], list[Offset]] = {}
    for i, j, k in offsets:
        places.setdefault((i, j), []).append((i, j, k))
    yield from places.values()


def _registers(
    section: Section, entry: Entry, schedule: Schedule, variant: Variant, tile: Tile
) -> int:
    kinds = _kinds(schedule, variant)
    words = {name: -(-dtype.itemsize // 4) for name, dtype in arrays_of(schedule)}
    loaded = sum(
        len(window.places) * words[name]
        for name, offsets in loaded_offsets(section, entry).items()
        for window in windows(
            offsets, kinds[name], width=tile.width, rows=tile.rows, ring=tile.depth > 1
        )
    )
    stored = sum(words[name] for name in outputs(section, entry))
    return loaded + stored * tile.width * tile.rows


def _calls(entry: Entry) -> int:
    """Return how many calls of long functions the kernel's text has."""
    return sum(
        isinstance(node, Call) and node.function not in _LIGHT
        for section in entry.kernel.sections
        for expr in expressions(section.body)
        for node in walk(expr)
    )


def _threads(tile: Tile, entry: Entry, domain: Domain) -> int:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    ni, nj = domain[0] + i_high - i_low, domain[1] + j_high - j_low
    return -(-ni // tile.width) * -(-nj // tile.rows) * -(-domain[2] // tile.depth)


def _block(tile: Tile, entry: Entry, domain: Domain) -> Block:
    """Return the threads of a block; less along I where the domain is narrow."""
    (low, high), _ = entry.kernel.extent
    threads = -(-(domain[0] + high - low) // tile.width)
    if domain[1] <= tile.rows:
        return (128, 1)
    if threads <= 8:
        return (8, 16)
    if threads <= 16:
        return (16, 8)
    if tile.width > _FEW and tile.block == (32, 4):
        return (32, 8)
    along, across = tile.block
    while along > _WARP and _idle(along, threads) > _idle(along // 2, threads) + _IDLE:
        along, across = along // 2, across * 2
    return (along, across)


def _idle(block: int, threads: int) -> float:
    """Return the share of threads along I that have nothing to compute."""
    return 1 - threads / (-(-threads // block) * block)
