"""A gather or scatter of arrays that need not fit anywhere whole: passes over tiles of both sides.

The index is sorted tile by tile into buckets, one for each tile of what it names. Then every tile
of the source is read once, and of it only the elements that are named go to the tiles of the
result, through files beside the output; last, these are put in order. No task holds more than a
tile of each kind, whatever the indices are, so memory is known before anything is read; space on
disk is known once the indices are sorted. The bits are those of one block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Opened, Source
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.execute import (
    Blockwise,
    Output,
    check_blockwise,
    planned,
    run_last_passes,
)
from halocline_engine.distribute.jobs.outputs import check_space, field_bytes, temporary_folder
from halocline_engine.distribute.jobs.passes import Passes
from halocline_engine.distribute.jobs.places import readable
from halocline_engine.distribute.jobs.shares import Shares
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import (
    OnEvent,
)
from halocline_engine.distribute.tasks.model import BlockWork
from halocline_engine.distribute.transfers.buckets_files import SpillFiles
from halocline_engine.distribute.transfers.buckets_plan import Cut, Exchange, choose_cut, task_bytes
from halocline_engine.distribute.transfers.buckets_work import (
    Checking,
    Exchanging,
    Joining,
    Sending,
    Sorting,
)
from halocline_engine.errors import ArgumentError, CapacityError
from halocline_engine.kernels.indirect.indices import Outside, duplicate_error, outside_error
from halocline_engine.kernels.indirect.problem import Duplicates

__all__ = ["ExchangeRequest", "fits_whole", "names_moved", "run_exchange"]

#: Bytes for an index while all are checked and analysed in one process.
_BYTES_AN_INDEX = 48
_HELD = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExchangeRequest:
    """An exchange on a dataset; `frame` is the result without its variable, `what` is done."""

    opened: Opened
    exchange: Exchange
    frame: xr.Dataset
    chunks: Mapping[str, int]
    output: Path | None
    what: str


def names_moved(exchange: Exchange, chunks: Mapping[str, int]) -> bool:
    """Whether chunks are asked for along dimensions that do not stay as they are, or of values.

    Raises `ArgumentError` for those that do not exist.
    """
    for name in chunks:
        if name not in exchange.cuttable:
            known = ", ".join(repr(dim) for dim in exchange.cuttable)
            raise ArgumentError(
                "Argument 'chunks' must name dimensions of the source, the index or the result,"
                f" got '{name}'.",
                hint=f"There are {known}.",
            )
    return not {*chunks} <= {*exchange.layout.batch}


def fits_whole(exchange: Exchange, pool: Pool, target: str, memory: int) -> bool:
    """Whether all indices fit into `memory` here, and all that they name into a worker."""
    layout = exchange.layout
    sizes, item = layout.sizes, np.dtype(exchange.dtype).itemsize
    shared, indexed, values = (
        math.prod(sizes[dim] for dim in part)
        for part in (layout.shared, layout.indexed, layout.values)
    )
    sides = shared * (indexed + layout.size)
    if _BYTES_AN_INDEX * shared * indexed + sides > memory:
        return False
    plan, member = 8 * shared * indexed, sides * values * item
    device = pool.device_memory(target)
    if device is not None and plan + member > device:
        return False
    member_of = dict.fromkeys(layout.batch, 1)
    taken = _HELD * member + exchange.source.bytes(member_of)
    return plan + taken <= pool.memory // pool.threads


def run_exchange(
    request: ExchangeRequest,
    pool: Pool,
    target: str,
    on_event: OnEvent,
    cancelled: CancelToken | None,
) -> xr.Dataset:
    """Run an exchange in buckets; return its result, in memory or opened lazily.

    Raises `ArgumentError` for indices that the policy does not allow, and `CapacityError` or
    `OutputError`, before the result is begun; nothing is left of what was made on the way.
    """
    exchange = request.exchange
    total = 4 if _checked(exchange) else 3
    passes = Passes(pool, on_event, cancelled, total, shares=Shares(target))
    cut, projected = _fitting(request, pool, target)
    final = _final(request, cut, target, projected)
    check_blockwise(final, pool)
    reason = f"elements are sorted into buckets by tiles of '{exchange.dim}'"
    whole = replace(final, passes=passes.total, reads=exchange.names[:2])
    on_event(planned(whole, pool, reason))
    with ExitStack() as stack:
        parent = None if request.output is None else request.output.parent
        made = stack.enter_context(temporary_folder(parent))
        source = readable(request.opened, exchange.names[:2], pool, stack, made / "input")
        spill = SpillFiles(str(made), "<i4" if cut.narrow else "<i8")
        job = Exchanging(exchange, cut, source, spill, target)
        stored = pool.remote or request.output is not None
        _sort(job, passes, field_bytes(final.uses, final.grid) if stored else 0)
        passes.run(Sending(job), _pairs(cut.stay.total, _read_tiles(job)))

        def work(_source: Source, sink: Sink) -> BlockWork:
            return Joining(job, sink)

        last = replace(final, work=work, opened=replace(request.opened, source=source))
        return run_last_passes(last, passes)


def _fitting(request: ExchangeRequest, pool: Pool, target: str) -> tuple[Cut, int]:
    """Return the tiles, and the bytes that all workers need at once; raises `CapacityError`."""
    device = pool.device_memory(target)
    free = min(pool.memory // pool.threads, device if device is not None else pool.memory)
    cut = choose_cut(request.exchange, request.chunks, free)
    needed = task_bytes(request.exchange, cut)
    if needed > free:
        raise CapacityError(
            f"A tile of '{request.exchange.names[0]}' or of its indices needs {needed} bytes of"
            f" memory, but {free} are free for it.",
            hint="Give smaller 'chunks', or use workers with more memory.",
            needed=needed,
            available=free,
        )
    return cut, pool.workers * pool.threads * needed


def _final(request: ExchangeRequest, cut: Cut, target: str, projected: int) -> Blockwise:
    """Return the pass that makes the result, without what its tasks do."""
    exchange = request.exchange
    layout = exchange.layout
    tiles = cut.indexed if exchange.gather else cut.named
    parts = (cut.stay, cut.shared, tiles)
    steps = {d: n for part in parts for d, n in zip(part.dims, part.steps, strict=True)}
    sizes = {d: n for part in parts for d, n in zip(part.dims, part.sizes, strict=True)}
    sizes = {dim: sizes[dim] for dim in layout.dims}
    made = (exchange.names[2], layout.dims, exchange.dtype, steps, sizes)
    written = cut.index_tiles if exchange.gather else cut.named_tiles

    def nothing(_source: Source, _sink: Sink) -> BlockWork:
        raise AssertionError

    return Blockwise(
        opened=request.opened,
        sizes=sizes,
        reads=(),
        outputs=(Output.of_blocks(*made, exchange.attributes),),
        blocks=_pairs(cut.stay.total, written),
        work=nothing,
        what=request.what,
        target=target,
        projected=projected,
        output=request.output,
        frame=request.frame,
    )


def _sort(job: Exchanging, passes: Passes, result: int) -> None:
    """Sort all indices into buckets, and raise what is wrong with them.

    `result` are the bytes that the result will take beside what is moved.
    """
    exchange, cut, spill = job.exchange, job.cut, job.spill
    passes.run(Sorting(job), _blocks((n,) for n in range(cut.index_tiles)))
    named, outside = 0, None
    for tile in range(cut.index_tiles):
        facts = spill.facts(f"sorted-{tile}")
        named += facts["named"]
        if facts["outside"] is not None:
            outside = _earlier(outside, Outside(*facts["outside"]))
    if outside is not None:
        raise outside_error(outside, exchange.layout.size, exchange.names[1])
    if _checked(exchange):
        _check_duplicates(job, passes)
    element = math.prod(cut.stay.sizes) * np.dtype(exchange.dtype).itemsize
    check_space([(Path(spill.folder), named * element + result)])


def _check_duplicates(job: Exchanging, passes: Passes) -> None:
    """Raise `ArgumentError` that names the first place to which two elements would go."""
    tiles = range(job.cut.named_tiles)
    passes.run(Checking(job), _blocks((n,) for n in tiles))
    found = [job.spill.facts(f"checked-{tile}")["duplicate"] for tile in tiles]
    repeated = [one for one in found if one is not None]
    if repeated:
        index, place, before = min(repeated, key=lambda one: one[1])
        raise duplicate_error(index, place, before, job.exchange.names[1])


def _earlier(first: Outside | None, second: Outside) -> Outside:
    if first is None:
        return second
    kept = min(first, second, key=lambda one: one.place)
    return replace(kept, count=first.count + second.count)


def _checked(exchange: Exchange) -> bool:
    return not exchange.gather and exchange.policy.duplicates is Duplicates.ERROR


def _read_tiles(job: Exchanging) -> int:
    return job.cut.named_tiles if job.exchange.gather else job.cut.index_tiles


def _blocks(numbers: Iterator[tuple[int, ...]]) -> tuple[Block, ...]:
    """Return blocks that say which tiles are meant, one after the other."""
    one = Span(0, 1)
    return tuple(
        Block(at, (one, one, one), tuple(Span(n, n + 1) for n in several))
        for at, several in enumerate(numbers)
    )


def _pairs(stay: int, tiles: int) -> tuple[Block, ...]:
    return _blocks(itertools.product(range(stay), range(tiles)))
