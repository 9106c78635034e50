"""The results of a run: where they go during the run, and the dataset at the end.

They are those of the last step, or with `every` those after every so many steps as well, along a
dimension `step` or `time` in front of the others. With a workspace snapshots are kept there, and
brought together at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.memory.reached import reach_results
from halocline_engine.datasets.memory.shared import SharedArrays, share_results
from halocline_engine.datasets.stores.places import PlaceSource
from halocline_engine.datasets.stores.result import (
    add_attributes,
    assemble,
    consolidate,
    create_result,
)
from halocline_engine.datasets.stores.sink import (
    ArraySink,
    KeptArrays,
    Sink,
    ZarrSink,
    create_arrays,
)
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Source
from halocline_engine.device.launch.streams import new_array
from halocline_engine.distribute.jobs.checkpoint import newest_pass
from halocline_engine.distribute.jobs.outputs import published
from halocline_engine.distribute.jobs.snapshots import (
    Series,
    Snapshot,
    begin_series,
    bring,
    complete_snapshots,
    place_of_step,
    relabel,
    shorten,
)
from halocline_engine.distribute.stencils.job import Job
from halocline_engine.distribute.stencils.plan import RESULT_CHUNK, chunks_for
from halocline_engine.distribute.tasks.cancel import CancelToken

__all__ = ["Results", "ResumePoint", "resume_point"]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a job goes on: steps that earlier runs made, kept fields after these, snapshots.

    `checkpoint` is the store of the pass, "" where there is none.
    """

    steps_done: int = 0
    states: Mapping[str, Source] = field(default_factory=dict[str, Source])
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict[int, Snapshot])
    checkpoint: str = ""


def resume_point(job: Job) -> ResumePoint:
    """Return where to start: at the newest pass or snapshot of this job, or at its input.

    All snapshots that are wanted up to there must be complete.
    """
    if job.workspace is None:
        return ResumePoint()
    if job.every is None:
        found = newest_pass(job.workspace, job.fingerprint)
        return (
            ResumePoint()
            if found is None
            else ResumePoint(found.steps_done, _passed(job, found.path), checkpoint=str(found.path))
        )
    there = complete_snapshots(job.workspace, job.fingerprint, job.every, _names(job))
    last = job.every * len(there)
    found = newest_pass(job.workspace, job.fingerprint, before=last + job.every)
    if found is not None and found.steps_done > last:
        return ResumePoint(found.steps_done, _passed(job, found.path), there)
    if not there:
        return ResumePoint()
    place = there[last]
    return ResumePoint(last, _states(job, ArrayStore(str(place.store)), place.index), there)


