"""The results of a sequence: those of the last step, and snapshots of earlier ones.

With a workspace snapshots are kept there, so that a later run need not make them again, and are
brought to the others at the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from halocline_engine.datasets.grids.match import Grid
from halocline_engine.datasets.stores.places import place_in
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.distribute.jobs.checkpoint import FinishedPass, newest_pass
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.distribute.jobs.snapshots import (
    Series,
    Snapshot,
    bring,
    complete_snapshots,
    place_of_step,
)
from halocline_engine.distribute.sequences.request import SequenceRequest
from halocline_engine.distribute.sequences.values import Values, copy_variable
from halocline_engine.distribute.tasks.events import OnEvent, SnapshotWritten

__all__ = ["Results", "ResumePoint", "resume_point", "shape_of"]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a job goes on: values that earlier runs left, and the snapshots before them."""

    found: FinishedPass | None = None
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict[int, Snapshot])

    @property
    def steps_done(self) -> int:
        """How many steps need not be made again."""
        return 0 if self.found is None else self.found.steps_done


def resume_point(request: SequenceRequest, names: Sequence[str]) -> ResumePoint:
    """Return where to start: at the newest values before which no snapshot is missing."""
    kept, every = request.kept, request.every
    if kept is None:
        return ResumePoint()
    if every is None:
        return ResumePoint(newest_pass(kept.workspace, kept.fingerprint))
    there = complete_snapshots(kept.workspace, kept.fingerprint, every, names)
    before = every * (len(there) + 1)
    return ResumePoint(newest_pass(kept.workspace, kept.fingerprint, before), there)


@dataclass(frozen=True, slots=True)
class Results:
    """Place of the results of a job in `sink`; `wanted` is what stages make of them in a step."""

    wanted: tuple[Output, ...]
    job: Blockwise
    steps: int
    sink: Sink
    series: Series | None
    earlier: ResumePoint
    tell: OnEvent

    def give(self, done: int, values: Values) -> None:
        """Give the results after a step, if they are wanted."""
        if done == self.steps:
            self._end(values)
        elif self.series is not None and self.series.due(done):
            began = time.perf_counter()
            self._copy(values, self.series.at(done))
            self.series.complete(done)
            self.tell(SnapshotWritten(done, self.steps, time.perf_counter() - began))

    def _end(self, values: Values) -> None:
        """Give the results of the last step, and bring the snapshots of a workspace to them."""
        series = self.series
        if series is None:
            self._copy(values, self.sink)
            return
        self._copy(values, place_in(self.sink, place_of_step(self.steps, series.every)))
        if series.store is None:
            return
        for steps in range(series.every, self.steps, series.every):
            index = place_of_step(steps, series.every)
            mine = Snapshot(series.store, index)
            found = self.earlier.snapshots[steps] if steps <= self.earlier.steps_done else mine
            bring(found, series.names, self.sink, index, None)

    def _copy(self, values: Values, sink: Sink) -> None:
        for output in self.wanted:
            shape = shape_of(output, self.job.grid)
            copy_variable(values.place(output.name), sink, output, shape)


def shape_of(output: Output, grid: Grid) -> tuple[int, ...]:
    """Return the sizes of an output on a grid."""
    return tuple(grid.size_of(dim) for dim in output.dims)
