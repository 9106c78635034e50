"""Sequences whose variables stay in memory: which they are, and their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.sink import Sink, ZarrSink, create_store
from halocline_engine.datasets.stores.source import ArrayStore, Source
from halocline_engine.distribute.blocks.work import Work
from halocline_engine.distribute.columns.work import ColumnWork
from halocline_engine.distribute.exchanges.transport import MESSAGES, NO_TRANSPORT
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import chunks_within
from halocline_engine.distribute.jobs.checkpoint import MARK, checkpoint_times
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.distribute.jobs.losses import lost_for_good
from halocline_engine.distribute.jobs.ranked import Ranked
from halocline_engine.distribute.jobs.snapshots import (
    Series,
    Snapshot,
    begin_series,
    place_of_step,
)
from halocline_engine.distribute.modes.choose import check_staying, streaming_option
from halocline_engine.distribute.resident.model import Checkpoints
from halocline_engine.distribute.sequences.request import SequenceRequest
from halocline_engine.distribute.sequences.results import ResumePoint, resume_point
from halocline_engine.distribute.sequences.template import Round
from halocline_engine.distribute.sequences.values import chunks_of
from halocline_engine.distribute.solves.banded import BandedWork
from halocline_engine.distribute.stencils.plan import shown_bytes
from halocline_engine.distribute.stepping.column_stages import ColumnStage, SolveStage
from halocline_engine.distribute.stepping.held import Variable
from halocline_engine.distribute.stepping.plan import StepProgram, Steps, cut_program
from halocline_engine.distribute.stepping.stages import StayingStage
from halocline_engine.distribute.stepping.stencil_stage import StencilStage
from halocline_engine.distribute.stepping.work import StepWork
from halocline_engine.distribute.tasks.events import OnEvent, Resumed
from halocline_engine.errors import ArgumentError, CapacityError

__all__ = ["ResidentSequence", "Stays", "choose"]

#: Whole arrays that the reference needs for one statement.
_EXPRESSION = 4


@dataclass(frozen=True, slots=True, eq=False)
class Stays:
    """Steps on variables that stay in memory, and the `reason` why they do."""

    steps: Steps
    reason: str


@dataclass(frozen=True, slots=True)
class _Taken:
    """The bytes that a rank takes of its process and of its device."""

    host: int
    device: int

    @classmethod
    def of(cls, steps: Steps, copied: Iterable[str], target: str) -> _Taken:
        """Return those of some steps; `copied` variables are copied while steps go on."""
        largest = max(steps.own_bytes([name]) for name in steps.program.variables)
        host = largest + steps.own_bytes(copied)
        if TARGETS[target].on_device:
            return cls(host, steps.bytes)
        return cls(host + steps.bytes, 0)


def choose(
    request: SequenceRequest,
    later: Round,
    pool: Pool,
    target: str,
    copied: Iterable[str],
    result: int,
) -> Stays | str:
    """Return the steps of a sequence that stays in memory, or why it is streamed, as a clause.

    `later` is a step after the first one; `copied` are the variables that checkpoints or snapshots
    copy, and `result` are the bytes of the result in this process. Raises `ArgumentError` or
    `CapacityError` where the caller wants a mode that is impossible.
    """
    if request.mode == "streamed":
        return ""
    wanted = request.mode == "resident"
    if wanted:
        check_staying(request.options)
    program = _program(request, later, target)
    if isinstance(program, str):
        if wanted:
            raise ArgumentError(
                f"A sequence cannot stay in memory: {program}.",
                hint="Leave the mode out, and it is streamed.",
            )
        return f"as {program}"
    option = streaming_option(request.options)
    if option:
        return f"as '{option}' asks for it"
    if request.is_once and not wanted:
        return "as there is one step"
    if TARGETS[target].on_device and not wanted:  # measured on cores only so far
        return "as stages stay on a device where mode='resident' asks for it"
    steps = cut_program(program, pool.workers, request.chunks)
    taken = _Taken.of(steps, copied, target)
    there = _Taken(pool.memory - (0 if pool.remote else result), pool.device_memory(target) or 0)
    needed, available = (
        (taken.device, there.device) if taken.device > there.device else (taken.host, there.host)
    )
    workers = f"{len(steps.ranks)} worker{'s' if len(steps.ranks) > 1 else ''}"
    compared = f"{shown_bytes(needed)} of {shown_bytes(available)} each"
    if needed <= available:
        plural = "s" if request.steps > 1 else ""
        reason = f"{request.steps} step{plural} on variables that fit the memory of {workers}"
        return Stays(steps, f"{reason}: {compared}")
    if wanted:
        raise CapacityError(
            f"Variables that stay in memory need {shown_bytes(needed)} of each of {workers}, but"
            f" only {shown_bytes(available)} are free.",
            hint="Use more workers, or mode='streamed'.",
            needed=needed,
            available=available,
        )
    return f"as the variables do not fit the memory of {workers}: {compared}"


def _program(request: SequenceRequest, later: Round, target: str) -> StepProgram | str:
    """Return the program of a step, or why there is none, as a clause."""
    dataset = later.after.dataset
    jobs = dict.fromkeys(later.jobs)  # one that is repeated is there several times
    numbers = {job: number for number, job in enumerate(jobs)}
    stages: list[StayingStage] = []
    for job in jobs:
        stage = _stage(job, target)
        if isinstance(stage, str):
            return f"{stage} {job.what}"
        for one in stage.variables:
            name = one.name.rstrip("\0")
            if name not in dataset.variables or _form(dataset[name]) != (one.dims, one.dtype):
                return f"'{name}' has another form in {job.what}"
        stages.append(stage)
    if TARGETS[target].on_device and all(isinstance(one, SolveStage) for one in stages):
        return "solves alone have no arrays of a device"
    known = {one.name for stage in stages for one in stage.variables}
    passed = {name: _form(dataset[name]) for name in request.feedback if name not in known}
    held = {*known, *passed}
    feedback = {to: name for name, to in request.feedback.items() if to in held}
    dims = [dim for stage in stages for one in stage.variables for dim in one.dims]
    dims += [dim for along, _ in passed.values() for dim in along]
    sizes = {dim: int(dataset.sizes[dim]) for dim in dict.fromkeys(dims)}
    order = tuple(numbers[job] for job in later.jobs)
    others = tuple(Variable(name, dims, kind, dims) for name, (dims, kind) in passed.items())
    return StepProgram(tuple(stages), order, feedback, sizes, others)


def _stage(job: Blockwise, target: str) -> StayingStage | str:
    """Return a job as a stage on arrays that stay, or the beginning of why it cannot be one."""
    whole = "the whole grid is needed for"
    if job.work is None:
        return whole
    # Where it would read and write is not asked for.
    work = job.work(ArrayStore(""), ZarrSink(""))
    match work:
        case Work() if work.layout.grid.positions:
            return "fields have several positions along an axis in"
        case Work():
            arrays = 0 if TARGETS[target].compiles else _EXPRESSION
            return StencilStage(work, arrays)
        case ColumnWork():
            return ColumnStage(work)
        case BandedWork():
            folded = work.pivoting and work.periodic and TARGETS[target].on_device
            kind = job.outputs[0].dtype
            return whole if folded else SolveStage(work, kind)
        case _:
            return whole


def _form(array: xr.DataArray) -> tuple[tuple[str, ...], str]:
    """Return the dimensions and the type of a variable."""
    return tuple(str(dim) for dim in array.dims), array.dtype.newbyteorder("=").name


@dataclass(frozen=True, slots=True, eq=False)
class ResidentSequence:
    """The job of a sequence that stays in memory.

    `job` is the whole without a way to run it, `kept` is what a checkpoint has: each variable, and
    the one whose values it has after a step.
    """

    request: SequenceRequest
    job: Blockwise
    stays: Stays
    pool: Pool
    kept: Mapping[str, str]
    wanted: tuple[Output, ...]
    tell: OnEvent

    def made(self) -> Blockwise:
        """Return the job with its ranks."""
        steps, remote = self.stays.steps, self.pool.remote
        taken = _Taken.of(steps, self._copied(), self.job.target)
        dims = tuple(steps.program.sizes)
        point = Span(0, 1)
        return replace(
            self.job,
            outputs=tuple(self._output(output) for output in self.job.outputs),
            blocks=tuple(
                Block(part.index, (point, point, point), tuple(part.spans[dim] for dim in dims))
                for part in steps.parts
            ),
            projected=len(steps.ranks) * (taken.host + taken.device),
            passes=1,
            passes_done=0,
            note=f"{len(steps.program.order)} stages a step",
            ranked=Ranked(
                reason=self.stays.reason,
                transport=(MESSAGES if remote and len(steps.ranks) > 1 else NO_TRANSPORT).name,
                ranks=len(steps.ranks),
                left=self._left,
                work=self._work,
            ),
        )

    def _copied(self) -> list[str]:
        """Return the variables that are copied while steps go on."""
        if self.request.kept is not None:
            return [*self.kept]
        return [one.name for one in self.wanted] if self.request.every is not None else []

    def _output(self, output: Output) -> Output:
        """Return an output in chunks that parts write alone."""
        steps = self.stays.steps
        dims = [dim for dim in output.dims if dim in steps.program.sizes]
        block = {dim: steps.block_of(dim) for dim in dims}
        sizes = {dim: steps.program.sizes[dim] for dim in dims}
        itemsize = np.dtype(output.dtype).itemsize
        chunks = chunks_within(tuple(dims), block, sizes, itemsize)
        return replace(output, chunks=(*output.chunks[: len(output.dims) - len(dims)], *chunks))

    def _left(self) -> int:
        """Return how many ranks the workers that are left can have."""
        steps = self.stays.steps.shared(self.pool.workers)
        taken = _Taken.of(steps, self._copied(), self.job.target)
        there = self.pool.device_memory(self.job.target) or 0
        if taken.host > self.pool.memory or taken.device > there:
            raise lost_for_good("the variables do not fit their memory")
        return len(steps.ranks)

    def _work(self, source: Source, sink: Sink, ranks: int) -> StepWork:
        """Return the work of the ranks from the newest checkpoint on."""
        request = self.request
        earlier = resume_point(request, [one.name for one in self.wanted])
        if earlier.steps_done > self.job.steps_done:
            self.tell(Resumed(earlier.steps_done, request.steps))
        known = self.job.opened.dataset.variables
        program = self.stays.steps.program
        sources = {name: source for name in program.variables if name in known}
        if earlier.found is not None:
            there: Source = ArrayStore(str(earlier.found.path))
            sources |= dict.fromkeys(self.kept, there)
        series = self._series(sink)
        return StepWork(
            program=self.stays.steps.shared(ranks),
            target=self.job.target,
            sources=tuple(sources.items()),
            sink=sink,
            count=request.steps,
            done=earlier.steps_done,
            states=tuple(self.kept.items()),
            saved=tuple((one.name, one.name) for one in self.wanted),
            checkpoints=self._checkpoints(),
            series=series,
            earlier=() if series is None else tuple(_snapshots(series, earlier)),
        )

    def _series(self, sink: Sink) -> Series | None:
        """Return the snapshots, where there are any; a workspace has a store of its own."""
        every, kept = self.request.every, self.request.kept
        if every is None:
            return None
        names = tuple(output.name for output in self.wanted)
        if kept is None:
            return Series(every, self.request.steps, sink, names)
        outputs = [self._output(output) for output in self.job.outputs]
        store = begin_series(kept.workspace, kept.attempt)
        create_store(store, self.job.uses, self.job.grid, chunks_of(outputs), MARK)
        there = ZarrSink(str(store))
        return Series(every, self.request.steps, there, names, store, kept.fingerprint)

    def _checkpoints(self) -> Checkpoints | None:
        kept, steps = self.request.kept, self.stays.steps
        if kept is None:
            return None
        variables = steps.program.variables
        stored = [
            self._output(Output(name, variables[of].dims, variables[of].dtype, ()))
            for name, of in self.kept.items()
        ]
        size = sum(steps.whole_bytes(of) for of in self.kept.values())
        times = checkpoint_times(self.request.options, size)
        chunks = chunks_of(stored)
        return Checkpoints(
            kept.workspace, kept.attempt, kept.fingerprint, chunks, times.steps, times.seconds
        )


def _snapshots(series: Series, earlier: ResumePoint) -> Iterable[tuple[int, Snapshot]]:
    """Yield where each snapshot of a workspace goes, and where it is."""
    if series.store is None:
        return
    for steps in range(series.every, series.steps, series.every):
        index = place_of_step(steps, series.every)
        mine = Snapshot(series.store, index)
        yield index, earlier.snapshots[steps] if steps <= earlier.steps_done else mine
