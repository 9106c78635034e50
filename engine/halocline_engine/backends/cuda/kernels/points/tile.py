"""Choice of tiles of PARALLEL kernels; no device is asked.

A thread that loads one element at a time cannot keep the memory of a large device busy: about 32
kilobytes must be under way on each of its processors. Several points of a thread load more at once,
16 bytes with one instruction where memory is aligned, and share what they read and compute alike.
Each of them also needs registers, and few threads are left where they need many: a kernel of many
arrays has enough under way with one point a thread. Small domains need small tiles, and rows that
read far along J and K need planes in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.points.block_swizzle import Reuse, column_of, strip_of
from halocline_engine.backends.cuda.kernels.points.plane_tile import with_planes
from halocline_engine.backends.cuda.kernels.points.section import (
    VECTOR,
    has_loops,
    loaded_offsets,
    outputs,
    unconditional,
)
from halocline_engine.backends.cuda.kernels.points.windows import windows
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Stride,
    Variant,
    arrays_of,
    is_guarded,
)
from halocline_engine.backends.cuda.model.tile import Block, Domain, Tile
from halocline_engine.ir.nodes import Call, Offset, Statement
from halocline_engine.ir.walk import expressions, reads, walk
from halocline_engine.schedule.nodes import Schedule, Section
from halocline_engine.schedule.passes.cost import operations
from halocline_engine.schedule.rare import rare_reads

__all__ = [
    "is_plain",
    "loads_first",
    "loads_together",
    "moved",
    "points_fitted",
    "points_tile",
    "registers_of",
    "work",
]

#: Registers of 4 bytes for windows and outputs; a thread can have 255 in all.
_REGISTERS = 168
#: The same for a thread of one point that loads first: with more, too few threads are left.
_REGISTERS_OF_A_POINT = 64
#: Functions that are a few instructions; each other one is many, and is written for each point.
_LIGHT = frozenset(
    ("abs", "min", "max", "sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite")
)
_MOST_CALLS = 8
#: Operations of a thread, in additions, with which the values between them still fit registers.
_MOST_WORK = 1500
#: Threads that keep a large device busy: 132 processors with 512 each.
_BUSY = 132 * 512
#: The same with planes, of which a processor has one block.
_BUSY_WITH_PLANES = 132 * 256
#: The block of kernels in text order, where a device has so many threads of a point each that it
#: would begin more than about one small block a cycle, see 0031.
_LARGE: Block = (32, 8)
_BUSY_WITH_LARGE = 64 * _BUSY
#: How many more idle threads along I a block of twice as many may have.
_IDLE = 0.05
_WARP = 32
#: Elements that two rows move, each for itself, over those of both together, above which rows are
#: shared.
_SHARED = 1.25
_ROWS = 3
#: The points of a thread that loads 16 bytes at once.
_POINTS = 4
#: Arrays with which a point a thread has enough under way where rows have nothing in common and
#: points compute little, and with which it has anyway.
_SEVERAL, _MANY = 7, 9
#: Rows of a thread that looks elements up.
_TOGETHER = 4
#: Times 16 bytes that a line of memory has.
_LINE = 8
#: The share of elements read under conditions, above which those are better loaded for two points.
_CONDITIONAL = 0.5
#: From how many levels of an array on a thread hands them on, and how many operations leave the
#: registers for that.
_TALL, _LITTLE_WORK = 5, 128
#: Operations for each array from which on neighbours save more by sharing than loads by order.
_HEAVY = 8
#: From how many rows along J on blocks keep planes, by the width of a tile, and levels that such a
#: block goes up, about, and at least: it computes nothing while it loads the first ones.
_FAR = {2: 5, 4: 9}
_NEVER = 1 << 30
_DEEP, _LEAST_DEEP = 142, 32
#: The least levels of a domain for planes.
_LEAST_WITH_PLANES = 96
#: Processors of a large device, and the levels that a block could go up while it begins.
_PROCESSORS, _BEGIN = 132, 8
#: Registers for windows and outputs of a thread that loads from planes, just before their use.
_REGISTERS_WITH_PLANES = 260


def points_tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
    """Return the tile of a PARALLEL kernel for calls like this one."""
    plain, reuse = Tile((32, 4)), _reuse(entry, schedule)
    if not is_plain(entry, schedule, variant):
        block = _LARGE if _threads(plain, entry, domain) >= _BUSY_WITH_LARGE else plain.block
        tile = replace(plain, block=block)
        if domain[1] > 1 and loads_together(entry, schedule, variant):
            several = _smaller(Tile((128, 1), rows=_TOGETHER))
            busy = (one for one in several if one.rows > 1 and _is_busy(one, entry, domain))
            tile = next(busy, tile)
        tile = replace(tile, block=_block(tile, entry, domain))
        return _in_order(tile, reuse, variant, domain)
    tile = next(
        (
            tile
            for tile in _proposed(_shape(entry, schedule, variant), domain)
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
    """Properties of a kernel that decide its tile.

    `arrays` counts those that are read or written, without indices and masks of regions, and
    `wide` is how many of their elements 16 bytes hold, `aligned` or not; `shifted` says that rows
    begin behind such places. `work` are the operations of a point, `shared` is how many elements
    two rows on their own load and store for one of both together, `alone` says that points read
    nothing of each other, `conditional` that they choose what they load, and `direct` that they
    store all results where they compute them. `levels` is how many levels of an array a point
    reads, and `far` how many rows along J the points of one row read of such an array.
    """

    arrays: int
    wide: int
    aligned: bool
    shifted: bool
    work: int
    shared: float
    alone: bool
    conditional: bool
    direct: bool
    levels: int
    far: int


def _shape(entry: Entry, schedule: Schedule, variant: Variant) -> _Shape:
    wide, aligned = _alignment(entry, schedule, variant)
    # Where each level is a launch of its own, threads hand on nothing and blocks have no planes.
    climbed = () if entry.level_at_hand else entry.kernel.sections
    read = [offsets for one in climbed for offsets in loaded_offsets(one, entry).values()]
    alone, together = (moved(entry, schedule, variant, 1, rows) for rows in (1, 2))
    return _Shape(
        arrays=len({*entry.arrays} - {*schedule.program.made}),
        wide=wide,
        aligned=aligned,
        shifted=variant.shift > 0,
        work=work(entry),
        shared=2 * alone / together,
        alone=all(r.offset == (0, 0, 0) for s in entry.kernel.sections for r in reads(s.body)),
        conditional=any(_chooses_loads(s.body, entry) for s in entry.kernel.sections),
        direct=not any(outputs(section, entry) for section in entry.kernel.sections),
        levels=max((_reach(offsets, 2) + 1 for offsets in read), default=1),
        far=max((_reach(offsets, 1) + 1 for offsets in read if _reach(offsets, 2)), default=1),
    )


def _proposed(shape: _Shape, domain: Domain) -> Iterator[Tile]:
    """Yield tiles from the best one for a large domain to the smallest."""
    far = shape.aligned and shape.far >= _FAR.get(shape.wide, _NEVER)
    if far and domain[2] >= _LEAST_WITH_PLANES:
        yield Tile((32, 8), width=shape.wide, rows=4, depth=_DEEP, planes=2)
    best = _best(shape)
    yield from _smaller(_of_a_row(best, shape) if domain[1] == 1 else best)


def _best(shape: _Shape) -> Tile:
    """Return the tile of a kernel in a large domain, if it fits the registers of a thread.

    A block has long rows where they have nothing in common, since memory serves long pieces of
    several arrays faster than short ones: 128 threads of an element each, or 32 of several. What is
    stored where it is computed is stored an element at a time, which should be neighbours.
    """
    if shape.levels >= _TALL and shape.work <= _LITTLE_WORK and not shape.aligned:
        return Tile((128, 1), rows=2, depth=8)
    if shape.direct:
        return Tile((128, 1), rows=_ROWS)
    width = shape.wide if shape.aligned else max(1, shape.wide // 2)
    rows = Tile((32, 4), width=width, rows=_ROWS)
    if shape.shared > _SHARED:
        return rows
    heavy = shape.work > _HEAVY * shape.arrays
    enough = _MANY if heavy or shape.shared > 1 else _SEVERAL
    if shape.arrays >= enough and not shape.conditional:
        begin = shape.aligned and not shape.shifted
        return Tile((128, 1), line=0 if begin else _LINE * shape.wide)
    if shape.aligned:
        return Tile((32, 4), width=shape.wide, rows=max(1, _POINTS // shape.wide))
    if heavy:
        # Blocks of several rows load less from the cache where points read other rows or levels.
        beside = shape.shared > 1 or shape.levels > 1
        return rows if beside else Tile((32, 4), width=shape.wide)
    return Tile((128, 1), rows=2)


def _of_a_row(tile: Tile, shape: _Shape) -> Tile:
    """Return a tile for a domain of one row: a thread has neighbours along I for its other rows.

    One that would have a point has 8 bytes where points read nothing of each other.
    """
    if shape.direct:
        return replace(tile, rows=1)
    points = tile.width * tile.rows
    if points == 1 and not tile.line and shape.alone:
        points = max(1, shape.wide // 2)
    return replace(tile, width=min(shape.wide, points), rows=1)


def _smaller(tile: Tile) -> Iterator[Tile]:
    """Yield a tile, those with fewer rows, and then those that are narrower."""
    while tile.width:
        for rows in range(tile.rows, 0, -1):
            yield replace(tile, rows=rows)
        tile = replace(tile, width=tile.width // 2)


def moved(entry: Entry, schedule: Schedule, variant: Variant, width: int, rows: int) -> int:
    """Return the elements that a thread loads and stores that has so many points along I and J."""
    kinds = _kinds(schedule, variant)
    return width * rows * len(entry.written) + sum(
        len(window.loaded)
        for section in entry.kernel.sections
        for name, found in loaded_offsets(section, entry).items()
        for window in windows(found, kinds[name], width=width, rows=rows, ring=False)
    )


def work(entry: Entry) -> int:
    """Return the operations of a point, in additions."""
    return max(operations(expressions(section.body)) for section in entry.kernel.sections)


def _chooses_loads(body: Sequence[Statement], entry: Entry) -> bool:
    """Whether most of the elements that points read are read under conditions only."""
    rare = rare_reads(body, entry.narrow)
    places = {(read.name, read.offset) for read in reads(body) if read.name in entry.arrays} - rare
    always = {(read.name, read.offset) for read in unconditional(body)}
    return len(places - always) > _CONDITIONAL * len(places)


def points_fitted(tile: Tile, entry: Entry, schedule: Schedule, variant: Variant) -> Tile:
    """Return the tile, or one point a thread where the kernel cannot have a larger one."""
    if is_plain(entry, schedule, variant):
        tile = replace(tile, depth=1) if entry.level_at_hand else tile
        tile = with_planes(replace(tile, shift=0), entry, schedule, variant)
        tile = replace(tile, shift=variant.shift if tile.width > 1 and not tile.planes else 0)
    else:
        rows = tile.rows if loads_together(entry, schedule, variant) else 1
        tile = replace(tile, width=1, rows=rows, depth=1, planes=0, shift=0)
    alone = tile.width * tile.rows * tile.depth == 1
    return tile if alone and _lies_along_i(entry, schedule, variant) else replace(tile, line=0)


def _lies_along_i(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    kinds = _kinds(schedule, variant)
    return any(kinds[name][0] is Stride.ONE for name in entry.arrays)


def loads_first(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Whether a thread of one point loads what it surely reads before it computes.

    What neighbours along I and J read too is mostly at hand, and is better loaded where it is used.
    """
    if not is_plain(entry, schedule, variant):
        return False
    read = (loaded_offsets(section, entry).values() for section in entry.kernel.sections)
    own = all(offset[:2] == (0, 0) for found in read for places in found for offset in places)
    one = Tile((1, 1))
    return own and registers_of(entry, schedule, variant, one) <= _REGISTERS_OF_A_POINT


