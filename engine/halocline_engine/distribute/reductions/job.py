"""Reductions as a job of two passes: states of blocks, and results of all states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.datasets.diagnostics import Diagnostic
from halocline_engine.datasets.names import check_results
from halocline_engine.datasets.stores.provenance import with_history
from halocline_engine.datasets.stores.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Opened, Source
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.datasets.variables import stored_chunks
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span, partition
from halocline_engine.distribute.jobs.blocking import (
    LARGE_TASK,
    SMALL_TASK,
    TASKS_PER_WORKER,
    check_reading,
)
from halocline_engine.distribute.jobs.execute import Blockwise, Output, Stage
from halocline_engine.distribute.jobs.reading import reading_of
from halocline_engine.distribute.reductions.bound import HELD, Reduction, bind, labels_of
from halocline_engine.distribute.reductions.results import (
    numbers_along,
    reduced_coordinates,
    reduced_variables,
)
from halocline_engine.distribute.reductions.work import MergeWork, StateWork, place_names
from halocline_engine.errors import ArgumentError

__all__ = ["ReductionRequest", "check_reductions", "reduction_job"]

#: Part of the memory that states take until they go through a store.
_PART = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReductionRequest:
    """Reductions of a dataset; `chunks` are sizes of blocks that the caller gives."""

    opened: Opened
    reductions: tuple[Reduction, ...]
    chunks: Mapping[str, int]
    output: Path | None

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of all dimensions; the first ones are those of the variable that has most."""
        most = sorted(self.reductions, key=lambda one: -len(one.dims))
        return {dim: one.sizes[dim] for one in most for dim in one.dims}


def check_reductions(
    opened: Opened,
    asked: tuple[Diagnostic, ...],
    chunks: Mapping[str, int],
    output: Path | None,
) -> ReductionRequest:
    """Return the checked reductions of a dataset; labels are not read yet.

    Raises `ProgramError`, `ArgumentError` or `FieldError`.
    """
    dataset = opened.dataset
    bound = tuple(bind(one, dataset, f"diagnostics['{one.name}']") for one in asked)
    request = ReductionRequest(opened=opened, reductions=bound, chunks=chunks, output=output)
    for name in chunks:
        if name not in request.sizes:
            raise ArgumentError(
                f"Argument 'chunks' must name dimensions that are reduced or kept, got '{name}'.",
                hint=near(name, request.sizes),
            )
    made = [name for one in bound for name in (one.name, *place_names(one).values())]
    check_results(made, [dim for one in bound for dim in (*one.kept, *one.group_dims)])
    return request


