"""From a planned job to its result, with blocks that stay in memory; lost ranks cost some steps."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

import xarray as xr

from halocline_engine.datasets.stores.result import open_result
from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.executors.base import Done, RankPool
from halocline_engine.distribute.jobs.checkpoint import CheckpointTimes
from halocline_engine.distribute.jobs.shares import Shares
from halocline_engine.distribute.resident.model import Checkpoints, RankJob
from halocline_engine.distribute.resident.plan import ResidentPlan
from halocline_engine.distribute.resident.work import ResidentWork
from halocline_engine.distribute.stencils.job import Job
from halocline_engine.distribute.stencils.plan import PASS_CHUNK, chunks_for
from halocline_engine.distribute.stencils.results import Begun, Results, begun
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Finished,
    Measured,
    OnEvent,
    Resumed,
    SnapshotWritten,
)
from halocline_engine.errors import ClusterError

__all__ = ["Replanned", "run_resident"]

#: So many times in a row ranks may be lost before a checkpoint is written.
_LOSSES = 3
#: Seconds until a cluster that lost a rank is asked again what it has.
_AGAIN = 1.0


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

    def ranks(self, found: Begun, results: Results, sums: Counter[str]) -> None:
        """Run all ranks from the newest checkpoint on, until their results are written."""
        if found.steps_done:
            self.on_event(Resumed(found.steps_done, self.job.steps))
        work = self._work(found, results)
        shares = Shares(self.job.target, self.job.work)
        for one in self.pool.run_ranks(work, len(self.resident.ranks), self.cancelled):
            if isinstance(one, Done):
                report = one.report
                sums.update(read=report.bytes_read, written=report.bytes_written)
                self.peak = max(self.peak, report.peak_bytes)
                mine = self.resident.ranks[report.index]
                steps = self.made - found.steps_done
                shares.add(one.worker, report, mine, steps, rank=report.index)
                continue
            if isinstance(one, (Checkpointed, SnapshotWritten)):
                self.losses = 0
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

    def _work(self, found: Begun, results: Results) -> ResidentWork:
        job, plan, states = self.job, self.resident.plan, found.states
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
            sink=results.sink,
            saved=tuple((use.variable, use.name) for use in job.uses if use.result),
            blocks=self.resident.ranks,
            bundle=plan.steps_per_pass,
            deepest=self.resident.deepest,
            steps=job.steps,
            done=found.steps_done,
            target=job.target,
            checkpoints=self._checkpoints(),
            until=job.until,
            series=results.series,
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
        result = _attempt(run, sums)
        if not isinstance(result, RankLostError):
            break
        run.losses += 1
        if run.losses > _LOSSES:
            raise ClusterError(
                f"Workers were lost {run.losses} times before a checkpoint was written: {result}",
                hint="They may lack memory: use more workers, or mode='streamed'.",
            ) from result
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


def _attempt(run: _Run, sums: Counter[str]) -> xr.Dataset | RankLostError:
    """Run the ranks once; return the result, or that one was lost.

    A cluster keeps the error of a rank, whose traceback has all frames that it passed: they are
    cleared, since they hold arrays of the result.
    """
    try:
        return _once(run, sums)
    except RankLostError as error:
        passed: BaseException | None = error
        while passed is not None:
            traceback.clear_frames(passed.__traceback__)
            passed = passed.__context__
        return error


def _once(run: _Run, sums: Counter[str]) -> xr.Dataset:
    """Run the ranks once, to the end."""
    found = begun(run.job)
    with ExitStack() as stack:
        results = Results(run.job, stack, found)
        run.ranks(found, results, sums)
        result = results.finish(run.made, run.attributes)
    if result is not None:
        return result
    assert run.job.output is not None
    return open_result(run.job.output)


def _wait(cancelled: CancelToken | None) -> None:
    """Give a scheduler time to notice who is gone."""
    until = time.monotonic() + _AGAIN
    while time.monotonic() < until:
        raise_if_cancelled(cancelled)
        time.sleep(0.05)
