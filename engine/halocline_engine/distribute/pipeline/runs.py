"""Runs of neighbouring blocks, each of which a worker takes through its own pipeline.

A run is one task of a cluster. Within it blocks overlap and hand on what they share; it begins with
nothing at hand, so that what it fetches depends on its blocks alone, and not on who computes it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from halocline_engine.datasets.stores.chunks import CachedSource, clear_cache
from halocline_engine.distribute.blocks.work import Work
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.pipeline.resources import PipelineResources, open_resources
from halocline_engine.distribute.pipeline.stages import PipelinedWork
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report

__all__ = ["PipelinedRuns", "end_runs"]

# A device that was not told of the end of its job is left when so many others were opened.
_JOBS = 4


@dataclass(frozen=True, slots=True, eq=False)
class PipelinedRuns:
    """The work of a pass, whose blocks go to workers in so many runs: `task.RunWork`.

    `job` names what pipelines of several passes share in a process; `direct_io` says that plain
    files go straight to its device, and chunks of the codecs `device_decoding` are decoded there.
    So many processes, `workers_per_host`, share the cores of a machine.
    """

    work: Work
    slots: int
    target: str
    job: str
    runs: int
    direct_io: bool = False
    device_decoding: tuple[str, ...] = ()
    workers_per_host: int = 1

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Compute one block by itself."""
        return self.work.run(block, cancelled)

    def together(
        self, blocks: Sequence[Block], cancelled: CancelToken | None = None
    ) -> tuple[Report, ...]:
        """Compute a run of blocks; a process has one at a time."""
        place = _place(self.job, self.target)
        with place.lock:
            resources = place.resources(
                direct_io=self.direct_io,
                device_decoding=self.device_decoding,
                workers_per_host=self.workers_per_host,
            )
            work = PipelinedWork(self.work, self.slots, resources)
            try:
                return tuple(work.stream(blocks, cancelled))
            finally:
                for _, source, _ in self.work.sources:
                    if isinstance(source, CachedSource) and source.limit:
                        clear_cache(source.run, source.limit)


def end_runs(job: str, target: str) -> None:
    """Give back what a job had in this process for its pipelines; waits for nothing."""
    threading.Thread(target=_place(job, target).close, daemon=True).start()


class _Place:
    """Resources that the pipelines of a job share in this process; made when they are needed."""

    def __init__(self, target: str) -> None:
        self.lock = threading.Lock()
        self._target = target
        self._stack = ExitStack()
        self._resources: PipelineResources | None = None

    def resources(
        self, *, direct_io: bool, device_decoding: tuple[str, ...], workers_per_host: int
    ) -> PipelineResources:
        """Return the device and its buffers; the lock is held."""
        if self._resources is None:
            self._resources = self._stack.enter_context(
                open_resources(
                    self._target,
                    direct_io=direct_io,
                    device_decoding=device_decoding,
                    workers_per_host=workers_per_host,
                )
            )
        return self._resources

    def close(self) -> None:
        """Give everything back when nothing is under way any more."""
        with self.lock:
            self._resources = None
            self._stack.close()


@functools.lru_cache(maxsize=_JOBS)
def _place(job: str, target: str) -> _Place:  # noqa: ARG001 - part of the cache's key
    return _Place(target)
