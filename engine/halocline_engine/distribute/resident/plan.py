"""Cuts of a dataset for ranks that keep their blocks, and the interval of halo exchanges.

A cost model weighs what deep halos compute twice against the exchanges that they save.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.times.forcing import records_at_once
from halocline_engine.distribute.exchanges.transport import (
    NO_TRANSPORT,
    Transport,
    transport_of,
)
from halocline_engine.distribute.grid.exchange import deepest_wrap, exchange, sent_cells
from halocline_engine.distribute.grid.geometry import Layout, geometry
from halocline_engine.distribute.grid.partition import Block, Box, partition, shares
from halocline_engine.distribute.resident.fusing import may_fuse
from halocline_engine.distribute.resident.overlap import WORTH
from halocline_engine.distribute.stencils.demand import Demand, Supply
from halocline_engine.distribute.stencils.memory import Cost, cost_of, sample_blocks
from halocline_engine.distribute.stencils.pace import Pace
from halocline_engine.distribute.stencils.plan import Plan

__all__ = ["Choice", "ResidentPlan", "plan_resident"]

#: Points along I are neighbours in memory, so that cells along a cut of I are packed one by one.
_STRIDED = 4
#: Steps between two exchanges, at most.
_DEEPEST = 64
#: Steps that are made at once, at most, and the least block for each, in reaches.
_FUSED = 12
_THIN = 16
_DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, _DEEPEST)


@dataclass(frozen=True, slots=True)
class ResidentPlan:
    """A job cut up for ranks: `plan.steps_per_pass` is how many steps there are between exchanges.

    `ranks` are the blocks of each rank. `host` and `device` are the bytes that a rank takes, on its
    device 0 where the target computes in the memory of the process. `sent` are the cells that all
    blocks send in an exchange. Where steps can be made at once, there may be up to `deepest`.
    """

    plan: Plan
    deepest: int
    ranks: tuple[tuple[Block, ...], ...]
    host: int
    device: int
    sent: int

    def fits(self, supply: Supply) -> bool:
        """Whether there is enough memory."""
        return self.host <= supply.memory and self.device <= (supply.device or 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """Mode of a job and its reason; `resident` is its plan where blocks stay in memory.

    Its inputs and results lie `on_device` before and afterwards.
    """

    reason: str
    resident: ResidentPlan | None = None
    on_device: bool = False

    @property
    def mode(self) -> str:
        """The name of the mode."""
        return "streamed" if self.resident is None else "resident"


@dataclass(frozen=True, slots=True)
class _Cut:
    """A way to cut the grid for so many ranks."""

    block: tuple[int, int, int]
    extra: tuple[int, ...]
    ranks: int


def plan_resident(demand: Demand, supply: Supply) -> ResidentPlan:
    """Return the fastest way to keep all blocks, by the model, of those that fit the memory.

    If none fits, the one that needs least.
    """
    best: tuple[bool, float, ResidentPlan] | None = None
    for cut in _cuts(demand, supply.workers):
        patience = math.inf
        for steps in _depths(demand):
            found = _measured(demand, supply, cut, steps)
            if found is None:
                break
            seconds, plan = found
            fits = plan.fits(supply)
            rank = seconds if fits else float(plan.host + plan.device)
            if best is None or (not fits, rank) < best[:2]:
                best = (not fits, rank, plan)
            if seconds > patience or len(plan.ranks) == 1:
                break
            patience = seconds
    assert best is not None, "a block that exchanges halos after each step is always possible"
    return best[2]


def _cuts(demand: Demand, workers: int) -> Iterator[_Cut]:
    """Yield ways to cut, for all workers, and for one."""
    grid = demand.layout.grid
    extra = (1,) * len(grid.extra)
    points = math.prod(grid.extra_sizes)
    if demand.block:
        i, j, k = (
            size if dim is None else min(size, demand.block.get(dim, size))
            for dim, size in zip(grid.dims, grid.sizes, strict=True)
        )
        yield _Cut((i, j, k), extra, workers)
        return
    for ranks in sorted({workers, 1}, reverse=True):
        parts = max(1, -(-ranks // points))
        for along_i in range(1, parts + 1):
            if parts % along_i or (along_i > 1 and demand.layout.named):
                continue
            i, j = (
                -(-size // count)
                for size, count in zip(grid.cut_sizes[:2], (along_i, parts // along_i), strict=True)
            )
            yield _Cut((i, j, grid.sizes[2]), extra, ranks)


def _depths(demand: Demand) -> Sequence[int]:
    if demand.steps_per_pass is not None:
        return (min(demand.steps_per_pass, demand.longest),)
    return [steps for steps in _DEPTHS if steps <= demand.longest]


def _measured(
    demand: Demand, supply: Supply, cut: _Cut, steps: int
) -> tuple[float, ResidentPlan] | None:
    """Return a plan and the seconds of a step, by the model."""
    layout = demand.layout
    grid = layout.grid
    blocks = partition(grid.cut_sizes, grid.extra_sizes, cut.block, cut.extra, grid.sizes)
    wraps = deepest_wrap(layout, blocks)
    if wraps is not None and steps > max(1, wraps):
        if demand.steps_per_pass is None:
            return None
        steps = max(1, wraps)
    if steps > 1 and demand.steps_per_pass is None and _deeper_than_blocks(layout, cut, steps):
        return None
    ranks = tuple(tuple(some) for some in shares(blocks, min(cut.ranks, len(blocks))))
    arrays = 0 if TARGETS[demand.target].compiles else 4
    samples = sample_blocks(grid, cut.block, cut.extra)
    deepest = _fused_depth(demand, cut, wraps)
    costs = [cost_of(layout, one, steps, demand.temporaries, arrays) for one in samples]
    cost = max(costs, key=lambda one: one.host + one.target)
    most = max(len(some) for some in ranks)
    kept = most * _copied_bytes(demand, samples) if demand.copied else 0
    kept += most * _ahead_bytes(demand, samples, steps)
    most_steps = max(steps, deepest)
    deep = [cost_of(layout, one, most_steps, demand.temporaries, arrays).target for one in samples]
    if demand.diagnosed:
        kept += most * max(_cells(one.box) for one in samples) * demand.diagnosed
    host, device = (0 if demand.on_device else cost.host) + kept, most * max(deep)
    if supply.device is None:
        host, device = host + device, 0
    plan = Plan(
        layout=layout,
        block=cut.block,
        extra_block=cut.extra,
        blocks=blocks,
        steps_per_pass=steps,
        passes=1,
        projected=len(ranks) * (host + device),
        predicted_fetches=None,
    )
    transport = transport_of(
        demand.target, len(ranks), remote=supply.remote, same_host=supply.same_host
    )
    seconds = _seconds(demand, cost, samples, most, steps, transport)
    sent = _sent(layout, blocks, steps, ranks)
    return seconds, ResidentPlan(plan, deepest, ranks, host, device, sent)


def _fused_depth(demand: Demand, cut: _Cut, wraps: int | None) -> int:
    """Return how many steps may be made at once: halos stay a small part of a block."""
    if demand.steps_per_pass is not None or not TARGETS[demand.target].compiles:
        return 1
    if not may_fuse(demand.layout):
        return 1
    most = min(demand.longest, _FUSED, _FUSED if wraps is None else wraps)
    for block, (low, high) in zip(cut.block[:2], demand.layout.reach, strict=False):
        reach = max(-low, high)
        if reach:
            most = min(most, block // (_THIN * reach))
    return max(1, most)


def _seconds(
    demand: Demand,
    cost: Cost,
    samples: Sequence[Block],
    most: int,
    steps: int,
    transport: Transport,
) -> float:
    """Return the seconds of a step of the rank that has most to do."""
    target = TARGETS[demand.target]
    if target.on_device:
        size = sum(np.dtype(use.dtype).itemsize for use in demand.layout.uses)
        computing = cost.cell_steps * size / target.memory_rate + steps * target.step_cost
    else:
        fields = len(demand.layout.uses) + len(demand.temporaries)
        computing = Pace(demand.target, in_memory=True, fields=fields).computing(cost)
    if transport is NO_TRANSPORT:
        return most * computing / steps
    moved = max(_halo_bytes(demand.layout, one, steps) for one in samples)
    exchanging = transport.latency + most * moved * transport.byte
    if transport.queued and min(_inside(demand.layout, one, steps) for one in samples) >= WORTH:
        return max(most * computing, exchanging) / steps
    return (most * computing + exchanging) / steps


def _inside(layout: Layout, block: Block, steps: int) -> int:
    """Return the bytes of the fields of a block without the cells that other blocks await."""
    cells = 1
    sides = zip(block.box, layout.grid.sizes, layout.reach, strict=True)
    for span, size, (low, high) in sides:
        cells *= max(0, span.size - (steps * (high - low) if span.size < size else 0))
    return cells * sum(np.dtype(use.dtype).itemsize for use in layout.uses)


def _deeper_than_blocks(layout: Layout, cut: _Cut, steps: int) -> bool:
    """Whether a halo would be deeper than half a block along an axis that is cut."""
    return any(
        block < size and 2 * steps * max(-low, high) > block
        for block, size, (low, high) in zip(cut.block, layout.grid.sizes, layout.reach, strict=True)
    )


def _halo_bytes(layout: Layout, block: Block, steps: int) -> int:
    """Return about what a block receives in an exchange; cells along a cut of I count more."""
    cells = geometry(layout, block, steps)
    count = 0
    for use in layout.uses:
        if use.kept:
            size = np.dtype(use.dtype).itemsize
            whole, own = cells.inner[use.name], cells.own[use.name]
            beside = _cells((own[0], whole[1], whole[2]))
            count += size * (beside - _cells(own))
            if block.box[0].size < layout.grid.sizes[0]:
                count += _STRIDED * size * (_cells(whole) - beside)
    return count


def _copied_bytes(demand: Demand, samples: Sequence[Block]) -> int:
    """Return the bytes of a block's fields that a checkpoint copies, or a snapshot."""
    layout = demand.layout
    copied = [use for use in layout.uses if (use.result if demand.every else use.kept)]
    return max(
        sum(
            _cells(geometry(layout, one, 1).own[use.name]) * np.dtype(use.dtype).itemsize
            for use in copied
        )
        for one in samples
    )


def _ahead_bytes(demand: Demand, samples: Sequence[Block], steps: int) -> int:
    """Return the bytes of the records of a block that are read while steps are made."""
    layout = demand.layout
    ahead = [use for use in layout.uses if use.name in demand.ahead]
    found: list[int] = []
    for block in samples:
        inner = geometry(layout, block, steps).inner
        each = [(u, _cells(inner[u.name]) * np.dtype(u.dtype).itemsize) for u in ahead]
        found.append(sum(records_at_once(use.records, size) * size for use, size in each))
    return max(found)


def _sent(
    layout: Layout, blocks: Sequence[Block], steps: int, ranks: Sequence[Sequence[Block]]
) -> int:
    if len(ranks) == 1:
        return 0
    cells = {block.index: geometry(layout, block, steps) for block in blocks}
    return sent_cells(exchange(layout, blocks, cells))


def _cells(box: Box) -> int:
    return math.prod(span.size for span in box)
