"""The tasks of a bucketed gather or scatter; see `gather_cut` for tiles, `gather_files` for files.

* `Sorting`: the indices of a tile are resolved and sorted into a bucket for each tile of `dim`.
* `Checking`, of a scatter that allows no duplicates: looks for the first in a tile of `dim`.
* `Sending`: a tile of the source is read once, and only the elements that are named are kept, in a
  piece for each tile of the other side.
* `Joining`: a tile of the result is put together of its pieces, in the order of the indices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.transfers import transfers_on
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import COMPUTE, Report, Task
from halocline_engine.distribute.transfers.buckets_files import Sorted, SpillFiles
from halocline_engine.distribute.transfers.buckets_plan import Cut, Exchange
from halocline_engine.kernels.indirect.indices import LEFT_OUT, keep_last, outside_of, resolve
from halocline_engine.kernels.indirect.plan import plan_transfer
from halocline_engine.kernels.indirect.problem import (
    Direction,
    Duplicates,
    OutOfRange,
    Policy,
)

__all__ = ["Checking", "Exchanging", "Joining", "Sending", "Sorting"]

_Array = NDArray[Any]
_COMBINED = (Duplicates.SUM, Duplicates.MIN, Duplicates.MAX)
#: Places that were made sure of before.
_SURE = Policy(OutOfRange.MASK, duplicates=Duplicates.LAST)


@dataclass(frozen=True, slots=True, eq=False)
class Exchanging:
    """Parameters that all tasks of an exchange share."""

    exchange: Exchange
    cut: Cut
    source: Source
    spill: SpillFiles
    target: str


@dataclass(frozen=True, slots=True, eq=False)
class Sorting:
    """Sorts a tile of the index, whose number is the block's first."""

    job: Exchanging

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, resolve, sort and store."""
        task, job, tile = Task(block, cancelled), self.job, block.extra[0].start
        exchange, spill = job.exchange, job.spill
        layout = exchange.layout
        spans = job.cut.of_index(tile)
        dims, name = exchange.index.dims, exchange.names[1]
        read = task.read(job.source, name, region_of(dims, spans))
        task.check()
        wanted = (*layout.shared, *layout.indexed)
        given = np.ascontiguousarray(read.transpose([dims.index(dim) for dim in wanted]))
        policy, flat = exchange.policy, given.reshape(-1)
        outside = None
        if policy.out_of_range is OutOfRange.ERROR:
            outside = outside_of(flat, layout.size, policy)
            policy = replace(policy, out_of_range=OutOfRange.MASK)
        plain = resolve(flat, layout.size, policy, name=name)
        with COMPUTE:
            found = self._sorted(plain, spans)
        facts: dict[str, Any] = {"named": int(found.starts[-1]), "outside": None}
        if outside is not None:
            place = _in_whole(layout.sizes, wanted, spans, outside.place)
            facts["outside"] = [outside.count, place, outside.given]
        task.bytes_written += spill.keep_sorted(tile, found, facts)
        return task.report()

    def _sorted(self, plain: _Array, spans: Mapping[str, Span]) -> Sorted:
        cut, exchange = self.job.cut, self.job.exchange
        step, buckets = cut.named.steps[0], cut.named.total
        if not exchange.gather:
            return _sorted_targets(plain, exchange.policy.duplicates, step, buckets)
        outer = math.prod(spans[dim].size for dim in exchange.layout.shared)
        return _sorted_sources(plain, outer, step, exchange.layout.size, buckets)


@dataclass(frozen=True, slots=True, eq=False)
class Checking:
    """Looks for the first duplicate in a tile of `dim` of a scatter."""

    job: Exchanging

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read the places of a tile in the order of the indices, and store the first duplicate."""
        task, tile = Task(block, cancelled), block.extra[0].start
        layout, cut, spill = self.job.exchange.layout, self.job.cut, self.job.spill
        span = cut.named.spans(tile)[0]
        first = np.full(span.size, -1, np.int64)
        found: list[int] | None = None
        for other in range(cut.indexed.total):
            task.check()
            begin, past = (int(n) for n in spill.starts(other, tile, 2))
            named = int(spill.starts(other, cut.named.total, 1)[0])
            if begin == past:
                continue
            buckets = cut.named.total
            places = spill.places(other, buckets, begin, past)
            order = spill.order(other, buckets, named, begin, past).astype(np.int64)
            task.bytes_read += 2 * places.nbytes
            at = order + _in_whole(layout.sizes, layout.indexed, cut.of_index(other), 0)
            repeated = _repeated(places, at, first)
            if repeated is not None:
                place, before = repeated
                found = [span.start + int(places[place]), int(at[place]), before]
                break
        spill.keep_facts(f"checked-{tile}", {"duplicate": found})
        return task.report()


