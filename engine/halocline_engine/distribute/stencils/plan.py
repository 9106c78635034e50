"""Plan of a run: block sizes from memory, steps per pass from a cost model, chunks.

Blocks are halved along the dimension that makes all blocks together fetch the least from the store;
where that is equal, along dimensions that the program does not use (no halo is lost there), then
along the slowest of I and J, so that what a block reads stays in long runs. K is never split. A
block is a multiple of the source's chunks where they are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.distribute.grid.boundary import Lines, local
from halocline_engine.distribute.grid.geometry import Layout
from halocline_engine.distribute.grid.partition import Block, block_count, partition
from halocline_engine.distribute.jobs.blocking import LARGE_TASK
from halocline_engine.distribute.stencils.demand import Demand, Supply
from halocline_engine.distribute.stencils.memory import Cost, cost_of, sample_blocks
from halocline_engine.distribute.stencils.order import Order
from halocline_engine.distribute.stencils.pace import PROGRESS, Pace
from halocline_engine.distribute.stencils.visit import VisitPlan, visit
from halocline_engine.distribute.transports.base import staging_bytes
from halocline_engine.errors import CapacityError

__all__ = [
    "PASS_CHUNK",
    "RESULT_CHUNK",
    "Plan",
    "chunks_for",
    "make_plan",
    "shown_bytes",
]

#: Bytes of a chunk of the result, and of one between two passes, at most.
RESULT_CHUNK = 16 << 20
PASS_CHUNK = 2 << 20
# Runs of blocks for each worker: enough that none waits long for the last one.
_RUNS = 4
# The geometry of a block is a list over the steps of a pass; beyond this, a pass costs little.
_DEEPEST = 512
# The same for a block of all cells, whose list has the same ones again and again.
_DEEPEST_ALONE = 65536
_PATIENCE = 1.5


@dataclass(frozen=True, slots=True)
class Plan:
    """A job cut up. `projected` are the bytes that all processes together need at once.

    `blocks` follow each other in the order `order`. `cache` are the bytes of decoded chunks that a
    process keeps; with them `predicted_fetches` chunks are fetched in all passes, or None where
    there are too many to predict, or where any worker may get any block. `chunks` is how many the
    source of the first pass has. `slots` is how many blocks overlap on their way through a device,
    0 where each is computed by itself; they go to workers in so many `runs`. `direct_io` says that
    there is room on the device for what goes between it and plain files; chunks of the codecs
    `device_decoding` are decoded there.
    """

    layout: Layout
    block: tuple[int, int, int]
    extra_block: tuple[int, ...]
    blocks: tuple[Block, ...]
    steps_per_pass: int
    passes: int
    projected: int
    order: Order = Order()  # noqa: RUF009 - frozen
    cache: int = 0
    chunks: int = 0
    predicted_fetches: int | None = 0
    slots: int = 0
    runs: int = 1
    direct_io: bool = False
    device_decoding: tuple[str, ...] = ()

    def block_of(self, dim: str) -> int:
        """Return the size of a block along a dimension."""
        grid = self.layout.grid
        axis = grid.axis_of(dim)
        return self.extra_block[grid.extra.index(dim)] if axis is None else self.block[axis]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A way to cut: what one of its largest blocks costs."""

    layout: Layout
    block: tuple[int, int, int]
    extra: tuple[int, ...]
    count: int
    cost: Cost


def make_plan(demand: Demand, supply: Supply) -> Plan:
    """Return the cheapest plan that fits; raises `CapacityError` with numbers where none does."""
    steps, cut = _cheapest(demand, supply)
    grid = cut.layout.grid
    plan = Plan(
        layout=cut.layout,
        block=cut.block,
        extra_block=cut.extra,
        blocks=partition(grid.cut_sizes, grid.extra_sizes, cut.block, cut.extra, grid.sizes),
        steps_per_pass=steps,
        passes=demand.passes_of(steps),
        slots=demand.slots if cut.count > 1 else 0,
        runs=min(cut.count, _RUNS * supply.workers) if supply.remote else 1,
        direct_io=supply.direct_io and demand.slots > 0,
        projected=min(supply.workers, cut.count)
        * sum(_process_bytes(cut.cost, supply, cut.count, demand.slots)),
    )
    return _ordered(plan, demand, supply, cut)


