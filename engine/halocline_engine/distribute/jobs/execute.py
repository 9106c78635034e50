"""Jobs of passes over blocks that know nothing of each other: solves, and whatever is like them.

They share pools, events, sinks and the way results appear with the streamed mode of stencils. A
job says which variables it reads, what it makes, how it is cut up, and what a worker does with a
block; everything else happens here.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.memory.reached import reach_results
from halocline_engine.datasets.names import check_results
from halocline_engine.datasets.stores.device import BroughtToDevice
from halocline_engine.datasets.stores.result import (
    assemble,
    check_result,
    consolidate,
    create_result,
    frame_of,
    in_memory_copy,
    open_result,
)
from halocline_engine.datasets.stores.sink import (
    ArraySink,
    KeptArrays,
    Sink,
    ZarrSink,
    create_arrays,
)
from halocline_engine.datasets.stores.source import InMemory, Opened, Source
from halocline_engine.device.launch.streams import brought, wait_for_all
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.jobs.blocking import chunks_within
from halocline_engine.distribute.jobs.outputs import (
    check_output,
    check_space,
    field_bytes,
    published,
    result_needs,
    temporary_folder,
)
from halocline_engine.distribute.jobs.passes import Passes
from halocline_engine.distribute.jobs.places import reaches, readable
from halocline_engine.distribute.jobs.ranked import Ranked, run_ranked
from halocline_engine.distribute.jobs.shares import Shares
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import (
    OnEvent,
    Planned,
    Resumed,
)
from halocline_engine.distribute.tasks.model import BlockWork
from halocline_engine.errors import CapacityError
from halocline_engine.version import halocline_version

__all__ = [
    "Blockwise",
    "Output",
    "Stage",
    "check_blockwise",
    "frame_of_job",
    "history_of",
    "planned",
    "run_blockwise",
    "run_last_passes",
    "stages_of",
]


@dataclass(frozen=True, slots=True)
class Output:
    """A variable that is made. `chunks` are sizes along `dims` such that no chunk has two writers.

    A store holds values as they are unless `compressed`.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    chunks: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    compressed: bool = True

    @classmethod
    def of_blocks(
        cls,
        name: str,
        dims: tuple[str, ...],
        dtype: str,
        block: Mapping[str, int],
        sizes: Mapping[str, int],
        attributes: Mapping[str, Any] = MappingProxyType({}),
    ) -> Output:
        """Return a variable that blocks of such sizes make, of which no chunk lies in two."""
        chunks = chunks_within(dims, block, sizes, np.dtype(dtype).itemsize)
        return cls(name, dims, dtype, chunks, dict(attributes))

    @property
    def use(self) -> FieldUse:
        """The same, as results know it."""
        return FieldUse(self.name, self.name, (), self.dtype, self.dims, Role.CREATED)


@dataclass(frozen=True, slots=True)
class Stage:
    """One of several passes: its blocks know nothing of each other, and all of the pass before.

    `steps` is how many steps it completes, of a job of several.
    """

    work: BlockWork
    blocks: tuple[Block, ...]
    steps: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Blockwise:
    """A job. `sizes` are those of all dimensions of the outputs.

    `reads` are the variables that blocks read; `work` makes what a worker does from where it reads
    and where it writes; `projected` are the bytes that all processes need at once; `what` is said
    in the history. `frame` is the result without its variables, where it is given.

    A job of several `passes` has `stages` instead of `work`, which makes them from the same two and
    from a folder for what they hand on, which is None where all run in this process and are not to
    go through stores (`in_stores`). It may make each one when the one before has ended. Of its
    `steps` so many `steps_done`, in `passes_done`, need not be made: these are not among `stages`.
    Instead of both it may be `ranked`: its data stay in memory. Or one block makes each output as a
    `whole`, in this process; it may read and make arrays of the device (`on_device`). Its kernels
    make so many floating-point `operations` in all; 0 where it only moves values.
    """

    opened: Opened
    sizes: Mapping[str, int]
    reads: tuple[str, ...]
    outputs: tuple[Output, ...]
    blocks: tuple[Block, ...]
    work: Callable[[Source, Sink], BlockWork] | None
    what: str
    target: str
    projected: int
    output: Path | None
    frame: xr.Dataset | None = None
    passes: int = 1
    stages: Callable[[Source, Sink, Path | None], Iterable[Stage]] | None = None
    note: str = ""
    between: int = 0
    in_stores: bool = False
    steps: int = 1
    steps_done: int = 0
    passes_done: int = 0
    ranked: Ranked | None = None
    operations: int = 0
    whole: bool = False
    on_device: bool = False

    @property
    def grid(self) -> Grid:
        """The dimensions of the outputs, none of which is I, J or K."""
        sizes = tuple(self.sizes.values())
        return Grid((None, None, None), (1, 1, 1), tuple(self.sizes), sizes)

    @property
    def uses(self) -> list[FieldUse]:
        """The outputs, as results know them."""
        return [output.use for output in self.outputs]

    @property
    def attributes(self) -> dict[str, Mapping[str, Any]]:
        """The attributes of the outputs."""
        return {output.name: output.attributes for output in self.outputs}


