"""Cost model for tiles of kernels whose threads lie along K: levels and columns of a block.

A block has whole columns side by side, or a part of one where columns are long. Each thread has
several columns, so that it has many loads under way before the first barrier; and places in shared
memory for all of them, which must leave room for other blocks that compute meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Kind,
    Stride,
    Variant,
    arrays_of,
    lies_along_k,
)
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.levels.exchange import Form, LevelPlan, plan_levels
from halocline_engine.schedule.nodes import Schedule

__all__ = ["levels_fitted", "levels_tile", "parts_of", "plan_of", "shared_bytes", "shared_offsets"]

#: What `Tile.share` stands for.
_FORMS = (Form.DIRECT, Form.NODES, Form.STAGING)
#: Shared memory that a block can have on every device of compute capability 8.0 or more, and how
#: much it takes so that on a large one others compute while it waits.
_CHIP = 99 * 1024
_ROOM = 56 * 1024
#: Threads of a block for short columns, the most and about the fewest for a part of a long one,
#: and the most there can be.
_THREADS = 256
_MOST = 256
_FEWEST = 96
_MOST_THREADS = 1024
_LARGE = 2500
#: Bytes that a thread has under way, and registers of 4 bytes that loads and values may have.
_UNDER_WAY = 96
_REGISTERS = 96
_ROWS = (8, 6, 4, 3, 2, 1)
#: How many times as many columns as there are may have threads.
_SPARE = 1.2
#: Values that are written out.
_TEXT = 3000
#: Blocks that keep a large device busy.
_BUSY = 132 * 4


def levels_tile(
    entry: Entry,
    schedule: Schedule,
    variant: Variant,
    domain: Domain,
    form: Form = Form.NODES,
    rows: int = 0,
    threads: int = 0,
) -> Tile | None:
    """Return the tile of a kernel whose threads lie along K, or None where they should not.

    That is where arrays do not, for the most part of their bytes, or where the kernel does more
    than assign what it reads elsewhere. What `form` has no room for is not shared. With `rows`, a
    thread has so many columns; with `threads`, a block has about so many threads.
    """
    if not _is_along(entry, schedule, variant):
        return None
    for kind in dict.fromkeys((form, Form.STAGING, Form.DIRECT)):
        plan = _plan(entry, schedule, variant, domain[2], kind)
        if plan is None or plan.own[1] - plan.own[0] < 2:
            return None
        for number in (rows,) if rows else _ROWS:
            tile = _tile(plan, kind, _axis(variant, domain), domain, number, threads)
            found = levels_fitted(tile, entry, schedule, variant, domain)
            if found is not None and (number == (rows or 1) or _pays(plan, found, domain)):
                return found
    return None


def levels_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile with as many threads as its levels need, or None where it cannot be."""
    if not _is_along(entry, schedule, variant) or not 0 <= tile.share < len(_FORMS):
        return None
    plan = _plan(entry, schedule, variant, domain[2], _FORMS[tile.share])
    if plan is None:
        return None
    whole = parts_of(plan, tile) == 1
    span = _length(plan.levels) if whole else tile.depth + _length(plan.window)
    made = Tile(
        (span, tile.block[1]),
        rows=tile.rows,
        depth=tile.depth,
        along=tile.along,
        share=tile.share,
        levels=domain[2],
    )
    fits = made.threads <= _MOST_THREADS and shared_offsets(plan, made)[-1] <= _CHIP
    return made if fits else None