@dataclass(frozen=True, slots=True, eq=False)
class Sending:
    """Takes from a tile that is read what other tiles need; the block is (stay, tile)."""

    job: Exchanging

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read a tile, and store a piece for each tile of the other side."""
        task = Task(block, cancelled)
        stay, tile = (span.start for span in block.extra)
        job, exchange, cut = self.job, self.job.exchange, self.job.cut
        layout = exchange.layout
        if exchange.gather:
            starts, groups = self._wanted_of(tile)
            spans = cut.of_named(tile)
        else:
            starts = job.spill.starts(tile, 0, cut.named.total + 1)
            groups = iter([job.spill.order(tile, cut.named.total, int(starts[-1]))])
            spans = cut.of_index(tile)
        if not starts[-1]:
            job.spill.keep_moved(stay, tile, starts, ())
            return task.report()
        spans |= dict(zip(cut.stay.dims, cut.stay.spans(stay), strict=True))
        read = task.read(job.source, exchange.names[0], region_of(exchange.own, spans))
        task.check()
        taken = (*layout.shared, *((exchange.dim,) if exchange.gather else layout.indexed))
        values = _in_order(read, exchange.own, (layout.batch, taken, layout.values))
        pieces = self._pieces(task, values, starts, groups)
        task.bytes_written += job.spill.keep_moved(stay, tile, starts, pieces)
        return task.report()

    def _wanted_of(self, tile: int) -> tuple[NDArray[np.int64], Iterator[_Array]]:
        """Return where pieces begin, and the places that successive tiles of the index name."""
        cut, spill = self.job.cut, self.job.spill
        group, bucket = divmod(tile, cut.named.total)
        others = range(group * cut.indexed.total, (group + 1) * cut.indexed.total)
        ends = [spill.starts(other, bucket, 2) for other in others]
        starts = np.zeros(len(ends) + 1, np.int64)
        starts[1:] = np.cumsum([past - begin for begin, past in ends])

        def groups() -> Iterator[_Array]:
            held: list[_Array] = []
            for other, (begin, past) in zip(others, ends, strict=True):
                count = sum(part.size for part in held) + int(past - begin)
                if held and count > cut.shared.points * cut.named.points:
                    yield np.concatenate(held)
                    held = []
                held.append(spill.places(other, cut.named.total, int(begin), int(past)))
            yield np.concatenate(held)

        return starts, groups()

    def _pieces(
        self, task: Task, values: _Array, starts: NDArray[np.int64], groups: Iterator[_Array]
    ) -> Iterator[_Array]:
        done = 0
        for places in groups:
            task.check()
            moved = _move(Direction.GATHER, places, values, self.job.target, None)
            ends = starts[(starts > done) & (starts < done + places.size)] - done
            for begin, past in itertools.pairwise([0, *np.unique(ends).tolist(), places.size]):
                yield moved[:, begin:past]
            done += places.size


@dataclass(frozen=True, slots=True, eq=False)
class Joining:
    """Puts a tile of the result together; the block is (stay, tile)."""

    job: Exchanging
    sink: Sink

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read the pieces of a tile, bring them in order and write the tile."""
        task = Task(block, cancelled)
        stay, tile = (span.start for span in block.extra)
        exchange, cut = self.job.exchange, self.job.cut
        layout = exchange.layout
        spans = cut.of_index(tile) if exchange.gather else cut.of_named(tile)
        spans |= dict(zip(cut.stay.dims, cut.stay.spans(stay), strict=True))
        made = (*layout.shared, *(layout.indexed if exchange.gather else (exchange.dim,)))
        sizes = [
            math.prod(spans[dim].size for dim in part)
            for part in (layout.batch, made, layout.values)
        ]
        join = self._gathered if exchange.gather else self._scattered
        found = join(task, stay, tile, (sizes[0], sizes[1], sizes[2]))
        order = (*layout.batch, *made, *layout.values)
        whole = found.reshape([spans[dim].size for dim in order])
        result = whole.transpose([order.index(dim) for dim in layout.dims])
        task.check()
        task.write(self.sink, exchange.names[2], region_of(layout.dims, spans), result)
        return task.report()

    def _gathered(self, task: Task, stay: int, tile: int, shape: tuple[int, int, int]) -> _Array:
        job, cut = self.job, self.job.cut
        group, place = divmod(tile, cut.indexed.total)
        starts = job.spill.starts(tile, 0, cut.named.total + 1)
        batch, _, values = shape
        pieces = np.empty((batch, int(starts[-1]), values), job.exchange.dtype)
        for bucket in np.flatnonzero(np.diff(starts)).tolist():
            task.check()
            pieces[:, starts[bucket] : starts[bucket + 1]] = job.spill.moved(
                stay,
                group * cut.named.total + bucket,
                place,
                cut.indexed.total,
                (batch, values),
                job.exchange.dtype,
            )
        order = job.spill.order(tile, cut.named.total, int(starts[-1]))
        out = np.full(shape, job.exchange.fill, job.exchange.dtype)
        task.bytes_read += pieces.nbytes
        return _move(Direction.GATHER, order, pieces, job.target, out)

    def _scattered(self, task: Task, stay: int, tile: int, shape: tuple[int, int, int]) -> _Array:
        job, cut = self.job, self.job.cut
        batch, size, values = shape
        out = np.full(shape, job.exchange.fill, job.exchange.dtype)
        written = np.zeros(size, bool)
        duplicates = job.exchange.policy.duplicates
        for other in range(cut.indexed.total):
            task.check()
            begin, past = (int(n) for n in job.spill.starts(other, tile, 2))
            if begin == past:
                continue
            places = job.spill.places(other, cut.named.total, begin, past).astype(np.int64)
            piece = job.spill.moved(
                stay, other, tile, cut.named.total, (batch, values), job.exchange.dtype
            )
            task.loaded(piece)
            if duplicates not in _COMBINED:
                _move(Direction.SCATTER, places, piece, job.target, out)
                continue
            # What is there already is the first to be combined.
            there = np.unique(places[written[places]])
            written[places] = True
            together = np.concatenate([out[:, there], piece], axis=1)
            places = np.concatenate([there, places])
            _move(Direction.SCATTER, places, together, job.target, out, duplicates)
        return out


