"""A unit of work on blocks, and the report that comes back."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken

__all__ = ["COMPUTE", "BlockWork", "Moved", "Report", "RunWork", "StreamWork", "peak_bytes"]

Moved: TypeAlias = int | Iterable[NDArray[Any]]

#: One computation at a time in a process: kernels use all of its threads and all of its device.
#: Other threads read and write meanwhile.
COMPUTE = threading.Lock()


class BlockWork(Protocol):
    """What all blocks of a pass do; small, and it can be pickled."""

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Compute a block from the source to the sink; running it again writes the same again.

        `cancelled` is looked at from time to time; where it says True, `CancelledError` is raised.
        """
        ...


@runtime_checkable
class StreamWork(BlockWork, Protocol):
    """Work whose blocks overlap, in one process that computes all of them."""

    def stream(self, blocks: Sequence[Block], cancelled: CancelToken | None) -> Iterator[Report]:
        """Compute blocks in order, and yield them as they are written.

        Raises what a block raised, and then nothing is under way any more.
        """
        ...


@runtime_checkable
class RunWork(BlockWork, Protocol):
    """Work whose blocks overlap in each of several processes, run by run; it can be pickled."""

    @property
    def runs(self) -> int:
        """Into how many runs of neighbours the blocks are cut."""
        ...

    def together(self, blocks: Sequence[Block]) -> Sequence[Report]:
        """Compute a run in this process; running it again writes the same again."""
        ...

    def stop(self) -> None:
        """Let what this process computes end soon; waits for nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a block: `seconds` from the first read to the last write.

    `fetches` is how many chunks were fetched for it, where they are counted; `bytes_zero_copy` are
    those read and written that were not copied on the host, and `bytes_direct_io` those that went
    between files and a device without a buffer of the host, or were decoded there.
    """

    index: int
    seconds: float
    bytes_read: int
    bytes_written: int
    peak_bytes: int
    fetches: int = 0
    bytes_zero_copy: int = 0
    bytes_direct_io: int = 0

    @classmethod
    def of(cls, index: int, started: float, read: Moved, written: Moved, **more: int) -> Report:
        """Return the report of a block that was begun at `started` on `time.perf_counter`.

        `read` and `written` are arrays, or their bytes.
        """
        seconds = time.perf_counter() - started
        return cls(index, seconds, _bytes(read), _bytes(written), peak_bytes(), **more)


def _bytes(moved: Moved) -> int:
    return moved if isinstance(moved, int) else sum(array.nbytes for array in moved)


def peak_bytes() -> int:
    """Return the largest resident size that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
