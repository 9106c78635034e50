"""Choice for a tridiagonal job: whole systems in a block, or rows spread over blocks or ranks.

Where a system is cut into pieces depends on its rows only (`kernels.tridiagonal.pieces`), and all
ways compute the same with each piece, so the result does not depend on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.sink import ArraySink, Sink, ZarrSink
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Source
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, partition
from halocline_engine.distribute.jobs.blocking import (
    LARGE_TASK,
    SMALL_TASK,
    TASKS_PER_WORKER,
    batch_memory,
    check_reading,
    check_wanted,
)
from halocline_engine.distribute.jobs.execute import Blockwise, Stage
from halocline_engine.distribute.jobs.reading import reading_of
from halocline_engine.distribute.solves.on_device import with_note
from halocline_engine.distribute.solves.pieces import (
    BETWEEN,
    Across,
    EndsWork,
    FillWork,
    ReduceWork,
    SpreadSystems,
    VerdictWork,
)
from halocline_engine.distribute.solves.request import (
    CheckedBanded,
    banded_job,
    chunks_of,
    job_on_device,
    outputs_of,
    systems_of,
)
from halocline_engine.distribute.solves.resident import (
    check_resident,
    refusal,
    resident_job,
    stay,
)
from halocline_engine.errors import CapacityError
from halocline_engine.kernels.tridiagonal.pieces import PIECE, Pieces, cut_rows

__all__ = ["solve_job"]

# Arrays of a block that a process holds while pieces are solved, and on a device.
_HELD = 24
_ON_DEVICE = 12
# Elements for each piece of a system while its ends are solved for.
_HELD_ENDS = 24
_PASSES = 4


def solve_job(checked: CheckedBanded, pool: Pool, target: str, mode: str = "streamed") -> Blockwise:
    """Return the job. Raises `CapacityError` where its blocks cannot be made to fit.

    Pentadiagonal systems are solved whole, and so are those with pivoting, where each row depends
    on all rows before it.
    """
    if not _systems(checked):
        mode = "streamed"
    found = job_on_device(checked, pool, target) if mode == "auto" else None
    job = found or _job_by_host(checked, pool, target, mode)
    return with_note(job, checked.request.variables)


def _job_by_host(checked: CheckedBanded, pool: Pool, target: str, mode: str) -> Blockwise:
    request, rows = checked.request, checked.sizes[checked.request.dim]
    pieces = cut_rows(rows, periodic=request.periodic, size=PIECE)
    if mode == "resident":
        check_resident(checked, pieces)
        found = stay(checked, pieces, pool, target)
        if not found.fits:
            raise refusal(found)
        return resident_job(checked, pieces, pool, target, found)
    if request.pivoting or checked.kind != "tridiagonal":
        return banded_job(checked, pool, target, held=_HELD)
    if pieces.count == 1:
        return banded_job(checked, pool, target)
    spread, note = _spread(checked, pieces, pool), ""
    # In this process cores solve one block while another one is read.
    staying = pool.remote or pool.workers > 1 or TARGETS[target].on_device
    if mode == "auto" and staying and (spread or _systems(checked) < pool.workers):
        found = stay(checked, pieces, pool, target)
        if found.fits and (spread or len(found.parts) > 1):
            return resident_job(checked, pieces, pool, target, found)
        note = "" if found.fits else f"the rows do not fit {found.shown}"
    if not spread:
        chunks = {dim: size for dim, size in request.chunks.items() if dim != request.dim}
        whole = replace(checked, request=replace(request, chunks=chunks))
        return replace(banded_job(whole, pool, target, held=_HELD), note=note)
    return replace(_across(checked, pieces, pool, target), note=note)


def _spread(checked: CheckedBanded, pieces: Pieces, pool: Pool) -> bool:
    """Return whether rows are spread: asked for, chunked so, or too many for a block."""
    request = checked.request
    wanted = request.chunks.get(request.dim)
    if wanted is not None:
        return -(-wanted // pieces.size) < pieces.count
    if chunks_of(checked).get(request.dim, pieces.rows) < pieces.rows:
        return True
    needed = _HELD * pieces.rows * np.dtype(checked.dtype).itemsize
    return needed > min(LARGE_TASK, pool.memory // pool.threads)


def _systems(checked: CheckedBanded) -> int:
    return math.prod(size for dim, size in checked.sizes.items() if dim != checked.request.dim)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Sizes of a block along each dimension, pieces along that of the rows; bytes in all.

    `narrow` are the sizes along the others in the passes whose blocks have all pieces.
    """

    block: Mapping[str, int]
    narrow: Mapping[str, int]
    projected: int


