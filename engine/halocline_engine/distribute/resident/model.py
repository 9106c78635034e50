"""The part of a job that ranks need: what they load, keep, and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.sink import Sink, create_store
from halocline_engine.datasets.stores.source import Source
from halocline_engine.datasets.times.forcing import Forcing
from halocline_engine.distribute.blocks.work import BoundProgram, saved_states
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.grid.regions import write_box
from halocline_engine.distribute.jobs.checkpoint import MARK
from halocline_engine.distribute.jobs.snapshots import Series
from halocline_engine.distribute.tasks.until import Until

if TYPE_CHECKING:
    from halocline_engine.distribute.reductions.running import Diagnosis

__all__ = ["Checkpoints", "RankJob"]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Folder and interval of checkpoints.

    `chunks` are the chunk sizes of each kept field. A checkpoint is made every `steps` steps, and
    when `seconds` have passed since the last one; None for neither.
    """

    workspace: Path
    attempt: int
    fingerprint: str
    chunks: Mapping[str, Mapping[str, int]]
    steps: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, eq=False)
class RankJob(BoundProgram):
    """Parameters that all ranks of a job share.

    `blocks` are those of each rank, which exchange halos every `bundle` steps, or, where several
    steps are made at once, after up to `deepest`. `done` of `steps` steps were made before. What is
    `saved` is written to the sink at the end, or at each place of a `series`. The job ends early
    where `until` says so; `origin` is where the field that it measures was before the first step,
    if steps were made before. Records of the `forcing` are read from `source`. A `diagnosis` is
    measured between steps, of fields and of variables of the `source`; a run that goes on from a
    `checkpoint` has its values there.
    """

    blocks: tuple[tuple[Block, ...], ...]
    bundle: int
    deepest: int
    steps: int
    done: int
    target: str
    checkpoints: Checkpoints | None
    until: Until | None = None
    origin: tuple[tuple[str, Source, str], ...] = ()
    series: Series | None = None
    forcing: Forcing = field(default_factory=Forcing)
    diagnosis: Diagnosis | None = None
    source: Source | None = None
    checkpoint: str = ""

    @property
    def kept(self) -> tuple[FieldUse, ...]:
        """The fields that go from step to step."""
        return tuple(use for use in self.layout.uses if use.kept)

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """What a checkpoint has: each kept field, from the one that becomes it."""
        return saved_states(self.kept)

    def create(self, path: Path, chunks: Mapping[str, Mapping[str, int]]) -> None:
        """Create the store of a checkpoint."""
        create_store(path, self.kept, self.layout.grid, chunks, MARK)

    def write_block(
        self, sink: Sink, name: str, field: str, block: Block, values: NDArray[Any]
    ) -> int:
        """Write a block's own cells of a field under a name; return how many bytes."""
        use = next(use for use in self.layout.uses if use.name == field)
        return self.write(sink, name, use, block, values)

    def sink_at(self, steps_done: int) -> Sink:
        """Return where the results go if so many steps are all."""
        return self.sink if self.series is None else self.series.at(steps_done)

    def write(
        self, sink: Sink, name: str, use: FieldUse, block: Block, values: NDArray[Any]
    ) -> int:
        """Write a block's own cells of a field, indexed [i, j, k]; return how many bytes."""
        outer = len(self.layout.grid.extra)
        return write_box(sink, name, use, self.layout.grid, block, values[(np.newaxis,) * outer])