def _passed(job: Job, path: Path) -> dict[str, Source]:
    """Return where the kept fields are in a pass."""
    return {use.name: ArrayStore(str(path)) for use in job.kept}


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of results: a store, or arrays of this process."""

    sink: Sink
    arrays: Mapping[str, NDArray[Any]] | None = None
    store: Path | None = None


class Results:
    """Places of the results of a job; `spare` are arrays that they may take.

    What is opened is closed with `stack`, and published then unless the run is `cancelled`.
    """

    def __init__(
        self,
        job: Job,
        stack: ExitStack,
        found: ResumePoint,
        spare: list[NDArray[Any]] | None = None,
        *,
        cancelled: CancelToken | None,
    ) -> None:
        self._job, self._stack, self._found, self._spare = job, stack, found, spare
        self._cancelled = cancelled

    @property
    def sink(self) -> Sink:
        """Sink of the results."""
        return self._place.sink

    @cached_property
    def series(self) -> Series | None:
        """The snapshots, where there are any."""
        job = self._job
        if job.every is None:
            return None
        store = self._place.store if self._kept else None
        return Series(job.every, job.steps, self.sink, _names(job), store, job.fingerprint)

    def at(self, steps_done: int) -> Sink:
        """Return where the results after so many steps go."""
        return self.sink if self.series is None else self.series.at(steps_done)

    def states(self, steps_done: int) -> Mapping[str, Source]:
        """Return the kept fields after so many steps, of which there is a snapshot."""
        job, place = self._job, self._place
        assert job.every is not None
        source = ArrayStore(str(place.store)) if place.arrays is None else Arrays(place.arrays)
        return _states(job, source, place_of_step(steps_done, job.every))

    def finish(self, made: int, attributes: Mapping[str, Any]) -> xr.Dataset | None:
        """Bring together what there is after `made` steps; return it, where it is in memory."""
        job = self._job
        place = self._gathered(made) if self._kept else self._place
        arrays = place.arrays
        if isinstance(place.sink, SharedArrays):  # which only now has values that are looked at
            arrays = place.sink.values()
        if arrays is not None:
            frame = _frame(job, made).assign_attrs(attributes)
            if job.every is not None:
                count = frame.sizes[job.labels.dim]
                arrays = {name: values[:count] for name, values in arrays.items()}
            return assemble(frame, _uses(job), arrays, job.attributes)
        assert place.store is not None
        if job.every is not None and made < job.steps and not self._kept:
            shorten(place.store, _names(job), place_of_step(made, job.every) + 1, job.labels, made)
            consolidate(place.store)
        elif job.labels.clock is not None and made < job.steps and job.every is None:
            relabel(place.store, job.labels, made)
        if attributes:
            add_attributes(place.store, attributes)
        return None

    @property
    def _diagnosed(self) -> set[str]:
        diagnosis = self._job.diagnosis
        return set() if diagnosis is None else {one.name for one in diagnosis.variables}

    @property
    def _kept(self) -> bool:
        """Whether the workspace keeps the snapshots."""
        return self._job.every is not None and self._job.workspace is not None

    @cached_property
    def _place(self) -> _Place:
        job = self._job
        if not self._kept:
            return self._opened(job.steps)
        assert job.workspace is not None
        store = begin_series(job.workspace, job.attempt)
        _create(replace(job, frame=xr.Dataset(), attributes={}), store, job.steps)
        return _Place(ZarrSink(str(store)), store=store)

    def _opened(self, steps: int) -> _Place:
        """Open where the results of so many steps are at the end."""
        job = self._job
        uses = {use.variable: use for use in _uses(job) if use.result}
        if job.sharing == "reached":
            sink, arrays = reach_results(uses, _grid(job, steps), self._stack)
            return _Place(sink, arrays=arrays)
        if job.sharing == "shared":
            return _Place(share_results(uses, _grid(job, steps), self._stack))
        if job.on_device and len(job.plan.blocks) == 1:
            kept = KeptArrays()
            return _Place(kept, arrays=kept.arrays)
        if job.output is None:
            make = {"make": new_array} if job.on_device else {}
            fields = {name: use for name, use in uses.items() if name not in self._diagnosed}
            arrays = create_arrays(fields, _grid(job, steps), self._spare, **make)
            # Diagnostics stay on the host.
            diagnosed = {name: use for name, use in uses.items() if name in self._diagnosed}
            arrays |= create_arrays(diagnosed, _grid(job, steps))
            return _Place(ArraySink(arrays), arrays=arrays)
        part = self._stack.enter_context(published(job.output, self._cancelled))
        _create(job, part, steps)
        # What comes now are values, which no metadata tell of.
        consolidate(part)
        return _Place(ZarrSink(str(part)), store=part)

    def _gathered(self, made: int) -> _Place:
        """Bring the snapshots, and the results of the last step, to where they are at the end."""
        job, store, place = self._job, self._place.store, self._opened(made)
        assert job.every is not None
        assert store is not None
        for index in range(place_of_step(made, job.every) + 1):
            earlier = self._found.snapshots.get((index + 1) * job.every)
            found = earlier or Snapshot(store, index)
            bring(found, _names(job), place.sink, index, place.store)
        return place


def _states(job: Job, source: Source, index: int) -> dict[str, Source]:
    """Return where the kept fields are in a snapshot."""
    variables = {use.name: use.variable for use in job.uses if use.result}
    names = {use.name: variables[use.partner or use.name] for use in job.kept}
    return {name: PlaceSource(source, index, names) for name in names}


def _names(job: Job) -> tuple[str, ...]:
    return tuple(use.variable for use in job.uses if use.result)


def _uses(job: Job) -> list[FieldUse]:
    """Return the fields; the results have the dimension of snapshots, where there is one."""
    if job.every is None:
        return [*job.uses, *([] if job.diagnosis is None else job.diagnosis.uses)]
    first = job.labels.dim
    return [replace(u, dims=(first, *u.dims)) if u.result else u for u in job.uses]


def _grid(job: Job, steps: int) -> Grid:
    if job.every is None:
        return job.grid if job.diagnosis is None else job.diagnosis.with_dims(job.grid)
    extra, sizes = job.grid.extra, job.grid.extra_sizes
    count = place_of_step(steps, job.every) + 1
    return replace(job.grid, extra=(job.labels.dim, *extra), extra_sizes=(count, *sizes))


def _frame(job: Job, made: int) -> xr.Dataset:
    """Return the result without its variables, after so many steps."""
    every = job.every if job.diagnosis is None else job.diagnosis.every
    return job.labels.labelled(job.frame, made, every)


def _create(job: Job, path: Path, steps: int) -> None:
    """Create the store of the results of so many steps, whose values come later."""
    results = [use for use in job.uses if use.result]
    first = {} if job.every is None else {job.labels.dim: 1}
    chunks = {use.name: {**first, **chunks_for(job.plan, use, RESULT_CHUNK)} for use in results}
    if job.diagnosis is not None:
        chunks |= job.diagnosis.chunks
    plain = () if job.compressed else tuple(use.name for use in results)
    frame, grid = _frame(job, steps), _grid(job, steps)
    create_result(path, frame, _uses(job), grid, chunks, job.attributes, plain)