def _across(checked: CheckedBanded, pieces: Pieces, pool: Pool, target: str) -> Blockwise:
    request = checked.request
    sizes = {**checked.sizes, request.dim: pieces.count}
    cut = _cut(checked, pieces, pool, target)
    wide, narrow = _blocks(sizes, cut.block), _blocks(sizes, cut.narrow)
    handed_on = math.prod(sizes.values()) * _handed_on(np.dtype(checked.dtype).itemsize)

    def stages(source: Source, sink: Sink, folder: Path | None) -> tuple[Stage, ...]:
        kept, keep = _between(checked, cut, pieces, folder)
        across = Across(
            systems_of(SpreadSystems, checked, source, sink, target, pieces=pieces), kept, keep
        )
        return (
            Stage(ReduceWork(across), wide),
            Stage(EndsWork(across), narrow),
            Stage(FillWork(across), wide),
            Stage(VerdictWork(across), narrow),
        )

    rows = {**cut.block, request.dim: cut.block[request.dim] * pieces.size}
    others = {**cut.narrow, request.dim: pieces.rows}
    shaped = {request.name: rows}
    return Blockwise(
        opened=checked.opened,
        sizes=checked.sizes,
        reads=request.variables,
        outputs=outputs_of(checked, shaped, others),
        blocks=wide,
        work=None,
        what=f"tridiagonal systems of '{checked.bands[-1].name}' along '{request.dim}'",
        target=target,
        projected=cut.projected,
        output=request.output,
        operations=checked.operations,
        passes=_PASSES,
        stages=stages,
        between=handed_on,
    )


