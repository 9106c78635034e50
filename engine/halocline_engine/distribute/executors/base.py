"""Interface of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from halocline_engine.distribute.communicators.base import RankWork
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import BlockWork, Report
from halocline_engine.distribute.tasks.options import Options

__all__ = ["POLL", "Done", "Pool", "T"]

T = TypeVar("T")

#: Seconds between two looks at whether someone asked for the end.
POLL = 0.1


@dataclass(frozen=True, slots=True)
class Done:
    """A block that is computed and written, and by whom."""

    report: Report
    worker: str


class Pool(Protocol):
    """Some processes that compute blocks, or run the ranks of a job together."""

    @property
    def workers(self) -> int:
        """Number of processes."""
        ...

    @property
    def threads(self) -> int:
        """Number of blocks at hand in a process, which computes one of them at a time."""
        ...

    @property
    def memory(self) -> int:
        """Bytes that the blocks of one process may take."""
        ...

    @property
    def remote(self) -> bool:
        """Whether the processes are others than this one."""
        ...

    @property
    def workers_per_host(self) -> int:
        """Largest number of processes that share the cores of one machine."""
        ...

    @property
    def same_host(self) -> bool:
        """Whether all processes are known to be on this machine."""
        ...

    @property
    def reaches_memory(self) -> bool:
        """Whether all processes read and write the memory of this one."""
        ...

    def granted(self, options: Options) -> Self:
        """Return the same processes, whose blocks may take no more memory than the options say."""
        ...

    def device_memory(self, target: str) -> int | None:
        """Return the bytes that blocks may take on the device of a process.

        None where the target computes in the memory of the process.
        """
        ...

    def run(
        self, work: BlockWork, blocks: Sequence[Block], cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Compute blocks and yield them as they finish; raises what a block raised.

        Yields what happens to processes, too.
        When it raises, nothing is being written any more.
        """
        ...

    def run_ranks(
        self, work: RankWork, ranks: int, cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Run the ranks of a job, each in a process of its own, at the same time.

        Yields what rank 0 tells, and each rank as it ends. Raises what a rank raised, and
        `RankLostError` where one is gone; then none of them runs any more.
        """
        ...

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function once in each process that can be reached."""
        ...

    def each(self, function: Callable[..., T], *arguments: object) -> Mapping[str, T]:
        """Return what a short function returns in each process that answers at once.

        Processes have the names that `Done` has.
        """
        ...
