"""A sequence of stages, repeated: each stage is a job over blocks, and together they are one.

::

    step 0    stage 0   stage 1   ...   feedback      planned for the dataset alone
    step 1    stage 0   stage 1   ...   feedback      and for what the first step made
    ...       the same again

Values stay in this process where it computes and they fit, and go through stores otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from halocline_engine.datasets.stores.result import frame_of
from halocline_engine.datasets.stores.sink import Sink, ZarrSink, create_store
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Opened, Source
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.checkpoint import (
    MARK,
    CheckpointTimes,
    FinishedPass,
    begin_pass,
    checkpoint_times,
    finish_pass,
    newest_pass,
    prune,
)
from halocline_engine.distribute.jobs.execute import (
    Blockwise,
    Output,
    Stage,
    history_of,
    stages_of,
)
from halocline_engine.distribute.jobs.outputs import field_bytes
from halocline_engine.distribute.sequences.template import Round, StageOf, plan_rounds
from halocline_engine.distribute.sequences.values import (
    InArrays,
    InStores,
    Room,
    Values,
    chunks_of,
    copy_variable,
)
from halocline_engine.distribute.tasks.events import Checkpointed, OnEvent
from halocline_engine.distribute.tasks.options import Options

__all__ = ["Kept", "SequenceRequest", "sequence_job"]

# What a step makes is there twice: as the next step reads it, and as it makes it anew.
_HELD = 2
_WHERE = {True: "whose values stay in memory", False: "whose values go through stores"}


@dataclass(frozen=True, slots=True)
class Kept:
    """Where values between two steps are kept; `fingerprint` names the job."""

    workspace: Path
    attempt: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceRequest:
    """What a caller asks for; `kinds` are those of the stages, in words."""

    stages: tuple[StageOf, ...]
    kinds: tuple[str, ...]
    steps: int
    feedback: Mapping[str, str]
    output: Path | None
    kept: Kept | None
    options: Options


def sequence_job(request: SequenceRequest, opened: Opened, pool: Pool, tell: OnEvent) -> Blockwise:
    """Return the job; it tells of checkpoints.

    Raises what a stage raises where it cannot be planned, and `FieldError` where stages do not fit
    together.
    """
    rounds = plan_rounds(opened, request.stages, request.feedback, request.steps)
    jobs = [job for each in rounds for job in each.jobs]
    made = {output.name: output for job in rounds[1].jobs for output in job.outputs}
    sizes = {dim: size for job in jobs for dim, size in job.sizes.items()}
    plural = "step" if request.steps == 1 else "steps"
    what = f"sequence of {', '.join(request.kinds)}, {request.steps} {plural}"
    uses = [output.use for output in made.values()]
    found = request.kept and newest_pass(request.kept.workspace, request.kept.fingerprint)
    steps_done = 0 if found is None else found.steps_done
    job = Blockwise(
        opened=opened,
        sizes=sizes,
        reads=_reads(opened, rounds[0]),
        outputs=tuple(made.values()),
        blocks=max((job.blocks for job in jobs), key=len),
        work=None,
        what=what,
        target=jobs[0].target,
        projected=max(job.projected for job in jobs),
        output=request.output,
        frame=frame_of(rounds[1].after.dataset, uses, history_of(what)),
        passes=_passes(rounds, request.steps),
        steps=request.steps,
        steps_done=steps_done,
        passes_done=_passes(rounds, steps_done),
    )
    held = _HELD * field_bytes(uses, job.grid)
    given = sum(int(opened.dataset[name].nbytes) for name in job.reads)
    results = 0 if request.output else field_bytes(uses, job.grid)
    in_memory = not pool.remote and held + given + results + job.projected <= pool.memory
    times = checkpoint_times(request.options, field_bytes(uses, job.grid))
    steps = _Steps(request, rounds, job, in_memory, found, times, tell)
    return replace(
        job,
        stages=steps.stages,
        in_stores=not in_memory,
        between=0 if in_memory else held,
        projected=job.projected + (held + given if in_memory else 0),
        note=f"{len(request.stages)} stages a step, {_WHERE[in_memory]}",
    )


def _passes(rounds: tuple[Round, Round], steps: int) -> int:
    """Return how many passes so many steps take."""
    first, later = (sum(job.passes for job in each.jobs) for each in rounds)
    return first + (steps - 1) * later if steps else 0


def _reads(opened: Opened, first: Round) -> tuple[str, ...]:
    """Return the variables of the dataset itself that are read."""
    named = dict.fromkeys(name for job in first.jobs for name in job.reads)
    return tuple(name for name in named if name in opened.dataset.variables)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Makes the passes of all steps, one after the other; `job` is what they belong to."""

    request: SequenceRequest
    rounds: tuple[Round, Round]
    job: Blockwise
    in_memory: bool
    found: FinishedPass | None
    times: CheckpointTimes
    tell: OnEvent

    def stages(self, source: Source, sink: Sink, folder: Path | None) -> Iterator[Stage]:
        """Make each pass when the one before has ended, and at the end give the results."""
        room = InArrays() if folder is None else InStores(folder)
        values, last = self._begin(source), self.request.steps - 1
        written, began = self.job.steps_done, time.monotonic()
        for step in range(self.job.steps_done, self.request.steps):
            values = yield from self._step(step, values, room)
            if step < last:
                fed = {to: values.place(name) for name, to in self.request.feedback.items()}
                values = values.with_made(fed)
            room.free(values)
            if step < last and self._due(step + 1 - written, time.monotonic() - began):
                self._write_checkpoint(step + 1, values)
                written, began = step + 1, time.monotonic()
        for output in self.job.outputs:
            copy_variable(values.place(output.name), sink, output, self._shape(output))

    def _begin(self, source: Source) -> Values:
        """Return the values before the first step that is made, read once where they fit."""
        if self.in_memory:
            whole = (slice(None),)
            dims = {name: self.job.opened.dataset[name].ndim for name in self.job.reads}
            source = Arrays({name: source.read(name, whole * dims[name]) for name in dims})
        if self.found is None:
            return Values(source)
        kept = ArrayStore(str(self.found.path))
        return Values(source, {name: (kept, name) for name in self._kept()})

    def _step(self, step: int, values: Values, room: Room) -> Generator[Stage, None, Values]:
        """Make the passes of a step; return the values after it."""
        jobs = self.rounds[min(step, 1)].jobs
        for at, job in enumerate(jobs, 1):
            to, there, folder = room.room(job)
            for number, stage in enumerate(stages_of(job, values, to, folder), 1):
                ends = at == len(jobs) and number == job.passes
                yield replace(stage, steps=int(ends))
            values = values.with_made({one.name: (there, one.name) for one in job.outputs})
        return values

    def _due(self, steps: int, seconds: float) -> bool:
        return self.request.kept is not None and self.times.due(steps, seconds)

    def _kept(self) -> dict[str, Output]:
        """Return what is there between two steps, by name."""
        made = {output.name: output for output in self.job.outputs}
        feedback = self.request.feedback.items()
        return made | {to: replace(made[name], name=to) for name, to in feedback}

    def _write_checkpoint(self, steps_done: int, values: Values) -> None:
        place, began = self.request.kept, time.perf_counter()
        assert place is not None
        path = begin_pass(place.workspace, place.attempt, steps_done)
        kept = self._kept()
        uses = [output.use for output in kept.values()]
        create_store(path, uses, self.job.grid, chunks_of(kept.values()), MARK)
        for name, output in kept.items():
            copy_variable(values.place(name), ZarrSink(str(path)), output, self._shape(output))
        finish_pass(path, place.fingerprint, steps_done)
        prune(place.workspace, place.fingerprint)
        seconds = time.perf_counter() - began
        self.tell(Checkpointed(steps_done, self.request.steps, seconds))

    def _shape(self, output: Output) -> tuple[int, ...]:
        return tuple(self.job.grid.size_of(dim) for dim in output.dims)
