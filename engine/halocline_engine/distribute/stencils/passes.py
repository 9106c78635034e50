"""The streamed mode: pass after pass over the blocks, from store to store.

Each pass reads every block once with a halo as deep as its steps need, makes the steps, and writes
the block. Between passes the fields that the next step reads are in a store under the workspace,
which is a checkpoint, or in arrays of this process where there is no workspace.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import packed_source
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.chunks import CachedSource, clear_cache
from halocline_engine.datasets.stores.result import (
    assemble,
    consolidate,
    create_result,
    open_result,
)
from halocline_engine.datasets.stores.sink import (
    ArraySink,
    Sink,
    ZarrSink,
    create_arrays,
    create_store,
)
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Source
from halocline_engine.distribute.blocks.work import Work
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.checkpoint import (
    MARK,
    begin_pass,
    finish_pass,
    newest_pass,
    prune,
)
from halocline_engine.distribute.jobs.outputs import published
from halocline_engine.distribute.jobs.passes import Passes
from halocline_engine.distribute.pipeline.resources import PipelineResources, open_resources
from halocline_engine.distribute.pipeline.runs import PipelinedRuns, end_runs
from halocline_engine.distribute.pipeline.stages import PipelinedWork
from halocline_engine.distribute.stencils.job import Job
from halocline_engine.distribute.stencils.order import stored_variables
from halocline_engine.distribute.stencils.plan import PASS_CHUNK, RESULT_CHUNK, chunks_for
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import (
    OnEvent,
    Resumed,
)
from halocline_engine.distribute.tasks.model import BlockWork

__all__ = ["create_output", "results_of", "stream"]


@dataclass(slots=True)
class _Progress:
    """How far a run is, and what it keeps from pass to pass."""

    passes: Passes
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    resources: PipelineResources | None = None
    spare: list[NDArray[Any]] = field(default_factory=list["NDArray[Any]"])


def stream(job: Job, pool: Pool, on_event: OnEvent, cancelled: CancelToken | None) -> xr.Dataset:
    """Make all steps of a job and return the result; raises what goes wrong, and leaves nothing.

    Finished passes stay in the workspace, whatever happens.
    """
    progress, states = _begin(job, pool, on_event, cancelled)
    passes = progress.passes
    per_pass = job.plan.steps_per_pass
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
        while job.steps - passes.steps_done > per_pass:
            states = _pass_between(job, progress, states)
        if job.output is None:
            arrays = create_arrays(results_of(job), job.grid, progress.spare)
            _pass(job, progress, states, ArraySink(arrays), last=True)
            result = assemble(job.dataset, job.frame, job.uses, arrays)
        else:
            part = stack.enter_context(published(job.output))
            create_output(job, part)
            # What comes now are values, which no metadata tell of.
            consolidate(part)
            _pass(job, progress, states, ZarrSink(str(part)), last=True)
            result = None
    on_event(passes.end())
    if result is not None:
        return result
    assert job.output is not None
    return open_result(job.output)


def _begin(
    job: Job, pool: Pool, on_event: OnEvent, cancelled: CancelToken | None
) -> tuple[_Progress, Mapping[str, Source]]:
    """Return where to start: at the newest pass of this job, or at its input."""
    per_pass = job.plan.steps_per_pass
    found = newest_pass(job.workspace, job.fingerprint) if job.workspace is not None else None
    steps = 0 if found is None else found.steps_done
    done = -(-steps // per_pass)
    passes = Passes(
        pool,
        on_event,
        cancelled,
        total=done + -(-(job.steps - steps) // per_pass),
        steps=job.steps,
        done=done,
        steps_done=steps,
    )
    if found is None:
        return _Progress(passes), {}
    on_event(Resumed(steps, job.steps))
    return _Progress(passes), {use.name: ArrayStore(str(found.path)) for use in job.kept}


def _pass_between(
    job: Job, progress: _Progress, states: Mapping[str, Source]
) -> Mapping[str, Source]:
    """Make a pass that is not the last one; return where its fields are."""
    if job.workspace is None:
        arrays = create_arrays({use.name: use for use in job.kept}, job.grid, progress.spare)
        _pass(job, progress, states, ArraySink(arrays), last=False)
        # The next pass writes where this one read: pages that are there, and perhaps locked.
        for name, source in states.items():
            if isinstance(source, Arrays):
                progress.spare.append(source.arrays[name])
        return {use.name: Arrays(arrays) for use in job.kept}
    steps_done = progress.passes.steps_done + job.plan.steps_per_pass
    path = begin_pass(job.workspace, job.attempt, steps_done)
    chunks = {use.name: chunks_for(job.plan, use, PASS_CHUNK) for use in job.kept}
    create_store(path, job.kept, job.grid, chunks, MARK)
    _pass(job, progress, states, ZarrSink(str(path)), last=False)
    finish_pass(path, job.fingerprint, steps_done)
    prune(job.workspace, job.fingerprint)
    return {use.name: ArrayStore(str(path)) for use in job.kept}


def results_of(job: Job) -> dict[str, FieldUse]:
    """Return the results by the names of their variables."""
    return {use.variable: use for use in job.uses if use.result}


def create_output(job: Job, part: Path) -> None:
    """Create the store of the results, whose values come later."""
    results = [use for use in job.uses if use.result]
    chunks = {use.name: chunks_for(job.plan, use, RESULT_CHUNK) for use in results}
    plain = () if job.compressed else tuple(use.name for use in results)
    create_result(part, job.dataset, job.frame, job.uses, job.grid, chunks, plain)


def _pass(
    job: Job, progress: _Progress, states: Mapping[str, Source], sink: Sink, *, last: bool
) -> None:
    """Run all blocks of one pass; afterwards the chunks that were kept are dropped."""
    pool = progress.passes.pool
    work = _work(job, progress, states, sink, last=last)
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
    job: Job, progress: _Progress, states: Mapping[str, Source], sink: Sink, *, last: bool
) -> Work:
    shared = _shared(job, progress, states)
    sources = tuple(
        (use.name, shared[use.name], use.name if use.name in states else use.variable)
        for use in job.uses
        if use.loaded
    )
    saved = (
        [(use.variable, use.name) for use in job.uses if use.result]
        if last
        else [(use.name, use.partner or use.name) for use in job.kept]
    )
    return Work(
        layout=job.plan.layout,
        code=job.code,
        scalars=tuple(sorted(job.scalars.items())),
        sources=sources,
        sink=sink,
        saved=tuple(saved),
        steps=min(job.plan.steps_per_pass, job.steps - progress.passes.steps_done),
    )


def _shared(
    job: Job, progress: _Progress, states: Mapping[str, Source]
) -> dict[str, Source | CachedSource]:
    """Return where each loaded field is read: through the cache of a process, where that is known.

    What blocks share is counted even where nothing is kept.
    """
    first = {use.name: use.variable for use in job.uses if use.loaded and use.name not in states}
    kept = [
        replace(use, chunks=tuple(chunks_for(job.plan, use, PASS_CHUNK).values()))
        for use in job.kept
    ]
    names = {use.name: use.name for use in kept if use.name in states}
    known = stored_variables(job.uses if job.stored else (), job.grid, first)
    known |= stored_variables(kept if job.workspace is not None else (), job.grid, names)
    found: dict[str, Source | CachedSource] = {}
    for use in job.uses:
        source = states.get(use.name, job.source)
        if use.name in known:
            # Each pass reads what the one before it wrote: chunks of the same place, other values.
            place = f"pass {progress.passes.done}" if use.name in states else "source"
            variables = (known[use.name],)
            source = packed_source(source, known[use.name].name, use.dtype)
            source = CachedSource(source, place, variables, job.plan.cache, progress.run)
        found[use.name] = source
    return found
