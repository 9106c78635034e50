"""The work of a rank that keeps its variables: it loads them, makes all steps, writes results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Memory
from halocline_engine.backends.host import HostMemory
from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.stores.places import place_in
from halocline_engine.datasets.stores.sink import Sink, create_store
from halocline_engine.datasets.stores.source import Source
from halocline_engine.device.launch.streams import own_stream
from halocline_engine.distribute.communicators.base import Communicator, Tell, agree, shared
from halocline_engine.distribute.jobs.checkpoint import MARK
from halocline_engine.distribute.jobs.snapshots import Series, Snapshot, bring, place_of_step
from halocline_engine.distribute.resident.checkpoints import CheckpointWriter
from halocline_engine.distribute.resident.model import Checkpoints
from halocline_engine.distribute.resident.stretches import Stretch, Stretches
from halocline_engine.distribute.stepping.arrays import RankArrays
from halocline_engine.distribute.stepping.plan import Steps
from halocline_engine.distribute.stepping.stages import Part
from halocline_engine.distribute.tasks.events import StepsFinished
from halocline_engine.distribute.tasks.model import Report, peak_bytes
from halocline_engine.distribute.tasks.spent import Stopwatch

__all__ = ["StepWork"]


@dataclass(frozen=True, slots=True, eq=False)
class StepWork:
    """Work of the ranks of a sequence that stays in memory: `communicators.base.RankWork`.

    `sources` are the variables that are read, each with where; the others begin with nothing.
    `done` of `count` steps were made before. `states` are what a checkpoint has, each with the
    variable whose values those are, `saved` the results. At the end the snapshots of a workspace,
    `earlier` ones among them, are brought to their places in the sink.
    """

    program: Steps
    target: str
    sources: tuple[tuple[str, Source], ...]
    sink: Sink
    count: int
    done: int
    states: tuple[tuple[str, str], ...]
    saved: tuple[tuple[str, str], ...]
    checkpoints: Checkpoints | None
    series: Series | None
    earlier: tuple[tuple[int, Snapshot], ...] = ()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.count

    @property
    def transport(self) -> str:
        """Transport of halos between ranks."""
        return "messages" if len(self.program.ranks) > 1 else "none"

    def create(self, path: Path, chunks: Mapping[str, Mapping[str, int]]) -> None:
        """Create the store of a checkpoint."""
        uses = [self._use(name, source) for name, source in self.states]
        create_store(path, uses, self._grid, chunks, MARK)

    def write_block(
        self, sink: Sink, name: str, field: str, block: Part, values: NDArray[Any]
    ) -> int:
        """Write a part's own cells of a variable; one of several parts that have the same does."""
        variable = self.program.program.variables[field]
        if any(span.start for dim, span in block.spans.items() if dim not in variable.dims):
            return 0
        spans = (block.spans[dim] for dim in variable.dims)
        sink.write(name, tuple(slice(span.start, span.stop) for span in spans), values)
        return values.nbytes

    def run(self, communicator: Communicator, tell: Tell) -> Report:
        """Do the part of one rank."""
        watch = Stopwatch()
        with own_stream() if TARGETS[self.target].on_device else nullcontext():
            looked_at = frozenset(source for _, source in (*self.states, *self.saved))
            arrays = RankArrays(
                self.program, looked_at, self.target, self._memory(), communicator, watch
            )
            with watch.spending("reading"):
                read = self._load(arrays, communicator)
            agree(communicator, ("loaded", 0), here=True)
            watch.end_interval()
            written = self._advance(arrays, communicator, tell, watch)
        return Report(
            time.perf_counter() - watch.began,
            read,
            written,
            peak_bytes(),
            index=communicator.rank,
            spent=watch.total,
            intervals=watch.intervals,
        )

    def _load(self, arrays: RankArrays, communicator: Communicator) -> int:
        """Read the own cells of all variables; return how many bytes."""
        sources, count = dict(self.sources), 0
        for name, one in self.program.program.variables.items():
            source = sources.get(name)
            if source is None:
                arrays.fill(name, _nothing(one.dtype))
                continue
            for part in arrays.parts:
                communicator.check()
                region = tuple(
                    slice(part.spans[dim].start, part.spans[dim].stop) for dim in one.dims
                )
                values = source.read(name, region).astype(one.dtype, copy=False)
                arrays.load(name, part, values)
                count += values.nbytes
        return count

    def _advance(
        self, arrays: RankArrays, communicator: Communicator, tell: Tell, watch: Stopwatch
    ) -> int:
        """Make all steps, and write results; return how many bytes."""
        began = time.perf_counter()
        with CheckpointWriter(self, arrays, communicator, tell) as writer:
            end = (self.count, self.done, 1, self.checkpoints, writer, (), self.series)
            stretches = Stretches(*end, is_state=False)
            number = 0
            while not stretches.complete:
                stretch = Stretch(**shared(communicator, ("stretch", number), stretches.decide))
                started = time.perf_counter()
                with watch.stepping():
                    arrays.advance(stretch.steps)
                stretches.made(stretch, time.perf_counter() - started)
                watch.end_interval()
                if communicator.rank == 0:
                    seconds, halos = time.perf_counter() - began, watch.total.halos
                    done = stretches.done
                    tell(StepsFinished(done, self.count, seconds, self.transport, halos))
                if stretch.checkpoint:
                    writer.write(Path(stretch.checkpoint), stretches.done)
                if stretch.snapshot and self.series is not None:
                    writer.write_snapshot(self.series, stretches.done)
                number += 1
            with watch.spending("writing"):
                written = self._save(arrays, communicator)
            watch.end_interval()
        if agree(communicator, ("saved", 0), here=True) and communicator.rank == 0:
            for index, snapshot in self.earlier:
                bring(snapshot, [name for name, _ in self.saved], self.sink, index, None)
        return written

    def _save(self, arrays: RankArrays, communicator: Communicator) -> int:
        """Write the own cells of the results; return how many bytes."""
        sink = self.sink
        if self.series is not None:
            sink = place_in(sink, place_of_step(self.count, self.series.every))
        count = 0
        for name, source in self.saved:
            communicator.check()
            for part, values in arrays.own(source):
                count += self.write_block(sink, name, source, part, values)
        return count

    def _memory(self) -> Memory:
        """Return the memory of the target."""
        stages = self.program.program.stages
        found = (stage.memory for stage in stages if stage.memory is not None)
        return next(found, HostMemory())

    @property
    def _grid(self) -> Grid:
        sizes = self.program.program.sizes
        return Grid((None, None, None), (1, 1, 1), tuple(sizes), tuple(sizes.values()))

    def _use(self, name: str, source: str) -> FieldUse:
        one = self.program.program.variables[source]
        return FieldUse(name, name, (), one.dtype, one.dims, Role.CREATED)


def _nothing(dtype: str) -> float | int:
    """Return what cells hold that were never computed."""
    return float("nan") if np.dtype(dtype).kind == "f" else 0