def run_blockwise(
    job: Blockwise, pool: Pool, on_event: OnEvent, cancelled: CancelToken | None, reason: str
) -> xr.Dataset:
    """Run a job and return its result, in memory or, where it has an output, opened lazily.

    Raises `FieldError`, `OutputError` or `CapacityError` before anything is read or written, and
    leaves nothing where a block fails.
    """
    passes = Passes(
        pool,
        on_event,
        cancelled,
        total=job.passes,
        steps=job.steps,
        done=job.passes_done,
        steps_done=job.steps_done,
        shares=Shares(job.target, operations=job.operations),
    )
    check_blockwise(job, pool)
    on_event(planned(job, pool, reason))
    if job.steps_done:
        on_event(Resumed(job.steps_done, job.steps))
    return run_last_passes(job, passes)


def run_last_passes(job: Blockwise, passes: Passes) -> xr.Dataset:
    """Run the passes of a job, which may be the last ones of several, and return its result."""
    pool = passes.pool
    if job.whole:
        kept, source = KeptArrays(), job.opened.source
        if job.on_device:
            wait_for_all()  # streams of the caller may still be writing there
            source = BroughtToDevice(job.opened.dataset, brought)
        return _in_memory(job, passes, source, kept, kept.arrays, None)
    with ExitStack() as stack:
        parent = None if job.output is None else job.output.parent
        made = stack.enter_context(temporary_folder(parent))
        source = readable(job.opened, job.reads, pool, stack, made / "input")
        between = made / "between" if pool.remote or job.in_stores else None
        uses = {output.name: output.use for output in job.outputs}
        if job.output is not None or _in_store(job, pool):
            return _stored(job, passes, source, job.output or made / "result", between)
        if pool.remote:
            sink, arrays = reach_results(uses, job.grid, stack)
            return _in_memory(job, passes, source, sink, arrays, between)
        arrays = create_arrays(uses, job.grid)
        return _in_memory(job, passes, source, ArraySink(arrays), arrays, between)


def _in_memory(
    job: Blockwise,
    passes: Passes,
    source: Source,
    sink: Sink,
    arrays: Mapping[str, NDArray[Any]],
    between: Path | None,
) -> xr.Dataset:
    _run(job, passes, source, sink, between)
    result = assemble(frame_of_job(job), job.uses, arrays, job.attributes)
    passes.on_event(passes.end())
    return result


def _stored(
    job: Blockwise, passes: Passes, source: Source, place: Path, between: Path | None
) -> xr.Dataset:
    here, frame = job.output is None, frame_of_job(job)
    with published(place, passes.cancelled) as part:
        chunks = {o.name: dict(zip(o.dims, o.chunks, strict=True)) for o in job.outputs}
        plain = [output.name for output in job.outputs if not output.compressed]
        stored, attributes = (xr.Dataset(), {}) if here else (frame, job.attributes)
        create_result(part, stored, job.uses, job.grid, chunks, attributes, plain)
        # What comes now are values, which no metadata tell of.
        consolidate(part)
        _run(job, passes, source, ZarrSink(str(part)), between)
    passes.on_event(passes.end())
    result = open_result(place)
    return in_memory_copy(result, frame, job.attributes) if here else result