def _cut(checked: CheckedBanded, pieces: Pieces, pool: Pool, target: str) -> _Cut:
    """Choose blocks: like the chunks of the source, as far as these fit."""
    request, dim = checked.request, checked.request.dim
    itemsize = np.dtype(checked.dtype).itemsize
    systems = _systems(checked)
    held = systems * pieces.count * _handed_on(itemsize)
    if not request.output:
        held += systems * pieces.rows * itemsize
    largest = pieces.rows - pieces.start(pieces.count - 1)
    each = _HELD * largest * itemsize
    room = batch_memory(
        pool, target, each, _ON_DEVICE * largest * itemsize, held, "A piece of rows"
    )
    check_wanted(checked.sizes, dim, {**request.chunks, dim: pieces.rows})
    wanted = {name: min(size, checked.sizes[name]) for name, size in request.chunks.items()}
    if dim in wanted:
        wanted[dim] = -(-wanted[dim] // pieces.size)
    goal = min(room.usual, _share(pieces, systems, pool, each))
    block, taken = _fitting(checked, pieces, wanted, goal, each, room.memory)
    _check_fits(math.prod(block.values()) * each, room.most * each)
    check_reading(taken, room.memory)
    narrow = _narrow(block, dim, pieces, max(1, min(LARGE_TASK, room.most * each)), itemsize)
    ends = math.prod(narrow.values()) * _HELD_ENDS * itemsize
    _check_fits(ends, room.most * each)
    blocks = math.prod(
        -(-size // block[name]) for name, size in {**checked.sizes, dim: pieces.count}.items()
    )
    at_once = min(pool.workers * pool.threads, blocks)
    return _Cut(block, narrow, at_once * max(taken, ends) + held)


def _fitting(
    checked: CheckedBanded,
    pieces: Pieces,
    wanted: Mapping[str, int],
    goal: int,
    each: int,
    memory: int,
) -> tuple[dict[str, int], int]:
    """Return sizes of a block of no more than `goal` pieces, and the bytes that it takes.

    It has fewer where the chunks that are decoded for it would not fit beside it.
    """
    reading = reading_of(checked.opened, checked.request.variables)
    dim = checked.request.dim
    while True:
        block = _wide(checked, pieces, wanted, goal)
        rows = reading.bytes({**block, dim: block[dim] * pieces.size})
        taken = math.prod(block.values()) * each + rows
        if taken <= memory or goal == 1:
            return block, taken
        goal = -(-goal // 2)


def _share(pieces: Pieces, systems: int, pool: Pool, each: int) -> int:
    """Return how many pieces a block has so that all workers have some blocks."""
    share = -(-systems * pieces.count // (TASKS_PER_WORKER * pool.workers))
    return max(share, SMALL_TASK // each, 1)


def _wide(
    checked: CheckedBanded, pieces: Pieces, wanted: Mapping[str, int], goal: int
) -> dict[str, int]:
    """Return sizes of a block; dimensions with many chunks in a block are halved first."""
    dim, sizes = checked.request.dim, {**checked.sizes, checked.request.dim: pieces.count}
    chunks = {name: chunks_of(checked).get(name, 1) for name in sizes}
    chunks[dim] = -(-chunks[dim] // pieces.size)
    block = {name: max(1, wanted.get(name, size)) for name, size in sizes.items()}
    ones = dict.fromkeys(sizes, 1)
    for step in (chunks, ones):
        while math.prod(block.values()) > goal:
            free = [n for n in block if n not in wanted and block[n] > step[n]]
            if not free:
                break
            name = max(free, key=lambda n, step=step: block[n] / step[n])
            half = -(-block[name] // 2)
            block[name] = min(-(-half // step[name]) * step[name], block[name] - 1)
    return block


def _narrow(
    block: Mapping[str, int], dim: str, pieces: Pieces, most: int, itemsize: int
) -> dict[str, int]:
    """Return sizes of a block that has all pieces of as many systems as fit."""
    narrow = {**block, dim: pieces.count}
    while math.prod(narrow.values()) * _HELD_ENDS * itemsize > most:
        free = [name for name in narrow if name != dim and narrow[name] > 1]
        if not free:
            break
        narrow[free[0]] = -(-narrow[free[0]] // 2)
    return narrow


def _check_fits(needed: int, available: int) -> None:
    if needed > available:
        raise CapacityError(
            f"A block of rows needs {needed} bytes, but {available} are free for it.",
            hint="Give smaller 'chunks', or leave them out.",
            needed=needed,
            available=available,
        )


def _blocks(sizes: Mapping[str, int], block: Mapping[str, int]) -> tuple[Block, ...]:
    return partition((1, 1, 1), tuple(sizes.values()), (1, 1, 1), tuple(block.values()))


def _handed_on(itemsize: int) -> int:
    """Return the bytes that passes hand on for a piece."""
    return sum(
        count * (np.dtype(kind).itemsize if kind else itemsize) for count, kind in BETWEEN.values()
    )


def _between(
    checked: CheckedBanded, cut: _Cut, pieces: Pieces, folder: Path | None
) -> tuple[Source, Sink]:
    """Make the arrays that passes hand on, here or in a folder; no chunk has two writers."""
    sizes = {**checked.sizes, checked.request.dim: pieces.count}
    shapes = {
        name: ((count, *sizes.values()), kind or checked.dtype)
        for name, (count, kind) in BETWEEN.items()
    }
    if folder is None:
        arrays = {name: np.empty(shape, kind) for name, (shape, kind) in shapes.items()}
        return Arrays(arrays), ArraySink(arrays)
    ZARR.create_group(str(folder), zarr_format=3)
    for name, (shape, kind) in shapes.items():
        block = cut.narrow if name == "known" else cut.block
        ZARR.create_array(
            store=str(folder),
            name=name,
            shape=shape,
            chunks=(shape[0], *(max(1, block[dim]) for dim in sizes)),
            dtype=kind,
            compressors=None,
            zarr_format=3,
        )
    return ArrayStore(str(folder)), ZarrSink(str(folder))
