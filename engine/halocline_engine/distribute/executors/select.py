"""Choice of the pool: this process, new processes on this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from halocline_engine.arguments import whole
from halocline_engine.backends.registry import resolve
from halocline_engine.distribute.communicators.base import RankWork
from halocline_engine.distribute.executors.base import Done, RankPool, T
from halocline_engine.distribute.executors.local import LocalPool, return_freed_memory
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import BlockWork
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.errors import ArgumentError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["check_threads", "granted", "local_pool", "open_pool"]


@dataclass(frozen=True, slots=True)
class _Granted:
    """A pool of whose memory less may be used than there is."""

    pool: RankPool
    options: Options

    @property
    def workers(self) -> int:
        """Number of processes."""
        return self.pool.workers

    @property
    def threads(self) -> int:
        """Number of blocks at hand in a process."""
        return self.pool.threads

    @property
    def memory(self) -> int:
        """Bytes that the blocks of one process may take."""
        there, granted = int(self.pool.memory * self.options.share), self.options.memory
        return there if granted is None else min(there, granted)

    @property
    def remote(self) -> bool:
        """Whether the processes are others than this one."""
        return self.pool.remote

    @property
    def workers_per_host(self) -> int:
        """Largest number of processes that share the cores of one machine."""
        return self.pool.workers_per_host

    def device_memory(self, target: str) -> int | None:
        """Return the bytes that blocks may take on the device of a process."""
        there, granted = self.pool.device_memory(target), self.options.device_memory
        if there is None:
            return None
        shared = int(there * self.options.share)
        return shared if granted is None else min(shared, granted)

    def run(
        self, work: BlockWork, blocks: Sequence[Block], cancelled: CancelToken | None
    ) -> Iterator[Done]:
        """Compute blocks."""
        return self.pool.run(work, blocks, cancelled)

    @property
    def same_host(self) -> bool:
        """Whether all processes are known to be on this machine."""
        return self.pool.same_host

    @property
    def reaches_memory(self) -> bool:
        """Whether all processes read and write the memory of this one."""
        return self.pool.reaches_memory

    def run_ranks(
        self, work: RankWork, ranks: int, cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Run the ranks of a job."""
        return self.pool.run_ranks(work, ranks, cancelled)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function once in each process that can be reached."""
        self.pool.everywhere(function)

    def each(self, function: Callable[..., T], *arguments: object) -> Mapping[str, T]:
        """Return what a function returns in each process that answers at once."""
        return self.pool.each(function, *arguments)


def open_pool(
    cluster: int | str | Client | None,
    target: str,
    stack: ExitStack,
    options: Options | None = None,
) -> tuple[RankPool, str]:
    """Return a pool and the name of the target on it; what is started ends with the stack.

    `cluster` is None for this process, a number of processes to start on this machine, the address
    of a Dask scheduler, or a client of one. `options` may grant less memory than there is, and say
    how many blocks this process has at hand.
    """
    options = options_of(options)
    pool, chosen = _opened(cluster, target, stack, options)
    return granted(pool, options), chosen


def local_pool(options: Options) -> LocalPool:
    """Return this process, with as many blocks at hand as the options say."""
    if _bounded(options):
        return_freed_memory()
    return LocalPool() if options.threads is None else LocalPool(threads=options.threads)


def check_threads(options: Options, cluster: object) -> None:
    """Raise `ArgumentError` where blocks of this process are counted, but a cluster has them."""
    if options.threads is not None and cluster is not None:
        raise ArgumentError(
            f"Option 'threads' is how many blocks this process has at hand, got {options.threads},"
            " but a cluster computes them.",
            hint="Leave it out; the workers' own threads count.",
        )


def granted(pool: RankPool, options: Options) -> RankPool:
    """Return a pool of whose memory no more may be used than the options say."""
    return _Granted(pool, options) if _bounded(options) else pool


def _bounded(options: Options) -> bool:
    return options.memory is not None or options.device_memory is not None or options.share < 1


def _opened(
    cluster: int | str | Client | None, target: str, stack: ExitStack, options: Options
) -> tuple[RankPool, str]:
    check_threads(options, cluster)
    if cluster is None:
        return local_pool(options), resolve(target)
    if isinstance(cluster, Integral):
        count = whole("cluster", cluster, 1)
        from halocline_engine.distribute.executors.reuse import reused

        chosen = resolve(target)
        return stack.enter_context(reused(count, chosen)), chosen
    from halocline_engine.distribute.executors.dask import connect

    pool = stack.enter_context(connect(cluster))
    return pool, pool.resolve(target)