def _ordered(plan: Plan, demand: Demand, supply: Supply, cut: _Cut) -> Plan:
    """Return the plan with its blocks in order, and the cache that the order needs."""
    layouts = [plan.layout if demand.stored else _without_chunks(plan.layout)]
    if plan.passes > 1:
        layouts.append(_between(plan, demand))
    visiting = VisitPlan(
        tuple(layouts),
        plan.blocks,
        demand.steps,
        plan.steps_per_pass,
        _parts(plan, supply),
        supply.threads,
        carried=plan.slots > 0,
    )
    host, device = _process_bytes(cut.cost, supply, cut.count, demand.slots)
    free, each = supply.memory - host, 1
    if supply.device_decoding and supply.device is not None:
        # A device keeps files beside their chunks, and the host may have to decode after all.
        free, each = min(free, (supply.device - device) // 2), 3
    found = visit(visiting, demand.order, demand.cache, free)
    return replace(
        plan,
        blocks=found.blocks,
        order=found.order,
        cache=found.cache,
        chunks=found.chunks,
        predicted_fetches=found.fetches,
        projected=plan.projected + min(supply.workers, len(plan.blocks)) * each * found.cache,
    )


def _parts(plan: Plan, supply: Supply) -> int | None:
    """Return how many parts with a cache each the blocks are visited in; see `VisitPlan`."""
    if plan.slots:
        return plan.runs
    return 1 if supply.workers == 1 else None


def _between(plan: Plan, demand: Demand) -> Layout:
    """Return the layout as later passes read it: what is kept is in new stores, or in memory."""
    layout = plan.layout if demand.stored else _without_chunks(plan.layout)
    uses = [
        replace(use, chunks=() if demand.in_memory else _pass_chunks(plan, use))
        if use.kept
        else use
        for use in layout.uses
    ]
    return replace(layout, uses=tuple(uses))


def _pass_chunks(plan: Plan, use: FieldUse) -> tuple[int, ...]:
    return tuple(chunks_for(plan, use, PASS_CHUNK).values())


def _without_chunks(layout: Layout) -> Layout:
    return replace(layout, uses=tuple(replace(use, chunks=()) for use in layout.uses))


def _cheapest(demand: Demand, supply: Supply) -> tuple[int, _Cut]:
    """Return how many steps a pass makes and how it is cut.

    More steps need more memory and, from some point on, only more time: then the search ends. They
    need neither where one block has all cells.
    """
    best: tuple[float, int, _Cut] | None = None
    alone = _alone(demand, supply)
    if alone is not None:
        return alone
    for steps in _candidates(demand):
        try:
            cut = _cut(demand, supply, steps)
        except CapacityError:
            if best is None:
                raise
            break
        seconds = _seconds(demand, supply, cut, steps)
        if best is not None and seconds > _PATIENCE * best[0]:
            break
        if best is None or (_is_shown(demand, cut, steps) and seconds < best[0]):
            best = (seconds, steps, cut)
    assert best is not None
    return best[1], best[2]


def _alone(demand: Demand, supply: Supply) -> tuple[int, _Cut] | None:
    """Return how many steps a pass makes where one block has all cells, if there is one."""
    if demand.steps_per_pass is not None or supply.workers > 1:
        return None
    cut = _cut(demand, supply, 1)
    if cut.count > 1:
        return None
    steps = min(_pace(demand).steps_alone(cut.cost, demand.longest), _DEEPEST_ALONE)
    cut = _cut(demand, supply, steps)
    return (steps, cut) if cut.count == 1 else None


def chunks_for(plan: Plan, use: FieldUse, most: int) -> dict[str, int]:
    """Return chunk sizes of at most about `most` bytes such that no chunk lies in two blocks."""
    grid = plan.layout.grid
    chunks = {dim: min(plan.block_of(dim), grid.size_of(dim)) for dim in use.dims}
    itemsize = np.dtype(use.dtype).itemsize
    for dim in use.dims:
        while math.prod(chunks.values()) * itemsize > most and chunks[dim] > 1:
            free = plan.block_of(dim) >= grid.size_of(dim)
            smaller = -(-chunks[dim] // 2) if free else _largest_divisor(chunks[dim])
            chunks[dim] = smaller
    return chunks


def _largest_divisor(number: int) -> int:
    """Return the largest proper divisor.

    >>> _largest_divisor(12), _largest_divisor(7)
    (6, 1)
    """
    return next(number // p for p in range(2, number + 1) if number % p == 0)


def _candidates(demand: Demand) -> Iterator[int]:
    if demand.steps_per_pass is not None:
        yield min(demand.steps_per_pass, demand.longest)
        return
    most = min(demand.longest, _DEEPEST)
    steps = 1
    while steps < most:
        yield steps
        steps = max(steps + 1, steps * 3 // 2)
    yield most


def _is_shown(demand: Demand, cut: _Cut, steps: int) -> bool:
    """Whether there are enough blocks to show progress, or none takes long without."""
    if steps == 1 or demand.steps_per_pass is not None:
        return True
    pace = _pace(demand)
    enough = steps * PROGRESS <= demand.steps * cut.count
    return enough or pace.computing(cut.cost) <= pace.unseen(cut.cost)


def _seconds(demand: Demand, supply: Supply, cut: _Cut, steps: int) -> float:
    """Return an estimate of the time of all passes; only its order matters."""
    rounds = -(-cut.count // supply.workers)
    return _pace(demand).seconds(cut.cost, rounds, demand.passes_of(steps))


def _pace(demand: Demand) -> Pace:
    fields = len(demand.layout.uses) + len(demand.temporaries)
    return Pace(demand.target, demand.in_memory, fields)


def _cut(demand: Demand, supply: Supply, steps: int) -> _Cut:
    """Return the largest blocks that fit and keep all workers busy."""
    grid = demand.layout.grid
    sizes = {dim: _wished(dim, demand, grid) for dim in (*grid.dims, *grid.extra) if dim}
    free = [dim for dim in _split_order(demand.layout) if dim not in demand.block]
    # What a pipeline reads stays in long runs: sizes that were asked for are cut no further.
    enough = not free or bool(demand.slots and demand.block)
    while True:
        cut = _measure(demand, sizes, steps)
        fits = _fits(cut, supply, demand.slots)
        busy = cut.count >= supply.workers or cut.cost.cell_steps * 8 < LARGE_TASK // 16
        if fits and (enough or (busy and cut.cost.read + cut.cost.written <= LARGE_TASK)):
            return cut
        smaller = _split(demand, sizes, free, steps, force=not fits)
        if smaller is None:
            if fits:
                return cut
            raise _too_big(cut, supply, demand.slots)
        sizes = smaller


def _wished(dim: str, demand: Demand, grid: Grid) -> int:
    # Through a pipeline points go one by one, so that neighbours follow each other there.
    axis = grid.axis_of(dim)
    size = grid.size_of(dim) if axis is None else grid.sizes[axis]
    most = 1 if demand.slots and dim in grid.extra else size
    return min(demand.block.get(dim, most), size)


def _split_order(layout: Layout) -> list[str]:
    """Return the dimensions that may be split: others, then those of I and J, slowest first."""
    first = 1 if layout.named else 0
    horizontal = [dim for dim in layout.grid.dims[first:2] if dim is not None]
    model = max(layout.uses, key=lambda use: len(use.dims))
    ordered = sorted(
        horizontal, key=lambda dim: model.dims.index(dim) if dim in model.dims else len(model.dims)
    )
    return [*layout.grid.extra, *ordered]


def _split(
    demand: Demand, sizes: Mapping[str, int], free: list[str], steps: int, *, force: bool
) -> dict[str, int] | None:
    """Return the sizes with one of them about halved, or None where nothing can be split.

    Blocks stay wider than their halo, unless `force` says that there is no other way.
    """
    for small in (False, True) if force else (False,):
        options: list[tuple[int, dict[str, int]]] = []
        for dim in free:
            half = -(-sizes[dim] // 2)
            chunk = _chunk_along(dim, demand.layout)
            if half > chunk:
                half = -(-half // chunk) * chunk
            if half < sizes[dim] and (small or half >= _least(dim, demand.layout, steps)):
                smaller = {**sizes, dim: half}
                cut = _measure(demand, smaller, steps)
                options.append((cut.cost.fetched * cut.count, smaller))
        if options:
            return min(options, key=lambda option: option[0])[1]
    return None


def _least(dim: str, layout: Layout, steps: int) -> int:
    """Return the block size below which more halo than block would be computed."""
    axis = layout.grid.axis_of(dim)
    if axis is None:
        return 1
    low, high = layout.reach[axis]
    return max(1, 2 * steps * (high - low))


def _chunk_along(dim: str, layout: Layout) -> int:
    chunks = [
        use.chunks[use.dims.index(dim)] for use in layout.uses if use.chunks and dim in use.dims
    ]
    return max(chunks, default=1)


def _measure(demand: Demand, sizes: Mapping[str, int], steps: int) -> _Cut:
    grid = demand.layout.grid
    i, j, k = (1 if dim is None else sizes[dim] for dim in grid.dims)
    extra = tuple(sizes[dim] for dim in grid.extra)
    layout = replace(
        demand.layout, lines=tuple(_seen(lines, (i, j, k)) for lines in demand.layout.lines)
    )
    count = block_count((*grid.cut_sizes, *grid.extra_sizes), (i, j, k, *extra))
    sample = sample_blocks(grid, (i, j, k), extra)
    arrays = 0 if TARGETS[demand.target].compiles else 4
    costs = [cost_of(layout, block, steps, demand.temporaries, arrays) for block in sample]
    cost = max(costs, key=lambda item: item.host + item.target)
    return _Cut(layout, (i, j, k), extra, count, cost)


def _seen(lines: Lines, block: tuple[int, int, int]) -> Lines:
    i, j, k = (local(line, size) for line, size in zip(lines, block, strict=True))
    return i, j, k


def _process_bytes(cost: Cost, supply: Supply, count: int, slots: int) -> tuple[int, int]:
    """Return the bytes of one process, and those of its device where that is another memory."""
    if slots:
        # Buffers to send from and to write from, the chunk in work, arrays, what blocks hand on.
        at_hand = slots * (cost.read + cost.written) + cost.host - cost.read - cost.written
        there = slots * cost.frames + cost.target - cost.frames + cost.read
        if supply.direct_io:
            at_hand += supply.buffers
            there += slots * staging_bytes(cost.read + cost.written)
        there += slots * cost.read + supply.device_decoding if supply.device_decoding else 0
        return (at_hand + there, 0) if supply.device is None else (at_hand, there)
    at_hand = min(supply.threads, count) * cost.host
    return (at_hand + cost.target, 0) if supply.device is None else (at_hand, cost.target)


def _fits(cut: _Cut, supply: Supply, slots: int) -> bool:
    host, device = _process_bytes(cut.cost, supply, cut.count, slots)
    return host <= supply.memory and (supply.device is None or device <= supply.device)


def _too_big(cut: _Cut, supply: Supply, slots: int) -> CapacityError:
    host, device = _process_bytes(cut.cost, supply, cut.count, slots)
    needed, available, place = host, supply.memory, "of a worker's memory"
    if supply.device is not None and host <= supply.memory:
        needed, available, place = device, supply.device, "of a device's memory"
    return CapacityError(
        f"The smallest block needs {shown_bytes(needed)} {place}, but only"
        f" {shown_bytes(available)} are free.",
        hint="Give smaller 'chunks', fewer steps at once, or workers with more memory.",
        needed=needed,
        available=available,
    )


def shown_bytes(count: int) -> str:
    """Return bytes for a person.

    >>> shown_bytes(3_500_000)
    '3.5 MB'
    """
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
