"""Ways to compute a program on a CUDA device, the usual one first, each with what it should take.

One kernel's tile changes at a time, so that their number grows with the number of kernels and not
with its power; or temporaries go elsewhere, where that gives other kernels. `schedule.tune` keeps
those that are worth a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from halocline_engine.backends.cuda.autotune.choice import Choice, choice_text
from halocline_engine.backends.cuda.kernels.choose import (
    kernel_kind,
    launches,
    shared_bytes,
    tiles_of,
)
from halocline_engine.backends.cuda.kernels.column_chunks.tile import CHUNKS
from halocline_engine.backends.cuda.kernels.columns.kind import COLUMNS
from halocline_engine.backends.cuda.kernels.columns.placement import ALL, column_bytes, placement_of
from halocline_engine.backends.cuda.kernels.levelwise.kind import LEVELWISE
from halocline_engine.backends.cuda.kernels.levelwise.tile import SHAPES
from halocline_engine.backends.cuda.kernels.points.kind import POINTS
from halocline_engine.backends.cuda.kernels.points.section import loaded_offsets
from halocline_engine.backends.cuda.kernels.points.tile import registers_of
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Stride,
    Variant,
    arrays_of,
    entries_of,
)
from halocline_engine.backends.cuda.model.intervals import level_range
from halocline_engine.backends.cuda.model.staged import between
from halocline_engine.backends.cuda.model.tile import Domain, Tile, tile_words
from halocline_engine.backends.targets import DEVICE_TARGET, TARGETS
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import reads
from halocline_engine.schedule.nodes import Schedule, Section
from halocline_engine.schedule.options import Temporaries
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.tune import Candidate
from halocline_engine.schedule.tune_cost import Chip, Work, estimate

__all__ = ["candidates", "counts_levels"]

_BLOCKS = ((32, 4), (32, 8), (64, 2), (64, 4), (128, 1), (128, 2))
_COLUMN_BLOCKS = (32, 64, 96, 128, 192, 256)
_LEVELWISE_BLOCKS = (128, 256, 512)
_ROWS = (1, 2, 3, 4)
_AHEAD = (0, 2, 4, 6, 8, 10)
#: Blocks along J of a strip in column order, where the usual way has none.
_STRIP = 8
#: Registers of a thread beside those that hold what is loaded and stored.
_OTHERS = 40
_MOST_REGISTERS = 168
#: A thread waits for loads of so many levels, whatever it asks for early.
_COUNTERS = 8
#: Other storage of temporaries, from the one that is most often good.
_HOMES: tuple[Temporaries, ...] = ("recompute", "shared", "field", "block")


@dataclass(frozen=True, slots=True)
class _Case:
    """A program and a kind of call."""

    schedule: Schedule
    variant: Variant
    domain: Domain
    chip: Chip
    usual: Mapping[str, Tile]
    held: dict[tuple[str, Tile], int] = field(default_factory=dict[tuple[str, Tile], int])

    def registers(self, entry: Entry, tile: Tile) -> int:
        """Return the registers of a thread's windows, if it has any: the same in any block."""
        if kernel_kind(entry, tile) not in (POINTS, LEVELWISE):
            return 0
        key = (entry.name, replace(tile, block=(1, 1)))
        if key not in self.held:
            self.held[key] = registers_of(entry, self.schedule, self.variant, tile)
        return self.held[key]

    def allowed(self, entry: Entry, tile: Tile) -> Tile:
        """Return what a kernel makes of a tile that is chosen for it."""
        chosen = Choice(tuple({**self.usual, entry.name: tile}.items()))
        return tiles_of(self.schedule, self.variant, self.domain, chosen.tile_for)[entry.name]


