"""Order in which blocks are visited, the cache that it needs, and expected fetches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from halocline_engine.datasets.stores.chunks import Chunk
from halocline_engine.distribute.grid.geometry import Layout
from halocline_engine.distribute.grid.partition import Block, shares
from halocline_engine.distribute.stencils.order import (
    BlockGrid,
    Order,
    arrange,
    choose_order,
    fetched_chunks,
    has_idle,
    touched_chunks,
    whole_rows,
)
from halocline_engine.errors import CapacityError

__all__ = ["VisitOrder", "VisitPlan", "visit"]


# Fetches are predicted by going through all reads; beyond so many, that would take seconds.
_MOST_READS = 400_000
_MOST_BLOCKS = 20_000


@dataclass(frozen=True, slots=True)
class VisitPlan:
    """A job whose blocks are to be put in order.

    `layouts` are those of the first pass and, where they differ, of the others; `blocks` are in the
    order of `partition`. Blocks are visited in so many `parts`, runs of neighbours with a cache
    each; None where any worker may get any block. `threads` are at hand at a time. `carried` says
    that what a block read is not read again for the next one of its part.
    """

    layouts: tuple[Layout, ...]
    blocks: tuple[Block, ...]
    steps: int
    steps_per_pass: int
    parts: int | None
    threads: int
    carried: bool = False


@dataclass(frozen=True, slots=True)
class VisitOrder:
    """Blocks in order; see `planning.Plan`."""

    blocks: tuple[Block, ...]
    order: Order
    cache: int
    chunks: int
    fetches: int | None


def visit(job: VisitPlan, name: str, cache: int | None, free: int) -> VisitOrder:
    """Return the order called `name`, with a cache of `cache` bytes or of what is of use.

    At most half of the `free` bytes are taken unasked. Raises `CapacityError` where the cache that
    was asked for does not fit.
    """
    grids = [BlockGrid.of(one, job.blocks, job.steps_per_pass, job.threads) for one in job.layouts]
    grid = max(grids, key=lambda one: one.unit)
    if cache is None:
        wanted = whole_rows(grid) if len(job.blocks) > 1 and any(map(_shares, grids)) else 0
        cache = min(wanted, max(0, free) // 2)
        cache = cache if cache > grid.unit else 0
    elif cache > free:
        raise CapacityError(
            f"The cache of chunks needs {cache} bytes beside the blocks, but only {max(0, free)}"
            " are free.",
            hint="Give a smaller cache or smaller 'chunks'.",
            needed=cache,
            available=max(0, free),
        )
    order = choose_order(name, grid, cache)
    blocks = arrange(job.blocks, grid, order)
    chunks, fetches = _predicted(job, blocks, cache)
    return VisitOrder(blocks, order, cache, chunks, fetches)


def _shares(grid: BlockGrid) -> bool:
    """Whether blocks read chunks of their neighbours."""
    across = zip(grid.counts, grid.reads, strict=True)
    return grid.unit > 1 and any(count > 1 and any(reads) for count, reads in across)


def _predicted(job: VisitPlan, blocks: Sequence[Block], cache: int) -> tuple[int, int | None]:
    """Return how many chunks the first pass reads, and how many are fetched in all passes.

    Where any worker may get any block, that is known only if nothing is kept.
    """
    if not any(use.loaded and use.chunks for one in job.layouts for use in one.uses):
        return 0, 0
    middle = (blocks[len(blocks) // 2],)
    reads = sum(len(touched_chunks(one, middle, 1)[0]) for one in job.layouts)
    if reads * len(blocks) > _MOST_READS or len(blocks) > _MOST_BLOCKS:
        return 0, None
    passes = -(-job.steps // job.steps_per_pass)
    first, later = job.layouts[0], job.layouts[-1]
    last = job.steps - (passes - 1) * job.steps_per_pass
    opening = _touched(job, first, blocks, job.steps_per_pass if passes > 1 else last)
    chunks = len({(chunk.stored.name, chunk.index) for part in opening for chunk in part})
    total = _fetched(opening, cache)
    if passes > 1:
        total += _fetched(_touched(job, later, blocks, last), cache)
    if passes > 2:
        between = _fetched(_touched(job, later, blocks, job.steps_per_pass), cache)
        total += (passes - 2) * between
    return chunks, None if job.parts is None and cache else total


def _touched(
    job: VisitPlan, layout: Layout, blocks: Sequence[Block], steps: int
) -> list[list[Chunk]]:
    """Return the chunks that each part reads in a pass, in that order.

    A part in which a block computes nothing is read block by block, as it is done.
    """
    touched: list[list[Chunk]] = []
    for part in filter(None, shares(blocks, job.parts or 1)):
        carried = job.carried and not has_idle(layout, part, steps)
        touched.append(list(itertools.chain(*touched_chunks(layout, part, steps, carried=carried))))
    return touched


def _fetched(touched: Iterable[Iterable[Chunk]], cache: int) -> int:
    return sum(fetched_chunks(part, cache) for part in touched)
