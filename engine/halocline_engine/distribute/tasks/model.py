"""Units of work on blocks, and their reports."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from halocline_engine.compiling import compiled_seconds
from halocline_engine.control.interruption import interruptible
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Region, Source
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.distribute.tasks.spent import Counts, Interval, Spent

__all__ = [
    "COMPUTE",
    "BlockWork",
    "Report",
    "RunWork",
    "StreamWork",
    "Task",
    "compute_blocks",
    "peak_bytes",
]

#: Lock for one computation at a time in a process: kernels use all threads and the whole device.
#: Other threads may read and write meanwhile.
COMPUTE = threading.Lock()


class BlockWork(Protocol):
    """Work on all blocks of a pass; small and picklable."""

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Compute a block from the source to the sink; idempotent.

        `cancelled` is polled; `CancelledError` is raised once it returns True.
        """
        ...


@runtime_checkable
class StreamWork(BlockWork, Protocol):
    """Work on overlapping blocks in a single process."""

    def stream(self, blocks: Sequence[Block], cancelled: CancelToken | None) -> Iterator[Report]:
        """Compute blocks in order, and yield them as they are written.

        Raises the error of a block, after all other blocks have ended.
        """
        ...


@runtime_checkable
class RunWork(BlockWork, Protocol):
    """Work on overlapping blocks in several processes, in runs of neighbours; picklable."""

    @property
    def runs(self) -> int:
        """Number of runs of neighbours that the blocks are divided into."""
        ...

    def together(
        self, blocks: Sequence[Block], cancelled: CancelToken | None = None
    ) -> Sequence[Report]:
        """Compute a run in this process; idempotent."""
        ...


def compute_blocks(
    work: BlockWork, blocks: Sequence[Block], cancelled: CancelToken | None
) -> Sequence[Report]:
    """Compute some blocks in this thread; cancellation also interrupts reads.

    Blocks of a `RunWork` are one run.
    """
    with interruptible(partial(raise_if_cancelled, cancelled)):
        if isinstance(work, RunWork):
            return work.together(blocks, cancelled)
        return [work.run(block, cancelled) for block in blocks]


@dataclass(frozen=True, slots=True)
class Report(Counts):
    """Outcome of a block: `seconds` from the first read to the last write.

    `spent` are the seconds of each activity; the block waited for the rest of the time. A rank also
    reports `intervals`.
    """

    index: int = field(kw_only=True)
    spent: Spent = field(default_factory=Spent)
    intervals: tuple[Interval, ...] = ()


@dataclass(slots=True)
class Task:
    """A block during its computation: bytes moved so far, times, and its cancellation.

    `started`, `read_until` and `written_from` are times of `time.perf_counter`, the latter two 0
    until they are reached; `compiled` and `computed` are seconds.
    """

    block: Block
    cancelled: CancelToken | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    started: float = field(default_factory=time.perf_counter)
    read_until: float = 0.0
    compiled: float = 0.0
    computed: float = 0.0
    written_from: float = 0.0

    def loaded(self, array: NDArray[Any]) -> NDArray[Any]:
        """Count an array that was read, and return it."""
        self.bytes_read += array.nbytes
        return array

    def read(self, source: Source, name: str, region: Region) -> NDArray[Any]:
        """Read a region of a variable, and count it."""
        return self.loaded(source.read(name, region))

    def write(self, sink: Sink, name: str, region: Region, values: NDArray[Any]) -> None:
        """Write a region of a variable, and count it."""
        sink.write(name, region, values)
        self.bytes_written += values.nbytes

    def check(self) -> None:
        """Raise `CancelledError` if the run was cancelled."""
        raise_if_cancelled(self.cancelled)

    @contextmanager
    def computing(self) -> Generator[None]:
        """Hold the lock of computations in this process; raises if the run was cancelled."""
        self.check()
        self.read_until = self.read_until or time.perf_counter()
        with COMPUTE:
            began, before = time.perf_counter(), compiled_seconds()
            yield
            self.written_from = time.perf_counter()
            compiled = compiled_seconds() - before
            self.compiled += compiled
            self.computed += self.written_from - began - compiled

    def report(self, *, spent: Spent | None = None, **more: Any) -> Report:
        """Return the report of a written block; `spent` replaces the measured times."""
        now = time.perf_counter()
        moved = (self.bytes_read, self.bytes_written)
        known = self.written_from > 0
        if spent is None:
            spent = Spent(
                reading=self.read_until - self.started if known else 0.0,
                compiling=self.compiled,
                computing=self.computed,
                writing=now - self.written_from if known else 0.0,
            )
        return Report(
            now - self.started,
            *moved,
            peak_bytes(),
            index=self.block.index,
            spent=spent,
            **more,
        )


def peak_bytes() -> int:
    """Return the peak resident size of this process in bytes."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        memory = psutil.Process().memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