def candidates(
    schedule: Schedule, variant: Variant, domain: Domain, chip: Chip
) -> tuple[Candidate, ...]:
    """Return ways to run a schedule on arrays as `variant` says; the first is the usual one."""
    usual = tiles_of(schedule, variant, domain)
    case = _Case(schedule, variant, domain, chip, usual)
    costs = {entry.name: _cost(entry, usual[entry.name], case) for entry in entries_of(schedule)}
    total = sum(costs.values())
    found = [Candidate("as usual", choice_text(Choice()), total)]
    for entry in entries_of(schedule):
        own = usual[entry.name]
        for tile in _alternatives(entry, own, case):
            cost = sum({**costs, entry.name: _cost(entry, tile, case)}.values())
            choice = choice_text(Choice(((entry.name, tile),)))
            family = replace(tile, block=(1, 1), planes=min(1, tile.planes))
            label = f"{entry.name}: {tile_words(tile)}"
            found.append(Candidate(label, choice, cost, entry.name, repr(family)))
    found += _elsewhere(case, total)
    return tuple(found)


def counts_levels(schedule: Schedule, variant: Variant) -> bool:
    """Whether code and shared memory of a kernel may depend on the number of levels."""
    along = any(kind[2] is Stride.ONE for kind in variant.kinds)
    kernels = [entry.kernel for entry in entries_of(schedule)]
    return along or any(one.is_general or one.order is not Order.PARALLEL for one in kernels)


def _alternatives(entry: Entry, usual: Tile, case: _Case) -> Iterator[Tile]:
    """Yield tiles that a kernel can have besides the usual one."""
    if kernel_kind(entry, usual) is COLUMNS:
        drawn = _columns(usual, own=column_bytes(entry.kernel, case.schedule, usual.levels))
    elif usual.chunk:
        drawn = (replace(usual, chunk=chunk, blocks=0) for chunk in CHUNKS)
    elif usual.levelwise:
        drawn = _levelwise(usual)
    else:
        drawn = _along(usual) if usual.along or usual.share else _points(usual)
    most = max(_MOST_REGISTERS, case.registers(entry, usual))
    for tile in dict.fromkeys(case.allowed(entry, tile) for tile in dict.fromkeys(drawn)):
        if tile != usual and case.registers(entry, tile) <= most:
            yield tile