def _move(
    direction: Direction,
    places: _Array,
    values: _Array,
    target: str,
    out: _Array | None,
    duplicates: Duplicates = Duplicates.LAST,
) -> _Array:
    """Move elements between arrays indexed [batch, element, value], dense; return the target."""
    batch, elements, width = values.shape
    if out is None:
        out = np.empty((batch, places.size, width), values.dtype)
    if 0 in values.shape or 0 in out.shape or not places.size:
        return out
    with COMPUTE:
        plan = plan_transfer(
            direction,
            places,
            elements if direction is Direction.GATHER else out.shape[1],
            width * values.itemsize,
            replace(_SURE, duplicates=duplicates),
        )
        transfers_on(target).apply(plan, values, out)
    return out


def _sorted_sources(plain: _Array, outer: int, step: int, size: int, buckets: int) -> Sorted:
    """Sort the indices of a gather: `outer` times as many as there are points of the index.

    The places of a tile of `step` count the points of the shared dimensions first.
    """
    kept = np.flatnonzero(plain >= 0)
    whole = plain[kept].astype(np.int64)
    bucket = whole // step
    point = kept // (plain.size // max(1, outer))
    key, inverse = np.unique((bucket * outer + point) * step + whole % step, return_inverse=True)
    found, rest = np.divmod(key, outer * step)
    length = np.minimum(step, size - found * step)
    starts = np.searchsorted(found, np.arange(buckets + 1))
    order = np.full(plain.size, LEFT_OUT)
    order[kept] = inverse
    return Sorted(starts, rest // step * length + rest % step, order)


def _sorted_targets(plain: _Array, duplicates: Duplicates, step: int, buckets: int) -> Sorted:
    """Sort the indices of a scatter; of those that a later one overwrites nothing is moved."""
    if duplicates is Duplicates.LAST:
        plain = keep_last(plain, duplicates)
    kept = np.flatnonzero(plain >= 0)
    bucket = plain[kept] // step
    order = np.argsort(bucket, kind="stable")
    kept, bucket = kept[order], bucket[order]
    return Sorted(
        np.searchsorted(bucket, np.arange(buckets + 1)), plain[kept] - bucket * step, kept
    )


def _repeated(
    places: _Array, at: NDArray[np.int64], first: NDArray[np.int64]
) -> tuple[int, int] | None:
    """Return the first of some places that was there before, and where; None if there is none.

    `at` says where the indices are, ascending; `first` where each place was first, or -1, and the
    new ones are noted there.
    """
    _, earliest = np.unique(places, return_index=True)
    again = np.ones(places.size, bool)
    again[earliest] = False
    known = first[places]
    again |= known >= 0
    fresh = earliest[known[earliest] < 0]
    first[places[fresh]] = at[fresh]
    if not again.any():
        return None
    place = int(again.argmax())
    return place, int(first[places[place]])


def _in_order(read: _Array, own: Sequence[str], parts: tuple[tuple[str, ...], ...]) -> _Array:
    """Return values indexed [batch, element, value], dense."""
    lengths = dict(zip(own, read.shape, strict=True))
    turned = read.transpose([list(own).index(dim) for part in parts for dim in part])
    shape = [math.prod(lengths[dim] for dim in part) for part in parts]
    return np.ascontiguousarray(turned).reshape(shape)


def _in_whole(
    sizes: Mapping[str, int], dims: Sequence[str], spans: Mapping[str, Span], place: int
) -> int:
    """Return the place in the whole index of one in a tile of it."""
    found, step = 0, 1
    for dim in reversed(dims):
        place, point = divmod(place, max(1, spans[dim].size))
        found += (spans[dim].start + point) * step
        step *= sizes[dim]
    return found