def reduction_job(request: ReductionRequest, pool: Pool, target: str) -> Blockwise:
    """Return the job; it reads the labels. Raises `CapacityError` where its blocks do not fit."""
    dataset = request.opened.dataset
    request = replace(request, reductions=tuple(_labelled(o, dataset) for o in request.reductions))
    reductions = request.reductions
    sizes, names = request.sizes, [name for one in reductions for name in one.variables]
    own = {name: tuple(str(dim) for dim in dataset[name].dims) for name in names}
    steps, taken = _steps(request, pool)
    wide = partition(
        (1, 1, 1), tuple(max(1, n) for n in sizes.values()), (1, 1, 1), (*steps.values(),)
    )
    pieces = tuple(
        math.prod(max(1, -(-one.sizes[dim] // steps[dim])) for dim in one.reduced)
        for one in reductions
    )
    shapes = {one.name: _shape(one, count) for one, count in zip(reductions, pieces, strict=True)}
    between = 8 * sum(map(math.prod, shapes.values()))
    coordinates = numbers_along(reductions, dataset)

    def stages(source: Source, sink: Sink, folder: Path | None) -> tuple[Stage, ...]:
        states, keep = _between(request, shapes, steps, folder)
        first = StateWork(reductions, own, tuple(sizes), steps, source, keep, target)
        second = MergeWork(reductions, pieces, coordinates, states, sink, target)
        return Stage(first, wide), Stage(second, _merging(reductions, steps))

    in_stores = between > pool.memory // _PART
    what = "reductions " + ", ".join(f"'{one.name}'" for one in reductions)
    return Blockwise(
        opened=request.opened,
        sizes={**sizes, **{d: n for one in reductions for d, n in one.group_dims.items()}},
        reads=tuple(dict.fromkeys(names)),
        outputs=tuple(
            output for one in reductions for output in _outputs(request, one, steps, [*coordinates])
        ),
        blocks=wide,
        work=None,
        what=what,
        target=target,
        projected=min(len(wide), pool.workers * pool.threads) * taken
        + (0 if in_stores or pool.remote else between),
        output=request.output,
        frame=with_history(
            xr.Dataset(coords=reduced_coordinates(reductions, dataset)), dataset, what
        ),
        passes=2,
        stages=stages,
        between=between,
        in_stores=in_stores,
    )


def _labelled(one: Reduction, dataset: xr.Dataset) -> Reduction:
    by = one.asked.by
    return one if by is None else replace(one, labels=labels_of(by, dataset))


def _steps(request: ReductionRequest, pool: Pool) -> tuple[dict[str, int], int]:
    """Return the sizes of blocks, and the bytes that one takes.

    Dimensions that most reductions keep are cut first, and then the slowest; to whole chunks, as
    far as these fit.
    """
    reductions, sizes, dataset = request.reductions, request.sizes, request.opened.dataset
    names = dict.fromkeys(name for one in reductions for name in one.variables)
    reading = reading_of(request.opened, names)
    chunks = dict.fromkeys(sizes, 1)
    for name in names:
        stored = stored_chunks(dataset[name]) or (1,) * dataset[name].ndim
        for dim, chunk in zip(dataset[name].dims, stored, strict=True):
            chunks[str(dim)] = max(chunks[str(dim)], int(chunk))
    block = {d: min(request.chunks.get(d, max(1, n)), max(1, n)) for d, n in sizes.items()}
    order = sorted(sizes, key=lambda dim: -sum(dim in one.kept for one in reductions))

    def held() -> int:
        read = sum(
            math.prod(block[str(dim)] for dim in dataset[name].dims) * dataset[name].dtype.itemsize
            for name in names
        )
        cells = max(math.prod(block[dim] for dim in one.dims) for one in reductions)
        groups = (math.prod(block[d] for d in one.kept) * one.groups for one in reductions)
        columns = (one.columns for one in reductions)
        states = sum(8 * count * width for count, width in zip(groups, columns, strict=True))
        return read + HELD * 8 * cells + 2 * states

    memory = pool.memory // pool.threads
    share = held() // (TASKS_PER_WORKER * pool.workers)
    goal = min(LARGE_TASK, memory, max(SMALL_TASK, share))
    for smallest in (chunks, dict.fromkeys(sizes, 1)):
        while held() > goal or held() + reading.bytes(block) > memory:
            free = [d for d in order if block[d] > smallest[d] and d not in request.chunks]
            if not free:
                break
            half, step = -(-block[free[0]] // 2), smallest[free[0]]
            block[free[0]] = min(-(-half // step) * step, block[free[0]] - 1)
        goal = memory
    check_reading(held() + reading.bytes(block), memory)
    return block, held() + reading.bytes(block)


def _shape(one: Reduction, pieces: int) -> tuple[int, ...]:
    return (pieces, *(one.sizes[dim] for dim in one.kept), one.groups, one.columns)


def _between(
    request: ReductionRequest,
    shapes: Mapping[str, tuple[int, ...]],
    steps: Mapping[str, int],
    folder: Path | None,
) -> tuple[Source, Sink]:
    """Make the arrays of states, here or in a folder; no chunk has two writers."""
    if folder is None:
        arrays = {name: np.empty(shape, np.int64) for name, shape in shapes.items()}
        return Arrays(arrays), ArraySink(arrays)
    ZARR.create_group(str(folder), zarr_format=3)
    for one in request.reductions:
        ZARR.create_array(
            store=str(folder),
            name=one.name,
            shape=shapes[one.name],
            chunks=(1, *(steps[dim] for dim in one.kept), max(1, one.groups), one.columns),
            dtype="int64",
            compressors=None,
            zarr_format=3,
        )
    return ArrayStore(str(folder)), ZarrSink(str(folder))


def _merging(reductions: tuple[Reduction, ...], steps: Mapping[str, int]) -> tuple[Block, ...]:
    """Return the blocks of the second pass: of each reduction, those of its kept dimensions."""
    made: list[Block] = []
    cell = Span(0, 1)
    for number, one in enumerate(reductions):
        kept = tuple(max(1, one.sizes[dim]) for dim in one.kept)
        cut = partition((1, 1, 1), kept, (1, 1, 1), tuple(steps[dim] for dim in one.kept))
        lead = Span(number, number + 1)
        for block in cut:
            made.append(Block(len(made), (cell, cell, cell), (lead, *block.extra)))
    return tuple(made)


def _outputs(
    request: ReductionRequest, one: Reduction, steps: Mapping[str, int], numbered: Sequence[str]
) -> list[Output]:
    sizes = {**request.sizes, **one.group_dims}
    cut = {dim: min(steps.get(dim, size), max(1, size)) for dim, size in sizes.items()}
    return [
        Output.of_blocks(made.name, made.dims, made.dtype, cut, sizes, made.attributes)
        for made in reduced_variables(one, request.opened.dataset, numbered)
    ]
