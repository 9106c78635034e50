"""A sequence of stages, repeated: each stage is a job over blocks, and together they are one.

::

    step 0    stage 0   stage 1   ...   feedback      planned for the dataset alone
    step 1    stage 0   stage 1   ...   feedback      and for what the first step made
    ...       the same again

Values stay in this process where it computes and they fit, and go through stores otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from halocline_engine.analysis.named import near
from halocline_engine.datasets.stores.places import place_in
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
from halocline_engine.distribute.jobs.snapshots import STEP, place_of_step, with_steps
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
from halocline_engine.errors import ArgumentError

__all__ = ["Kept", "SequenceRequest", "sequence_job"]

# What a step makes is there twice: as the next step reads it, and as it makes it anew.
_HELD = 2
_WHERE = {True: "whose values stay in memory", False: "whose values go through stores"}


@dataclass(frozen=True, slots=True)
class Kept:
    """Place of values between two steps; `fingerprint` names the job."""

    workspace: Path
    attempt: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceRequest:
    """Request of a caller; `kinds` are those of the stages, in words.

    `results` names those of the variables that are made which are wanted, or is None for all.
    With `every`, results are kept after so many steps as well, and nothing for later runs.
    """

    stages: tuple[StageOf, ...]
    kinds: tuple[str, ...]
    steps: int
    feedback: Mapping[str, str]
    every: int | None
    results: tuple[str, ...] | None
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
    wanted = {name: made[name] for name in _wanted(request.results, made)}
    uses = [output.use for output in wanted.values()]
    frame = frame_of(rounds[1].after.dataset, uses, history_of(what))
    kept = request.kept if request.every is None else None
    found = kept and newest_pass(kept.workspace, kept.fingerprint)
    steps_done = 0 if found is None else found.steps_done
    job = Blockwise(
        opened=opened,
        sizes=sizes | _counts(request),
        reads=_reads(opened, rounds[0]),
        outputs=tuple(_output(output, request.every) for output in wanted.values()),
        blocks=max((job.blocks for job in jobs), key=len),
        work=None,
        what=what,
        target=jobs[0].target,
        projected=max(job.projected for job in jobs),
        output=request.output,
        frame=frame if request.every is None else with_steps(frame, request.steps, request.every),
        passes=_passes(rounds, request.steps),
        steps=request.steps,
        steps_done=steps_done,
        passes_done=_passes(rounds, steps_done),
    )
    between = field_bytes([output.use for output in made.values()], job.grid)
    given = sum(int(opened.dataset[name].nbytes) for name in job.reads)
    results = 0 if request.output else field_bytes(job.uses, job.grid)
    held = _HELD * between + given
    in_memory = not pool.remote and held + results + job.projected <= pool.memory
    times = checkpoint_times(request.options, between)
    steps = _Steps(request, rounds, job, made, in_memory, kept, found, times, tell)
    return replace(
        job,
        stages=steps.stages,
        in_stores=not in_memory,
        between=0 if in_memory else _HELD * between,
        projected=job.projected + (held if in_memory else 0),
        note=f"{len(request.stages)} stages a step, {_WHERE[in_memory]}",
    )


def _wanted(results: Sequence[str] | None, made: Mapping[str, Output]) -> list[str]:
    """Return the names of the results; raises `ArgumentError` for one that no stage makes."""
    for name in results or ():
        if name not in made:
            raise ArgumentError(
                f"Argument 'results' names '{name}', which no stage makes.", hint=near(name, made)
            )
    return [*made] if results is None else [*results]


def _counts(request: SequenceRequest) -> dict[str, int]:
    """Return the size of the dimension of snapshots, where there is one."""
    every = request.every
    return {} if every is None else {STEP: place_of_step(request.steps, every) + 1}


def _output(made: Output, every: int | None) -> Output:
    """Return an output of the whole, which has snapshots of what the stages make."""
    if every is None:
        return made
    return replace(made, dims=(STEP, *made.dims), chunks=(1, *made.chunks))


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
    """Makes the passes of all steps, one after the other; `job` is what they belong to.

    `made` is what the stages of a step make.
    """

    request: SequenceRequest
    rounds: tuple[Round, Round]
    job: Blockwise
    made: Mapping[str, Output]
    in_memory: bool
    kept: Kept | None
    found: FinishedPass | None
    times: CheckpointTimes
    tell: OnEvent

    def stages(self, source: Source, sink: Sink, folder: Path | None) -> Iterator[Stage]:
        """Make each pass when the one before has ended, and at the end give the results."""
        room = InArrays() if folder is None else InStores(folder)
        values, last = self._begin(source), self.request.steps
        written, began = self.job.steps_done, time.monotonic()
        for done in range(self.job.steps_done + 1, last + 1):
            values = yield from self._step(done, values, room)
            self._give(done, values, sink)
            if done < last:
                fed = {to: values.place(name) for name, to in self.request.feedback.items()}
                values = values.with_made(fed)
            room.free(values)
            if done < last and self._due(done - written, time.monotonic() - began):
                self._write_checkpoint(done, values)
                written, began = done, time.monotonic()

    def _give(self, done: int, values: Values, sink: Sink) -> None:
        """Give the results after a step, if they are wanted."""
        steps, every = self.request.steps, self.request.every
        if done < steps and (every is None or done % every):
            return
        to = sink if every is None else place_in(sink, place_of_step(done, every))
        for name in _wanted(self.request.results, self.made):
            output = self.made[name]
            copy_variable(values.place(output.name), to, output, self._shape(output))

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

    def _step(self, done: int, values: Values, room: Room) -> Generator[Stage, None, Values]:
        """Make the passes of a step; return the values after it."""
        jobs = self.rounds[min(done - 1, 1)].jobs
        for at, job in enumerate(jobs, 1):
            to, there, folder = room.room(job)
            for number, stage in enumerate(stages_of(job, values, to, folder), 1):
                ends = at == len(jobs) and number == job.passes
                yield replace(stage, steps=int(ends))
            values = values.with_made({one.name: (there, one.name) for one in job.outputs})
        return values

    def _due(self, steps: int, seconds: float) -> bool:
        return self.kept is not None and self.times.due(steps, seconds)

    def _kept(self) -> dict[str, Output]:
        """Return what is there between two steps, by name."""
        feedback = self.request.feedback.items()
        return {**self.made, **{to: replace(self.made[name], name=to) for name, to in feedback}}

    def _write_checkpoint(self, steps_done: int, values: Values) -> None:
        place, began = self.kept, time.perf_counter()
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
