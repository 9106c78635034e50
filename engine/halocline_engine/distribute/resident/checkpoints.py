"""Checkpoints and snapshots: fields between two steps, written while the steps go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.stores.sink import Sink, ZarrSink
from halocline_engine.distribute.communicators.base import Communicator, Tell
from halocline_engine.distribute.jobs.checkpoint import begin_pass, finish_pass, prune
from halocline_engine.distribute.jobs.snapshots import Series
from halocline_engine.distribute.resident.model import Checkpoints
from halocline_engine.distribute.tasks.events import Checkpointed, Event, SnapshotWritten

__all__ = ["CheckpointWriter", "SavedFields", "SavedJob"]

#: What is written: name there, name of the field, and its cells by block.
_Copies: TypeAlias = list[tuple[str, str, list[tuple[Any, NDArray[Any]]]]]
#: Makes something complete that took so many seconds, and returns the event of it.
_Finish: TypeAlias = Callable[[float], Event]


class SavedJob(Protocol):
    """A job as checkpoints and snapshots see it.

    Each of `states` and `saved` is a name there, and that of the field whose values are written.
    """

    @property
    def steps(self) -> int:
        """Number of steps."""
        ...

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Folder and interval of checkpoints."""
        ...

    @property
    def states(self) -> Iterable[tuple[str, str]]:
        """What a checkpoint has."""
        ...

    @property
    def saved(self) -> Iterable[tuple[str, str]]:
        """What a snapshot has."""
        ...

    def create(self, path: Path, chunks: Mapping[str, Mapping[str, int]]) -> None:
        """Create the store of a checkpoint."""
        ...

    def write_block(
        self, sink: Sink, name: str, field: str, block: Any, values: NDArray[Any]
    ) -> int:
        """Write a block's own cells of a field under a name; return how many bytes."""
        ...


class SavedFields(Protocol):
    """The fields of a rank."""

    def own(self, name: str, /) -> list[tuple[Any, NDArray[Any]]]:
        """Return the own cells of a field by block, in arrays that stay as they are."""
        ...


class CheckpointWriter:
    """Writes checkpoints and snapshots in a thread of its own, one at a time and in their order.

    Rank 0 makes the store, and its manifest when all ranks have written. What has no manifest does
    not exist.
    """

    def __init__(
        self, job: SavedJob, fields: SavedFields, communicator: Communicator, tell: Tell
    ) -> None:
        self._job, self._fields = job, fields
        self._communicator, self._tell = communicator, tell
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="halocline-checkpoint")
        self._writing: Future[None] | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until nothing is being written; raise what went wrong, if nothing else did."""
        self._thread.shutdown(wait=True)
        if kind is None:
            self._settle()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is still being written; raises what went wrong with it."""
        if self._writing is not None and self._writing.done():
            self._settle()
        return self._writing is not None

    def begin(self, steps_done: int) -> str:
        """Make the place of a checkpoint, on rank 0; waits for the one before."""
        self._settle()
        plan = self._job.checkpoints
        assert plan is not None
        path = begin_pass(plan.workspace, plan.attempt, steps_done)
        self._job.create(path, plan.chunks)
        return str(path)

    def write(
        self,
        path: Path,
        steps_done: int,
        diagnosed: Mapping[str, NDArray[Any]] = MappingProxyType({}),
    ) -> None:
        """Write the fields as they are now; returns when they are copied.

        Values that are `diagnosed` go beside them, from rank 0.
        """
        measured = {name: values.copy() for name, values in diagnosed.items()}

        def finish(seconds: float) -> Event:
            plan = self._job.checkpoints
            assert plan is not None
            if measured:
                from halocline_engine.distribute.resident.measurements import diagnosing

                diagnosing.keep_diagnostics(path, measured)
            finish_pass(path, plan.fingerprint, steps_done, digests=True)
            prune(plan.workspace, plan.fingerprint)
            return Checkpointed(steps_done, self._job.steps, seconds)

        self._begin(ZarrSink(str(path)), self._job.states, steps_done, finish)

    def write_snapshot(self, series: Series, steps_done: int) -> None:
        """Write the results as they are now; returns when they are copied."""

        def finish(seconds: float) -> Event:
            series.complete(steps_done)
            return SnapshotWritten(steps_done, self._job.steps, seconds)

        self._begin(series.at(steps_done), self._job.saved, steps_done, finish)

    def _settle(self) -> None:
        """Wait for the checkpoint that is being written; raise what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _begin(
        self, sink: Sink, saved: Iterable[tuple[str, str]], steps_done: int, finish: _Finish
    ) -> None:
        """Copy fields, given as in `BoundProgram.saved`, and begin to write them."""
        self._settle()
        copies = [(name, source, self._fields.own(source)) for name, source in saved]
        self._writing = self._thread.submit(self._write, sink, copies, steps_done, finish)

    def _write(self, sink: Sink, copies: _Copies, steps_done: int, finish: _Finish) -> None:
        """Write copies, and on rank 0 `finish` when all ranks have."""
        started = time.perf_counter()
        for name, source, parts in copies:
            for block, values in parts:
                self._job.write_block(sink, name, source, block, values)
        tag = ("written", steps_done)
        if self._communicator.rank:
            self._communicator.send(0, tag, np.zeros(1, np.uint8))
            return
        for rank in range(1, self._communicator.size):
            self._communicator.receive(rank, tag)
        self._tell(finish(time.perf_counter() - started))
