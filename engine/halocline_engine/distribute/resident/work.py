"""The work of a rank: it loads its blocks, makes all steps, and writes their results."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from halocline_engine.backends.targets import TARGETS
from halocline_engine.device.launch.streams import own_stream
from halocline_engine.distribute.blocks.work import executable_of
from halocline_engine.distribute.communicators.base import Communicator, Tell, agree, shared
from halocline_engine.distribute.resident.checkpoints import CheckpointWriter
from halocline_engine.distribute.resident.fields import RankFields
from halocline_engine.distribute.resident.fusing import best_bundle
from halocline_engine.distribute.resident.measuring import Convergence
from halocline_engine.distribute.resident.model import RankJob
from halocline_engine.distribute.resident.stretches import Stretch, Stretches
from halocline_engine.distribute.tasks.events import Measured, StepsFinished
from halocline_engine.distribute.tasks.model import Report, peak_bytes
from halocline_engine.distribute.tasks.spent import Stopwatch

if TYPE_CHECKING:
    from halocline_engine.distribute.resident.measurements.diagnosing import Diagnoser

__all__ = ["ResidentWork"]


@dataclass(frozen=True, slots=True, eq=False)
class ResidentWork:
    """What the ranks of a job do: `communicators.base.RankWork`."""

    job: RankJob

    def run(self, communicator: Communicator, tell: Tell) -> Report:
        """Do the part of one rank."""
        watch = Stopwatch()
        with ExitStack() as stack:
            if TARGETS[self.job.target].on_device:
                stack.enter_context(own_stream())
            job = self._bundled(communicator)
            fields = RankFields(job, communicator, watch)
            complete = False
            try:
                read, written = _run(job, fields, communicator, tell, watch)
                complete = True
            finally:
                fields.close(complete=complete)
        seconds = time.perf_counter() - watch.began
        return Report(
            seconds,
            read,
            written,
            peak_bytes(),
            index=communicator.rank,
            spent=watch.total,
            intervals=watch.intervals,
        )

    def _bundled(self, communicator: Communicator) -> RankJob:
        """Return the job with the bundle that rank 0 finds best: ranks have the same geometry."""
        job = self.job

        def decide() -> dict[str, int]:
            executable = executable_of(job.code)
            box = job.blocks[0][0].box
            alone = len(job.blocks) == 1
            steps = best_bundle(executable, job.layout, box, job.bundle, job.deepest, alone=alone)
            return {"steps": steps}

        return replace(job, bundle=shared(communicator, ("bundle", 0), decide)["steps"])


def _load(job: RankJob, fields: RankFields, convergence: Convergence | None) -> int:
    """Read what the steps begin with, and remember where values are finite; return the bytes."""
    count = 0
    for sources in filter(None, (job.origin, job.sources)):
        count += fields.load(sources)
        if convergence is not None:
            convergence.remember()
    return count


def _diagnoser(job: RankJob, fields: RankFields, communicator: Communicator) -> Diagnoser | None:
    """Return the diagnoser of a job, None for a job without diagnostics."""
    if job.diagnosis is None or job.source is None:
        return None
    from halocline_engine.distribute.resident.measurements.diagnosing import Diagnoser

    ranks = (fields.blocks, job.blocks)
    kept = (job.target, job.checkpoint)
    return Diagnoser(job.diagnosis, *ranks, communicator, job.source, *kept)


def _converged(job: RankJob, change: float, steps_done: int, tell: Tell | None) -> bool:
    """Return whether a change is so small that the job ends, and tell it."""
    assert job.until is not None
    if tell is not None:
        tell(Measured(steps_done, job.steps, change, job.until.below))
    return change <= job.until.below


def _run(
    job: RankJob, fields: RankFields, communicator: Communicator, tell: Tell, watch: Stopwatch
) -> tuple[int, int]:
    """Load, make all steps, and save; return the bytes that were read and written."""
    until, rank = job.until, communicator.rank
    convergence = None if until is None else Convergence(until, fields.blocks, communicator)
    with watch.spending("reading"):
        read = _load(job, fields, convergence)
        diagnoser = _diagnoser(job, fields, communicator)
    # Kernels that wait for halos begin when there is nothing else that ranks wait for.
    agree(communicator, ("loaded", 0), here=True)
    watch.end_interval()
    began_steps = time.perf_counter()
    with CheckpointWriter(job, fields, communicator, tell) as writer:
        cut = None if until is None else until.check_every
        cuts = (cut, None if job.diagnosis is None else job.diagnosis.every)
        stretches = Stretches(
            job.steps, job.done, job.bundle, job.checkpoints, writer, cuts, job.series
        )
        number = 0
        while not stretches.complete:
            decided = shared(communicator, ("stretch", number), stretches.decide)
            stretch = Stretch(**decided)
            started = time.perf_counter()
            due = cut is not None and (stretches.done + stretch.steps) % cut == 0
            with watch.stepping():
                fields.advance(stretch.steps, last_alone=due)
            stretches.made(stretch, time.perf_counter() - started)
            watch.end_interval()
            if rank == 0:
                seconds, halos = time.perf_counter() - began_steps, watch.total.halos
                tell(StepsFinished(stretches.done, job.steps, seconds, fields.transport, halos))
            if convergence is not None and (due or stretches.complete):
                convergence.check(stretches.done, number)
            if convergence is not None and due:
                change = convergence.change(number)
                if _converged(job, change, stretches.done, tell if rank == 0 else None):
                    stretches.stop()
            if diagnoser is not None:
                diagnoser.measure_if_due(stretches.done)
            if stretch.checkpoint:
                measured = {} if diagnoser is None else diagnoser.values
                writer.write(Path(stretch.checkpoint), stretches.done, measured)
            if stretch.snapshot and job.series is not None and not stretches.complete:
                writer.write_snapshot(job.series, stretches.done)
            number += 1
        with watch.spending("writing"):
            written = fields.save(job.sink_at(stretches.done))
            written += 0 if diagnoser is None else diagnoser.save(job.sink)
        watch.end_interval()
    return read + fields.records.bytes_read, written