def parts_of(plan: LevelPlan, tile: Tile) -> int:
    """Return how many blocks a column has."""
    return -(-_length(plan.own) // tile.depth)


def plan_of(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> LevelPlan | None:
    """Return what the threads of a kernel do under a tile."""
    return _plan(entry, schedule, variant, tile.levels, _FORMS[tile.share])


def shared_offsets(plan: LevelPlan, tile: Tile) -> tuple[int, ...]:
    """Return where each place begins in shared memory, in bytes, and where the last one ends."""
    starts = [0]
    for size in plan.slots:
        whole = size * tile.threads * tile.rows
        starts.append(starts[-1] + -(-whole // 16) * 16)
    return tuple(starts)


def shared_bytes(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return the bytes of dynamic shared memory of a block of a kernel."""
    plan = plan_of(entry, schedule, variant, tile)
    return 0 if plan is None else shared_offsets(plan, tile)[-1]


def _is_along(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Return whether the arrays of a kernel lie along K, and its threads can."""
    if not entry.is_plain or not variant.disjoint:
        return False
    kinds = _kinds(schedule, variant)
    if any(Stride.NONE in kinds[name] for name in entry.written):
        return False
    return lies_along_k(entry, schedule, variant)


def _plan(
    entry: Entry, schedule: Schedule, variant: Variant, levels: int, form: Form
) -> LevelPlan | None:
    flat = {f.name for f in schedule.program.fields if Axis.K not in f.axes}
    kinds = _kinds(schedule, variant)
    narrow = {n for n in entry.arrays if kinds[n][:2] == (Stride.NONE, Stride.NONE)}
    return plan_levels(entry.kernel, levels, form, flat, narrow)


def _kinds(schedule: Schedule, variant: Variant) -> dict[str, Kind]:
    names = (name for name, _ in arrays_of(schedule))
    return {name: variant.kinds[number] for name, number in zip(names, variant.arrays, strict=True)}


def _axis(variant: Variant, domain: Domain) -> int:
    """Return the axis, 0 for I or 1 for J, along which neighbouring columns lie."""
    return variant.near if min(domain[:2]) > 1 else int(domain[1] > domain[0])


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _tile(plan: LevelPlan, form: Form, axis: int, domain: Domain, rows: int, threads: int) -> Tile:
    own, around = _length(plan.own), _length(plan.window)
    parts = _parts(plan) if not threads else -(-own // max(1, threads - around))
    depth = -(-own // parts)
    span = _length(plan.levels) if parts == 1 else depth + around
    columns = max(1, min((threads or _THREADS) // span, -(-domain[axis] // rows)))
    share = _FORMS.index(form)
    return Tile((span, columns), rows=rows, depth=depth, along=axis + 1, share=share)


def _parts(plan: LevelPlan) -> int:
    """Return in how many parts a column has fewest threads, those that only fill a warp included.

    Small blocks are better: less of a processor waits at a barrier.
    """
    own, around = _length(plan.own), _length(plan.window)
    best, least = 1, float("inf")
    for parts in range(1, own + 1):
        span = _length(plan.levels) if parts == 1 else -(-own // parts) + around
        threads = -(-span // 32) * 32
        cost = threads * parts * (1 + threads / _LARGE)
        if threads <= _MOST and cost < least:
            best, least = parts, cost
        if threads <= _FEWEST:
            break
    return best


def _pays(plan: LevelPlan, tile: Tile, domain: Domain) -> bool:
    """Return whether a tile is not larger than what keeps memory busy, and wastes little."""
    sizes = list(_loaded(plan))
    near, far = domain[tile.along - 1], domain[2 - tile.along]
    wide = tile.block[1] * tile.rows
    groups = -(-near // wide)
    blocks = groups * far * parts_of(plan, tile)
    words = -(-(sum(size for size, _ in sizes) + sum(plan.slots)) // 4)
    early = sum(size for size, is_early in sizes if is_early)
    return (
        (tile.rows - 1) * early < _UNDER_WAY
        and tile.rows * words <= _REGISTERS
        and tile.rows * len(plan.terms) <= _TEXT
        and shared_offsets(plan, tile)[-1] <= _ROOM
        and groups * wide <= _SPARE * near
        and blocks >= _BUSY
    )


def _loaded(plan: LevelPlan) -> Iterator[tuple[int, bool]]:
    """Yield the bytes of each load of a column, and whether it is early."""
    for load in plan.loads:
        term = plan.terms[load.term]
        if term.wide:
            yield term.node.dtype.itemsize, load.early