def _run(job: Blockwise, passes: Passes, source: Source, sink: Sink, between: Path | None) -> None:
    """Run all blocks of all passes; the first pass is timed from the start of the run."""
    if job.ranked is not None:
        run_ranked(job.ranked, passes, source, sink)
        return
    for stage in stages_of(job, source, sink, between):
        last = passes.done + 1 == passes.total
        since = None if passes.done else passes.started
        passes.run(stage.work, stage.blocks, steps=max(stage.steps, int(last)), since=since)


def stages_of(job: Blockwise, source: Source, sink: Sink, between: Path | None) -> Iterable[Stage]:
    """Return the passes of a job from a source to a sink.

    `between` is a folder for what they hand on, or None where all run in this process.
    """
    if job.stages is not None:
        return job.stages(source, sink, between)
    assert job.work is not None
    return (Stage(job.work(source, sink), job.blocks),)


def check_blockwise(job: Blockwise, pool: Pool) -> None:
    """Raise `OutputError` or `CapacityError` where the result of a job has no place.

    Raises `FieldError` where its variables cannot be called so.
    Coordinates and attributes that cannot be stored are refused as well.
    """
    dims = {dim for output in job.outputs for dim in output.dims}
    taken = dims | {str(name) for name in frame_of_job(job).coords}
    check_results([output.name for output in job.outputs], taken)
    size = field_bytes(job.uses, job.grid)
    if job.output is not None:
        check_result(frame_of_job(job), job.uses, job.grid, job.attributes, job.output)
        check_output(job.output, job.opened.place)
    held = _held(job, pool)
    if held > pool.memory and not pool.remote:
        raise CapacityError(
            f"The result needs {held} bytes of memory, but only {pool.memory} are free.",
            hint="Give output= to write it to a Zarr store instead.",
            needed=held,
            available=pool.memory,
        )
    scratch = job.output.parent if job.output is not None else Path(tempfile.gettempdir())
    needs = [(scratch, size)] if _in_store(job, pool) else []
    if job.output is not None:
        needs = [result_needs(job.output, size)]
    if pool.remote or job.in_stores:
        needs.append((scratch, job.between))
    read_here = pool.remote and isinstance(job.opened.source, InMemory)
    if read_here and not reaches(pool, _input_bytes(job)):
        needs.append((scratch, _input_bytes(job)))
    check_space(needs)


def _held(job: Blockwise, pool: Pool) -> int:
    """Return the bytes of the result that stay in this process while blocks are computed there."""
    stored = job.output is not None or _in_store(job, pool)
    return 0 if stored or job.on_device else field_bytes(job.uses, job.grid)


def _in_store(job: Blockwise, pool: Pool) -> bool:
    """Whether a result that is to be in memory is a store on its way there."""
    return pool.remote and not reaches(pool, field_bytes(job.uses, job.grid))


def planned(job: Blockwise, pool: Pool, reason: str) -> Planned:
    """Return the event that says how a job will run."""
    ranked = job.ranked
    reason = reason if ranked is None else ranked.reason
    return Planned(
        mode="streamed" if ranked is None else "resident",
        reason=f"{reason}; {job.note}" if job.note else reason,
        target=job.target,
        workers=pool.workers,
        blocks=len(job.blocks),
        passes=job.passes,
        steps=job.steps,
        steps_per_pass=1,
        projected_bytes=job.projected + _held(job, pool),
        input_bytes=_input_bytes(job),
        result_bytes=field_bytes(job.uses, job.grid),
        transport="none" if ranked is None else ranked.transport,
    )


def _input_bytes(job: Blockwise) -> int:
    return sum(int(job.opened.dataset[name].nbytes) for name in dict.fromkeys(job.reads))


def frame_of_job(job: Blockwise) -> xr.Dataset:
    """Return the result of a job without its variables."""
    if job.frame is not None:
        return job.frame
    return frame_of(job.opened.dataset, job.uses, history_of(job.what))


def history_of(what: str) -> str:
    """Return the line that a job adds to the history."""
    now = dt.datetime.now(dt.UTC)
    return f"{now:%Y-%m-%dT%H:%M:%SZ} halocline {halocline_version()}: {what}"
