"""The work of a rank: it loads its blocks, makes all steps, and writes their results."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from halocline_engine.backends.targets import TARGETS
from halocline_engine.device.launch.streams import own_stream
from halocline_engine.distribute.communicators.base import Communicator, Tell, shared
from halocline_engine.distribute.resident.checkpoints import CheckpointWriter
from halocline_engine.distribute.resident.fields import RankFields
from halocline_engine.distribute.resident.model import RankJob
from halocline_engine.distribute.resident.stretches import Stretch, Stretches
from halocline_engine.distribute.tasks.events import StepsFinished
from halocline_engine.distribute.tasks.model import Report, peak_bytes

__all__ = ["ResidentWork"]


@dataclass(frozen=True, slots=True, eq=False)
class ResidentWork:
    """What the ranks of a job do: `communicators.base.RankWork`."""

    job: RankJob

    def run(self, communicator: Communicator, tell: Tell) -> Report:
        """Do the part of one rank."""
        began = time.perf_counter()
        with ExitStack() as stack:
            if TARGETS[self.job.target].on_device:
                stack.enter_context(own_stream())
            fields = RankFields(self.job, communicator)
            complete = False
            try:
                read, written = self._run(fields, communicator, tell)
                complete = True
            finally:
                fields.close(complete=complete)
        seconds = time.perf_counter() - began
        return Report(communicator.rank, seconds, read, written, peak_bytes())

    def _run(self, fields: RankFields, communicator: Communicator, tell: Tell) -> tuple[int, int]:
        """Load, make all steps, and save; return the bytes that were read and written."""
        job = self.job
        read = fields.load()
        began_steps = time.perf_counter()
        with CheckpointWriter(job, fields, communicator, tell) as writer:
            stretches = Stretches(job.steps, job.done, job.bundle, job.checkpoints, writer)
            number = 0
            while not stretches.complete:
                decided = shared(communicator, ("stretch", number), stretches.decide)
                stretch = Stretch(**decided)
                started = time.perf_counter()
                fields.advance(stretch.steps)
                stretches.made(stretch, time.perf_counter() - started)
                if stretch.checkpoint:
                    writer.write(Path(stretch.checkpoint), stretches.done)
                if communicator.rank == 0:
                    seconds = time.perf_counter() - began_steps
                    tell(StepsFinished(stretches.done, job.steps, seconds, fields.transport))
                number += 1
            written = fields.save(job.sink, job.saved)
        return read, written
