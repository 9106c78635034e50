"""The streamed mode: pass after pass over the blocks, from store to store.

Each pass reads every block once with a halo as deep as its steps need, makes the steps, and writes
the block. Between passes the fields that the next step reads are in a store under the workspace,
which is a checkpoint, or in arrays of this process where there is no workspace.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import packed_source
from halocline_engine.datasets.stores.chunks import CachedSource, clear_cache
from halocline_engine.datasets.stores.result import open_result
from halocline_engine.datasets.stores.sink import (
    ArraySink,
    Sink,
    ZarrSink,
    create_arrays,
    create_store,
)
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Source
from halocline_engine.datasets.times.forcing import RecordSource
from halocline_engine.device.launch.streams import wait_for_all
from halocline_engine.distribute.blocks.work import Work, saved_results, saved_states, sources_of
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.checkpoint import (
    MARK,
    begin_pass,
    finish_pass,
    prune,
)
from halocline_engine.distribute.jobs.passes import Passes, is_snapshot, pass_ends
from halocline_engine.distribute.jobs.shares import Shares
from halocline_engine.distribute.pipeline.resources import PipelineResources, open_resources
from halocline_engine.distribute.pipeline.runs import PipelinedRuns, end_runs
from halocline_engine.distribute.pipeline.stages import PipelinedWork
from halocline_engine.distribute.stencils.job import Job
from halocline_engine.distribute.stencils.order import stored_variables
from halocline_engine.distribute.stencils.plan import PASS_CHUNK, chunks_for
from halocline_engine.distribute.stencils.results import Results, resume_point
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import (
    OnEvent,
    Resumed,
    SnapshotWritten,
)
from halocline_engine.distribute.tasks.model import BlockWork

__all__ = ["stream"]


@dataclass(slots=True)
class _Progress:
    """Progress of a run, and the state that it keeps from pass to pass."""

    passes: Passes
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    resources: PipelineResources | None = None
    spare: list[NDArray[Any]] = field(default_factory=list["NDArray[Any]"])


def stream(job: Job, pool: Pool, on_event: OnEvent, cancelled: CancelToken | None) -> xr.Dataset:
    """Make all steps of a job and return the result; raises what goes wrong, and leaves nothing.

    Finished passes stay in the workspace, whatever happens.
    """
    found = resume_point(job)
    states = found.states
    passes = _passes(job, pool, on_event, cancelled, found.steps_done)
    progress = _Progress(passes)
    if found.steps_done:
        on_event(Resumed(found.steps_done, job.steps))
    with ExitStack() as stack:
        if job.plan.slots and pool.remote:
            stack.callback(pool.everywhere, partial(end_runs, progress.run, job.target))
        elif job.plan.slots:
            progress.resources = stack.enter_context(
                open_resources(
                    job.target,
                    direct_io=job.plan.direct_io,
                    device_decoding=job.plan.device_decoding,
                )
            )
        results = Results(job, stack, found, progress.spare, cancelled=cancelled)
        for end in _ends(job, passes.steps_done, job.steps):
            if end < job.steps and not is_snapshot(end, job.every):
                states = _pass_between(job, progress, states, end)
                continue
            _pass(job, progress, _work(job, progress, states, results.at(end), end, last=True))
            if end < job.steps:
                states = _snapshot(job, results, end, on_event)
        if job.on_device:
            wait_for_all()
        result = results.finish(job.steps, {})
    on_event(passes.end())
    if result is not None:
        return result
    assert job.output is not None
    return open_result(job.output)


def _passes(
    job: Job,
    pool: Pool,
    on_event: OnEvent,
    cancelled: CancelToken | None,
    steps_done: int,
) -> Passes:
    """Return the passes of the run, of which those are done that earlier runs have made."""
    done = sum(1 for _ in _ends(job, 0, steps_done))
    total = done + sum(1 for _ in _ends(job, steps_done, job.steps))
    return Passes(
        pool,
        on_event,
        cancelled,
        total,
        steps=job.steps,
        done=done,
        steps_done=steps_done,
        shares=Shares(job.target, job.work),
    )


def _ends(job: Job, done: int, steps: int) -> Iterator[int]:
    """Yield after how many steps each pass ends: a pass has the same records in all its steps."""
    return pass_ends(done, steps, job.plan.steps_per_pass, job.every, job.forcing.changes)


def _snapshot(
    job: Job, results: Results, steps_done: int, on_event: OnEvent
) -> Mapping[str, Source]:
    """Say that a snapshot is complete; return where the next pass finds its fields."""
    started = time.perf_counter()
    assert results.series is not None
    results.series.complete(steps_done)
    on_event(SnapshotWritten(steps_done, job.steps, time.perf_counter() - started))
    return results.states(steps_done)


def _pass_between(
    job: Job, progress: _Progress, states: Mapping[str, Source], end: int
) -> Mapping[str, Source]:
    """Make a pass after which nothing is a result; return where its fields are."""
    if job.workspace is None:
        arrays = create_arrays({use.name: use for use in job.kept}, job.grid, progress.spare)
        _pass(job, progress, _work(job, progress, states, ArraySink(arrays), end, last=False))
        # The next pass writes where this one read: pages that are there, and perhaps locked.
        for name, source in states.items():
            if isinstance(source, Arrays):
                progress.spare.append(source.arrays[name])
        return {use.name: Arrays(arrays) for use in job.kept}
    path = begin_pass(job.workspace, job.attempt, end)
    chunks = {use.name: chunks_for(job.plan, use, PASS_CHUNK) for use in job.kept}
    create_store(path, job.kept, job.grid, chunks, MARK)
    _pass(job, progress, _work(job, progress, states, ZarrSink(str(path)), end, last=False))
    finish_pass(path, job.fingerprint, end)
    prune(job.workspace, job.fingerprint)
    return {use.name: ArrayStore(str(path)) for use in job.kept}


def _pass(job: Job, progress: _Progress, work: Work) -> None:
    """Run all blocks of one pass; afterwards the chunks that were kept are dropped."""
    pool = progress.passes.pool
    try:
        progress.passes.run(
            _overlapped(job, pool, work, progress), job.plan.blocks, steps=work.steps
        )
    finally:
        if job.plan.cache:
            pool.everywhere(partial(clear_cache, progress.run, job.plan.cache))


def _overlapped(job: Job, pool: Pool, work: Work, progress: _Progress) -> BlockWork:
    """Return the work of a pass, in a pipeline where the plan has one."""
    slots, resources = job.plan.slots, progress.resources
    if slots and pool.remote:
        plan = job.plan
        ways = (plan.direct_io, plan.device_decoding, pool.workers_per_host)
        return PipelinedRuns(work, slots, job.target, progress.run, plan.runs, *ways)
    return work if resources is None else PipelinedWork(work, slots, resources)


def _work(
    job: Job,
    progress: _Progress,
    states: Mapping[str, Source],
    sink: Sink,
    end: int,
    *,
    last: bool,
) -> Work:
    done = progress.passes.steps_done
    return Work(
        layout=job.plan.layout,
        code=job.code,
        scalars=job.scalars.steps(done, end - done),
        sources=_sources(job, progress, states),
        sink=sink,
        saved=saved_results(job.uses) if last else saved_states(job.uses),
        steps=end - done,
        on_device=job.on_device,
    )


def _sources(
    job: Job, progress: _Progress, states: Mapping[str, Source]
) -> tuple[tuple[str, Source, str], ...]:
    """Return where loaded fields are read: through the cache of a process, where chunks are known.

    What blocks share is counted even where nothing is kept.
    """
    sources = sources_of(job.uses, job.source, states)
    sources = job.forcing.sources(sources, job.source, progress.passes.steps_done)
    first = {name: variable for name, _, variable in sources if name not in states}
    kept = [
        replace(use, chunks=tuple(chunks_for(job.plan, use, PASS_CHUNK).values()))
        for use in job.kept
    ]
    # Places of snapshots are read as they are.
    names = {use.name: use.name for use in kept if isinstance(states.get(use.name), ArrayStore)}
    known = stored_variables(job.uses if job.stored else (), job.grid, first)
    known |= stored_variables(kept if job.workspace is not None else (), job.grid, names)
    dtypes = {use.name: use.dtype for use in job.uses}

    def cached(name: str, source: Source, variable: str) -> Source:
        if name not in known:
            return source
        # Each pass reads what the one before it wrote: chunks of the same place, other values.
        place = f"pass {progress.passes.done}" if name in states else "source"
        if isinstance(source, RecordSource):
            place = f"record {source.index}"
        packed = packed_source(source, variable, dtypes[name])
        return CachedSource(packed, place, (known[name],), job.plan.cache, progress.run)

    return tuple(
        (name, cached(name, source, variable), variable) for name, source, variable in sources
    )
