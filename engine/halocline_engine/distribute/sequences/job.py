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
from halocline_engine.datasets.stores.result import frame_of
from halocline_engine.datasets.stores.sink import Sink, ZarrSink, create_store
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Opened, Source
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.checkpoint import (
    MARK,
    CheckpointTimes,
    begin_pass,
    checkpoint_times,
    finish_pass,
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
from halocline_engine.distribute.jobs.snapshots import (
    STEP,
    Series,
    begin_series,
    place_of_step,
    with_steps,
)
from halocline_engine.distribute.sequences.request import SequenceRequest
from halocline_engine.distribute.sequences.resident import ResidentSequence, Stays, choose
from halocline_engine.distribute.sequences.results import (
    Results,
    ResumePoint,
    resume_point,
    shape_of,
)
from halocline_engine.distribute.sequences.template import Round, fed_outputs, plan_rounds
from halocline_engine.distribute.sequences.values import (
    InArrays,
    InStores,
    Room,
    Values,
    chunks_of,
    copy_variable,
)
from halocline_engine.distribute.tasks.events import Checkpointed, OnEvent
from halocline_engine.errors import ArgumentError

__all__ = ["sequence_job"]

# What a step makes is there twice: as the next step reads it, and as it makes it anew.
_HELD = 2
_WHERE = {True: "whose values stay in memory", False: "whose values go through stores"}


def sequence_job(request: SequenceRequest, opened: Opened, pool: Pool, tell: OnEvent) -> Blockwise:
    """Return the job; it tells of checkpoints.

    Raises what a stage raises where it cannot be planned, and `FieldError` where stages do not fit
    together.
    """
    several = not request.is_once or request.mode == "resident"
    rounds = plan_rounds(opened, request.stages, request.feedback, several=several)
    jobs = [job for each in rounds for job in each.jobs]
    made = {output.name: output for job in rounds[1].jobs for output in job.outputs}
    sizes = {dim: size for job in jobs for dim, size in job.sizes.items()}
    plural = "step" if request.steps == 1 else "steps"
    what = f"sequence of {request.kinds}, {request.steps} {plural}"
    wanted = {name: made[name] for name in _wanted(request.results, made)}
    uses = [output.use for output in wanted.values()]
    frame = frame_of(rounds[1].after.dataset, uses, history_of(what))
    earlier = resume_point(request, [*wanted])
    steps_done = earlier.steps_done
    job = Blockwise(
        opened=opened,
        sizes=sizes | _counts(request),
        reads=_reads(opened, rounds[0], request.feedback),
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
        operations=_operations(rounds, request.steps) - _operations(rounds, steps_done),
        passes_done=_passes(rounds, steps_done),
    )
    results = 0 if request.output else field_bytes(job.uses, job.grid)
    kept = {name: name for name in made} | {to: name for name, to in request.feedback.items()}
    copied = kept if request.kept else (wanted if request.every else ())
    chosen = choose(request, rounds[1], pool, job.target, copied, results)
    outputs = tuple(wanted.values())
    if isinstance(chosen, Stays):
        return ResidentSequence(request, job, chosen, pool, kept, outputs, tell).made()
    between = field_bytes([output.use for output in made.values()], job.grid)
    given = sum(int(opened.dataset[name].nbytes) for name in job.reads)
    held = _HELD * between + given
    in_memory = not pool.remote and held + results + job.projected <= pool.memory
    times = checkpoint_times(request.options, between)
    steps = _Steps(request, rounds, job, made, outputs, in_memory, earlier, times, tell)
    where = f"{_WHERE[in_memory]}, {chosen}" if chosen else _WHERE[in_memory]
    return replace(
        job,
        stages=steps.stages,
        in_stores=not in_memory,
        between=0 if in_memory else _HELD * between,
        projected=job.projected + (held if in_memory else 0),
        note=f"{len(rounds[1].jobs)} stages a step, {where}",
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


def _operations(rounds: tuple[Round, Round], steps: int) -> int:
    """Return the floating-point operations of so many steps."""
    first, later = (sum(job.operations for job in each.jobs) for each in rounds)
    return first + (steps - 1) * later if steps else 0


def _reads(opened: Opened, first: Round, feedback: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of the dataset itself that are read, or passed on by feedback."""
    made = {output.name for job in first.jobs for output in job.outputs}
    named = dict.fromkeys(name for job in first.jobs for name in job.reads)
    named |= dict.fromkeys(name for name in feedback if name not in made)
    return tuple(name for name in named if name in opened.dataset.variables)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Makes the passes of all steps, one after the other; `job` is what they belong to.

    `made` is what the stages of a step make, and `wanted` the results among it.
    """

    request: SequenceRequest
    rounds: tuple[Round, Round]
    job: Blockwise
    made: Mapping[str, Output]
    wanted: tuple[Output, ...]
    in_memory: bool
    earlier: ResumePoint
    times: CheckpointTimes
    tell: OnEvent

    def stages(self, source: Source, sink: Sink, folder: Path | None) -> Iterator[Stage]:
        """Make each pass when the one before has ended, and at the end give the results."""
        room = InArrays() if folder is None else InStores(folder)
        values, last = self._begin(source), self.request.steps
        results = Results(
            self.wanted, self.job, last, sink, self._series(sink), self.earlier, self.tell
        )
        written, began = self.job.steps_done, time.monotonic()
        for done in range(self.job.steps_done + 1, last + 1):
            values = yield from self._step(done, values, room)
            results.give(done, values)
            if done < last:
                fed = {to: values.place(name) for name, to in self.request.feedback.items()}
                values = values.with_made(fed)
            room.free(values)
            if done < last and self._due(done - written, time.monotonic() - began):
                self._write_checkpoint(done, values)
                written, began = done, time.monotonic()

    def _series(self, sink: Sink) -> Series | None:
        """Return the snapshots, where there are any; a workspace has a store of its own."""
        every, kept = self.request.every, self.request.kept
        if every is None:
            return None
        names = tuple(output.name for output in self.wanted)
        if kept is None:
            return Series(every, self.request.steps, sink, names)
        store = begin_series(kept.workspace, kept.attempt)
        create_store(store, self.job.uses, self.job.grid, chunks_of(self.job.outputs), MARK)
        there = ZarrSink(str(store))
        return Series(every, self.request.steps, there, names, store, kept.fingerprint)

    def _begin(self, source: Source) -> Values:
        """Return the values before the first step that is made, read once where they fit."""
        if self.in_memory:
            whole = (slice(None),)
            dims = {name: self.job.opened.dataset[name].ndim for name in self.job.reads}
            source = Arrays({name: source.read(name, whole * dims[name]) for name in dims})
        if self.earlier.found is None:
            return Values(source)
        kept = ArrayStore(str(self.earlier.found.path))
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
            room.free(values)
        return values

    def _due(self, steps: int, seconds: float) -> bool:
        return self.request.kept is not None and self.times.due(steps, seconds)

    def _kept(self) -> dict[str, Output]:
        """Return what is there between two steps, by name."""
        return {**self.made, **fed_outputs(self.request.feedback, self.made)}

    def _write_checkpoint(self, steps_done: int, values: Values) -> None:
        place, began = self.request.kept, time.perf_counter()
        assert place is not None
        path = begin_pass(place.workspace, place.attempt, steps_done)
        kept = self._kept()
        uses = [output.use for output in kept.values()]
        create_store(path, uses, self.job.grid, chunks_of(kept.values()), MARK)
        for name, output in kept.items():
            shape = shape_of(output, self.job.grid)
            copy_variable(values.place(name), ZarrSink(str(path)), output, shape)
        finish_pass(path, place.fingerprint, steps_done)
        prune(place.workspace, place.fingerprint)
        seconds = time.perf_counter() - began
        self.tell(Checkpointed(steps_done, self.request.steps, seconds))