def registers_of(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return how many registers of 4 bytes hold a tile's windows and outputs."""
    return max(_registers(s, entry, schedule, variant, tile) for s in entry.kernel.sections)


def is_plain(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Whether loads may go before stores, and every point writes only its own elements.

    Otherwise a thread computes one point, in text order.
    """
    return not entry.kernel.is_general and _is_apart(entry, schedule, variant)


def loads_together(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Whether points that look elements up may be several of a thread, which loads for all."""
    may = entry.kernel.is_general and not has_loops(entry)
    return may and _is_apart(entry, schedule, variant)


def _is_apart(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Whether every point writes only its own elements, which no other one reads."""
    fields = {field.name for field in schedule.program.fields}
    if not variant.disjoint or is_guarded(entry, fields):
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
    if tile.planes:
        held = registers_of(entry, schedule, variant, tile)
        return (
            tile == with_planes(tile, entry, schedule, variant) and held <= _REGISTERS_WITH_PLANES
        )
    points = tile.width * tile.rows
    return points == 1 or (
        points * _calls(entry) <= _MOST_CALLS
        and points * work(entry) <= _MOST_WORK
        and registers_of(entry, schedule, variant, tile) <= _REGISTERS
    )


def _is_busy(tile: Tile, entry: Entry, domain: Domain) -> bool:
    busy = _BUSY_WITH_PLANES if tile.planes else _BUSY
    return tile.rows * tile.width == 1 or _threads(tile, entry, domain) >= busy


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


def _alignment(entry: Entry, schedule: Schedule, variant: Variant) -> tuple[int, bool]:
    """Return how many points of the smallest element type 16 bytes hold, and if all are aligned.

    Where no array lies along I, a point is as wide as it gets. Types of less than 4 bytes do not
    count: they are masks beside the numbers. Nor do indices and masks of regions, which lie as they
    were made whatever the fields do.
    """
    kinds, made = _kinds(schedule, variant), schedule.program.made
    aligned = dict(zip((name for name, _ in arrays_of(schedule)), variant.aligned, strict=True))
    lying = {
        name: max(4, dtype.itemsize)
        for name, dtype in arrays_of(schedule)
        if name in {*entry.arrays} - {*made} and kinds[name][0] is Stride.ONE
    }
    if not lying:
        return 1, False
    return VECTOR // min(lying.values()), all(aligned[name] for name in lying)


def _kinds(schedule: Schedule, variant: Variant) -> dict[str, tuple[Stride, Stride, Stride]]:
    names = (name for name, _ in arrays_of(schedule))
    return {name: variant.kinds[number] for name, number in zip(names, variant.arrays, strict=True)}


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
    threads = -(-(domain[0] + high - low) // tile.width) + max(tile.line - 1, 0)
    if domain[1] <= tile.rows:
        return (128, 1)
    if threads <= 8:
        return (8, 16)
    if threads <= 16:
        return (16, 8)
    along, across = tile.block
    while along > _WARP and _idle(along, threads) > _idle(along // 2, threads) + _IDLE:
        along, across = along // 2, across * 2
    return (along, across)


def _idle(block: int, threads: int) -> float:
    """Return the share of threads along I that have nothing to compute."""
    return 1 - threads / (-(-threads // block) * block)
