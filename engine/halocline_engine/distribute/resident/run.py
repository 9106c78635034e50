"""From a planned job to its result, with blocks that stay in memory; lost ranks cost some steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import xarray as xr

from halocline_engine.datasets.stores.result import open_result
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.blocks.work import saved_results, sources_of
from halocline_engine.distribute.executors.base import Done, Pool
from halocline_engine.distribute.jobs.checkpoint import CheckpointTimes
from halocline_engine.distribute.jobs.losses import Losses, lost_for_good, without_losses
from halocline_engine.distribute.jobs.shares import Shares
from halocline_engine.distribute.resident.model import Checkpoints, RankJob
from halocline_engine.distribute.resident.plan import Choice, ResidentPlan
from halocline_engine.distribute.resident.work import ResidentWork
from halocline_engine.distribute.stencils.job import Job
from halocline_engine.distribute.stencils.plan import PASS_CHUNK, chunks_for
from halocline_engine.distribute.stencils.results import Results, ResumePoint, resume_point
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Finished,
    Measured,
    OnEvent,
    Resumed,
    SnapshotWritten,
)

__all__ = ["run_resident"]


@dataclass(slots=True)
class _Run:
    """A job on its way: what its ranks have moved and measured, and how often they were lost."""

    job: Job
    resident: ResidentPlan
    pool: Pool
    on_event: OnEvent
    cancelled: CancelToken | None
    times: CheckpointTimes
    losses: Losses
    sums: Counter[str] = field(default_factory=Counter[str])
    measured: Measured | None = None
    peak: int = 0

    def ranks(self, found: ResumePoint, results: Results) -> None:
        """Run all ranks from the newest checkpoint on, until their results are written."""
        self.sums.clear()
        if found.steps_done:
            self.on_event(Resumed(found.steps_done, self.job.steps))
        work = self._work(found, results)
        shares = Shares(self.job.target, self.job.work)
        for one in self.pool.run_ranks(work, len(self.resident.ranks), self.cancelled):
            if isinstance(one, Done):
                report = one.report
                self.sums.update(read=report.bytes_read, written=report.bytes_written)
                self.peak = max(self.peak, report.peak_bytes)
                mine = self.resident.ranks[report.index]
                steps = self.made - found.steps_done
                shares.add(one.worker, report, mine, steps, rank=report.index)
                continue
            if isinstance(one, (Checkpointed, SnapshotWritten)):
                self.losses.count = 0
            if isinstance(one, Measured):
                self.measured = one
            self.on_event(one)
        for told in shares.told():
            self.on_event(told)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the result tells of the steps that were made, where that was not known before."""
        if self.measured is None:
            return {}
        return {"halocline_steps": self.made, "halocline_change": self.measured.change}

    @property
    def made(self) -> int:
        """How many steps were made, at the end."""
        last = self.measured
        ended = last is not None and last.change <= last.below
        return last.steps_done if last is not None and ended else self.job.steps

    def _work(self, found: ResumePoint, results: Results) -> ResidentWork:
        job, plan = self.job, self.resident.plan
        sources = sources_of(job.uses, job.source, found.states)
        rank_job = RankJob(
            layout=plan.layout,
            code=job.code,
            scalars=job.scalars.steps(found.steps_done, job.steps - found.steps_done),
            sources=job.forcing.sources(sources, job.source, found.steps_done),
            sink=results.sink,
            saved=saved_results(job.uses),
            blocks=self.resident.ranks,
            bundle=plan.steps_per_pass,
            deepest=self.resident.deepest,
            steps=job.steps,
            done=found.steps_done,
            target=job.target,
            checkpoints=self._checkpoints(),
            until=job.until,
            origin=self._origin(found),
            series=results.series,
            forcing=job.forcing,
            diagnosis=job.diagnosis,
            source=job.source,
            checkpoint=found.checkpoint,
        )
        return ResidentWork(rank_job)

    def _origin(self, found: ResumePoint) -> tuple[tuple[str, Source, str], ...]:
        """Return where what `until` measures was before the first step, if steps were made."""
        until, uses = self.job.until, self.job.uses
        if until is None or not found.steps_done:
            return ()
        return sources_of([use for use in uses if use.partner == until.field], self.job.source)

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
    pool: Pool,
    on_event: OnEvent,
    cancelled: CancelToken | None,
    times: CheckpointTimes,
    choice: Callable[[], Choice],
) -> xr.Dataset:
    """Make all steps of a job and return the result; raises what goes wrong.

    Where a rank is lost, `choice` cuts the job for the workers that are left, and it goes on from
    the newest checkpoint. Checkpoints stay in the workspace, whatever happens.
    """
    started = time.perf_counter()
    losses = Losses("a checkpoint was written")
    run = _Run(job, resident, pool, on_event, cancelled, times, losses)
    again = partial(_replan, run, choice)
    result = without_losses(partial(_once, run), again, losses, cancelled)
    seconds = time.perf_counter() - started
    on_event(Finished(seconds, run.sums["read"], run.sums["written"], run.peak))
    return result


def _replan(run: _Run, choice: Callable[[], Choice]) -> None:
    """Cut the job for the workers that are left."""
    found = choice()
    if found.resident is None:
        raise lost_for_good(found.reason)
    run.resident = found.resident
    run.job = replace(run.job, plan=found.resident.plan)


def _once(run: _Run) -> xr.Dataset:
    """Run the ranks once, to the end."""
    found = resume_point(run.job)
    with ExitStack() as stack:
        results = Results(run.job, stack, found, cancelled=run.cancelled)
        run.ranks(found, results)
        result = results.finish(run.made, run.attributes)
    if result is not None:
        return result
    assert run.job.output is not None
    return open_result(run.job.output)