def _points(usual: Tile) -> Iterator[Tile]:
    """Yield every block with every number of rows, and a few changes of the rest."""
    rest = [usual]
    if usual.width > 1:
        rest.append(replace(usual, width=1))
    if usual.depth > 1:
        rest += [replace(usual, depth=usual.depth * 2), replace(usual, depth=usual.depth // 2)]
        rest += [replace(usual, planes=n) for n in (0, 3)]
        strips = (0, usual.strip * 2, usual.strip // 2) if usual.strip else (_STRIP,)
        rest += [replace(usual, strip=n) for n in strips]
    if usual.column:
        rest += [replace(usual, column=n) for n in (0, usual.column * 2, usual.column // 2)]
    for tile in rest:
        for rows in _ROWS:
            for block in (usual.block, *_BLOCKS):
                yield replace(tile, block=block, rows=rows)


def _levelwise(usual: Tile) -> Iterator[Tile]:
    """Yield blocks and columns of threads that have a level each."""
    for width, rows in ((usual.width, usual.rows), (1, 1), *SHAPES):
        for threads in _LEVELWISE_BLOCKS:
            yield replace(usual, block=(threads, 1), width=width, rows=rows)


def _along(usual: Tile) -> Iterator[Tile]:
    """Yield other numbers of columns of a thread and of a block, and other ways to share values.

    Where threads sweep up columns, other heights and blocks.
    """
    for tile in (usual, *(replace(usual, share=n) for n in range(4) if n != usual.share)):
        for rows in (usual.rows, 8, 6, 4, 3, 2, 1):
            for columns in (usual.block[1], 2 * usual.block[1], -(-usual.block[1] // 2)):
                yield replace(tile, block=(usual.block[0], columns), rows=rows)
    if not usual.along:
        for depth in (usual.depth * 2, -(-usual.depth // 2)):
            yield replace(usual, depth=depth)


def _columns(usual: Tile, own: int) -> Iterator[Tile]:
    """Yield other widths of blocks, fewer levels ahead, and the other home of temporaries."""
    for on_chip in (usual.on_chip, 0 if usual.on_chip else own)[: 2 if own else 1]:
        for ahead in _AHEAD:
            for threads in _COLUMN_BLOCKS:
                if ahead <= usual.ahead:
                    block = (threads // usual.block[1], usual.block[1])
                    yield replace(usual, block=block, ahead=ahead, on_chip=on_chip)


def _elsewhere(case: _Case, total: float) -> Iterator[Candidate]:
    """Yield other storage of temporaries, if the schedule at hand is the usual one."""
    program, facts, target = case.schedule.program, case.schedule.facts, TARGETS[DEVICE_TARGET]
    if not program.temporaries or plan(program, facts, target.options()) != case.schedule:
        return
    known = [case.schedule]
    for order, home in enumerate(_HOMES):
        schedule = plan(program, facts, target.options(home))
        if schedule not in known:
            known.append(schedule)
            moved = sum(b.dtype.itemsize for b in between(schedule)) + 1
            choice = choice_text(Choice((), home))
            cost = total * (1 + moved / 64 + order / 1000)
            yield Candidate(f"temporaries: {home}", choice, cost, "temporaries", home)


def _cost(entry: Entry, tile: Tile, case: _Case) -> float:
    """Return the seconds that the model expects of a kernel."""
    spans = [level_range(s.interval, case.domain[2]) for s in entry.kernel.sections]
    levels = (min(low for low, _ in spans), max(high for _, high in spans))
    grids = [launch.grid for launch in launches(entry, case.domain, tile, levels)]
    blocks = sum(x * y * z for x, y, z in grids)
    if not blocks:
        return 0.0
    work = _columns_work if kernel_kind(entry, tile) is COLUMNS else _points_work
    return estimate(work(entry, tile, case, blocks), case.chip)


def _points_work(entry: Entry, tile: Tile, case: _Case, blocks: int) -> Work:
    sizes = {name: dtype.itemsize for name, dtype in arrays_of(case.schedule)}
    level = max(_loaded(section, entry, tile, sizes) for section in entry.kernel.sections)
    depth = 1 if tile.along else tile.depth
    fresh = tile.width * tile.rows * _read(entry, sizes)
    lanes = blocks * tile.threads * tile.width * tile.rows * depth
    return Work(
        blocks=blocks,
        threads=tile.threads,
        registers=min(255, _OTHERS + case.registers(entry, tile)),
        shared=shared_bytes(entry, case.schedule, case.variant, tile, case.domain),
        under_way=fresh * (2 if depth > 1 and tile.planes else 1),
        loaded=level * depth,
        moved=float(lanes) * sum(sizes[name] for name in entry.arrays),
    )


def _columns_work(entry: Entry, tile: Tile, case: _Case, blocks: int) -> Work:
    alone = Tile((1, 1), on_chip=ALL, levels=tile.levels)
    own = placement_of(entry.kernel, case.schedule, alone).names
    sizes = {n: d.itemsize for n, d in arrays_of(case.schedule) if n not in own}
    level = _read(entry, sizes)
    spilt = sum(s.dtype.itemsize for s in placement_of(entry.kernel, case.schedule, tile).block)
    touched = sum(sizes.get(name, 0) for name in entry.arrays) + 2 * spilt
    return Work(
        blocks=blocks,
        threads=tile.threads,
        registers=min(255, _OTHERS + 2 * tile.ahead * level // 4),
        shared=shared_bytes(entry, case.schedule, case.variant, tile, case.domain),
        under_way=level * max(1, min(tile.ahead, _COUNTERS)),
        loaded=level * case.domain[2],
        moved=float(blocks * tile.threads * case.domain[2] * touched),
    )


def _read(entry: Entry, sizes: Mapping[str, int]) -> int:
    """Return the bytes of one element of each array that a kernel reads."""
    names = {read.name for section in entry.kernel.sections for read in reads(section.body)}
    return sum(size for name, size in sizes.items() if name in names)


def _loaded(section: Section, entry: Entry, tile: Tile, sizes: Mapping[str, int]) -> int:
    """Return the bytes that a thread loads for a level of its tile."""
    total = 0
    for name, offsets in loaded_offsets(section, entry).items():
        places = {
            (i + e, j + r, 0 if tile.depth > 1 else k)
            for i, j, k in offsets
            for e in range(tile.width)
            for r in range(tile.rows)
        }
        total += len(places) * sizes.get(name, 0)
    return total
