"""From a planned job to its result, with blocks that stay in memory; lost ranks cost some steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

import xarray as xr

from halocline_engine.datasets.stores.result import (
    add_attributes,
    assemble,
    consolidate,
    open_result,
)
from halocline_engine.datasets.stores.shared import share_results
from halocline_engine.datasets.stores.sink import ArraySink, Sink, ZarrSink, create_arrays
from halocline_engine.datasets.stores.source import ArrayStore, Source
from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.executors.base import Done, RankPool
from halocline_engine.distribute.jobs.checkpoint import newest_pass
from halocline_engine.distribute.jobs.outputs import published
from halocline_engine.distribute.resident.model import Checkpoints, RankJob
from halocline_engine.distribute.resident.plan import ResidentPlan
from halocline_engine.distribute.resident.work import ResidentWork
from halocline_engine.distribute.stencils.job import Job
from halocline_engine.distribute.stencils.passes import create_output, results_of
from halocline_engine.distribute.stencils.plan import PASS_CHUNK, chunks_for
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Finished,
    Measured,
    OnEvent,
    Resumed,
)
from halocline_engine.errors import ClusterError

__all__ = ["CheckpointTimes", "Replanned", "run_resident"]

#: So many times in a row ranks may be lost before a checkpoint is written.
_LOSSES = 3
#: Seconds until a cluster that lost a rank is asked again what it has.
_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """How often checkpoints are written: after so many steps, or seconds; None for neither."""

    steps: int | None
    seconds: float | None


class Replanned(Protocol):
    """How a job would run on the workers that there are now."""

    @property
    def reason(self) -> str:
        """Why so."""
        ...

    @property
    def resident(self) -> ResidentPlan | None:
        """The plan where blocks stay in memory."""
        ...


@dataclass(slots=True)
class _Run:
    """A job on its way: what its ranks have moved, and how often they were lost in a row."""

    job: Job
    resident: ResidentPlan
    pool: RankPool
    on_event: OnEvent
    cancelled: CancelToken | None
    times: CheckpointTimes
    losses: int = 0
    measured: Measured | None = None
    peak: int = 0

    def ranks(self, sink: Sink, sums: Counter[str]) -> None:
        """Run all ranks from the newest checkpoint on, until their results are in the sink."""
        done, states = self._begin()
        work = self._work(done, states, sink)
        for one in self.pool.run_ranks(work, len(self.resident.ranks), self.cancelled):
            if isinstance(one, Done):
                sums.update(read=one.report.bytes_read, written=one.report.bytes_written)
                self.peak = max(self.peak, one.report.peak_bytes)
                continue
            if isinstance(one, Checkpointed):
                self.losses = 0
            if isinstance(one, Measured):
                self.measured = one
            self.on_event(one)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the result tells of the steps that were made, where that was not known before."""
        if self.measured is None:
            return {}
        last = self.measured
        made = last.steps_done if last.change <= last.below else self.job.steps
        return {"halocline_steps": made, "halocline_change": last.change}

    def _begin(self) -> tuple[int, Mapping[str, Source]]:
        """Return where to start: at the newest checkpoint of this job, or at its input."""
        job = self.job
        found = newest_pass(job.workspace, job.fingerprint) if job.workspace is not None else None
        if found is None:
            return 0, {}
        self.on_event(Resumed(found.steps_done, job.steps))
        return found.steps_done, {use.name: ArrayStore(str(found.path)) for use in job.kept}

    def _work(self, done: int, states: Mapping[str, Source], sink: Sink) -> ResidentWork:
        job, plan = self.job, self.resident.plan
        sources = tuple(
            (
                use.name,
                states.get(use.name, job.source),
                use.name if use.name in states else use.variable,
            )
            for use in job.uses
            if use.loaded
        )
        rank_job = RankJob(
            layout=plan.layout,
            code=job.code,
            scalars=tuple(sorted(job.scalars.items())),
            sources=sources,
            sink=sink,
            saved=tuple((use.variable, use.name) for use in job.uses if use.result),
            blocks=self.resident.ranks,
            bundle=plan.steps_per_pass,
            deepest=self.resident.deepest,
            steps=job.steps,
            done=done,
            target=job.target,
            checkpoints=self._checkpoints(),
            until=job.until,
        )
        return ResidentWork(rank_job)

    def _checkpoints(self) -> Checkpoints | None:
        job = self.job
        if job.workspace is None:
            return None
        chunks = {use.name: chunks_for(job.plan, use, PASS_CHUNK) for use in job.kept}
        return Checkpoints(
            job.workspace,
            job.attempt,
            job.fingerprint,
            chunks,
            self.times.steps,
            self.times.seconds,
        )


def run_resident(
    job: Job,
    resident: ResidentPlan,
    pool: RankPool,
    on_event: OnEvent,
    cancelled: CancelToken | None,
    times: CheckpointTimes,
    choice: Callable[[], Replanned],
) -> xr.Dataset:
    """Make all steps of a job and return the result; raises what goes wrong.

    Where a rank is lost, `choice` cuts the job for the workers that are left, and it goes on from
    the newest checkpoint. Checkpoints stay in the workspace, whatever happens.
    """
    started = time.perf_counter()
    run = _Run(job, resident, pool, on_event, cancelled, times)
    while True:
        sums: Counter[str] = Counter()
        try:
            result = _once(run, sums)
            break
        except RankLostError as error:
            run.losses += 1
            if run.losses > _LOSSES:
                raise ClusterError(
                    f"Workers were lost {run.losses} times before a checkpoint was written:"
                    f" {error}",
                    hint="They may lack memory: use more workers, or mode='streamed'.",
                ) from error
            _wait(cancelled)
            _replan(run, choice)
    seconds = time.perf_counter() - started
    on_event(Finished(seconds, sums["read"], sums["written"], run.peak))
    return result


def _replan(run: _Run, choice: Callable[[], Replanned]) -> None:
    """Cut the job for the workers that are left."""
    found = choice()
    if found.resident is None:
        raise ClusterError(
            f"A worker was lost, and with those that are left {found.reason}.",
            hint="Run the job again, with more workers or the same workspace.",
        )
    run.resident = found.resident
    run.job = replace(run.job, plan=found.resident.plan)


def _once(run: _Run, sums: Counter[str]) -> xr.Dataset:
    """Run the ranks once, to the end."""
    job = run.job
    if job.shared:
        with ExitStack() as stack:
            sink = share_results(results_of(job), job.grid, stack)
            run.ranks(sink, sums)
            frame = job.frame.assign_attrs(run.attributes)
            return assemble(job.dataset, frame, job.uses, sink.values())
    if job.output is None:
        arrays = create_arrays(results_of(job), job.grid)
        run.ranks(ArraySink(arrays), sums)
        frame = job.frame.assign_attrs(run.attributes)
        return assemble(job.dataset, frame, job.uses, arrays)
    with ExitStack() as stack:
        part = stack.enter_context(published(job.output))
        create_output(job, part)
        consolidate(part)
        run.ranks(ZarrSink(str(part)), sums)
        if run.attributes:
            add_attributes(part, run.attributes)
    return open_result(job.output)


def _wait(cancelled: CancelToken | None) -> None:
    """Give a scheduler time to notice who is gone."""
    until = time.monotonic() + _AGAIN
    while time.monotonic() < until:
        raise_if_cancelled(cancelled)
        time.sleep(0.05)
