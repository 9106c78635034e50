"""Checkpoints: the fields as they are between two steps, written while the steps go on."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.sink import ZarrSink, create_store
from halocline_engine.distribute.communicators.base import Communicator, Tell
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.jobs.checkpoint import MARK, begin_pass, finish_pass, prune
from halocline_engine.distribute.resident.fields import RankFields
from halocline_engine.distribute.resident.model import RankJob
from halocline_engine.distribute.tasks.events import Checkpointed

__all__ = ["CheckpointWriter"]

_Kept = list[tuple[FieldUse, list[tuple[Block, NDArray[Any]]]]]


class CheckpointWriter:
    """Writes checkpoints in a thread of its own, one at a time.

    Rank 0 makes the store, and its manifest when all ranks have written. A checkpoint without a
    manifest does not exist.
    """

    def __init__(
        self, job: RankJob, fields: RankFields, communicator: Communicator, tell: Tell
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
        create_store(path, self._job.kept, self._job.layout.grid, plan.chunks, MARK)
        return str(path)

    def write(self, path: Path, steps_done: int) -> None:
        """Write the fields as they are now; returns when they are copied."""
        self._settle()
        kept = [(use, self._fields.own(use)) for use in self._job.kept]
        self._writing = self._thread.submit(self._write, path, steps_done, kept)

    def _settle(self) -> None:
        """Wait for the checkpoint that is being written; raise what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, path: Path, steps_done: int, kept: _Kept) -> None:
        started = time.perf_counter()
        sink = ZarrSink(str(path))
        for use, parts in kept:
            for block, values in parts:
                self._job.write(sink, use.name, use, block, values)
        tag = ("written", steps_done)
        if self._communicator.rank:
            self._communicator.send(0, tag, np.zeros(1, np.uint8))
            return
        for rank in range(1, self._communicator.size):
            self._communicator.receive(rank, tag)
        plan = self._job.checkpoints
        assert plan is not None
        finish_pass(path, plan.fingerprint, steps_done, digests=True)
        prune(plan.workspace, plan.fingerprint)
        seconds = time.perf_counter() - started
        self._tell(Checkpointed(steps_done, self._job.steps, seconds))
