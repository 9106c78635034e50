"""Executor of this process: its threads compute the blocks of a pass."""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from halocline_engine.backends.targets import TARGETS
from halocline_engine.device.memory.idle import DEVICE_USE
from halocline_engine.device.probe import device_bytes
from halocline_engine.distribute.communicators.base import RankWork, run_rank
from halocline_engine.distribute.communicators.local import LocalCommunicator, Mailbox
from halocline_engine.distribute.executors.base import POLL, Done, T
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import BlockWork, Report, StreamWork, compute_blocks
from halocline_engine.distribute.tasks.options import Options

__all__ = ["LocalPool", "host_memory", "return_freed_memory", "usable_device_memory"]

# Shares of what is free on the host, and on a device, which nothing else grows on meanwhile.
_SHARE = 0.8
_DEVICE_SHARE = 0.85

_M_MMAP_THRESHOLD = -3  # of <malloc.h>
_RETURNED = 4 << 20  # bytes of an array that is returned when it is freed


@dataclass(frozen=True, slots=True)
class LocalPool:
    """The threads of this process: one computes while the other one reads and writes."""

    threads: int = 2
    workers: int = 1
    remote: bool = False
    workers_per_host: int = 1
    same_host: bool = True
    reaches_memory: bool = True
    options: Options = Options()  # noqa: RUF009 - frozen

    @property
    def memory(self) -> int:
        """A share of what is free, as this process may use it."""
        return self.options.granted(int(host_memory() * _SHARE))

    def granted(self, options: Options) -> LocalPool:
        """Return this process with less memory."""
        return replace(self, options=options)

    def device_memory(self, target: str) -> int | None:
        """Return a share of the current device's memory."""
        return self.options.granted_on_device(usable_device_memory(target))

    def run(
        self, work: BlockWork, blocks: Sequence[Block], cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Compute blocks in threads, or as they come through a pipeline."""
        with DEVICE_USE:
            yield from self._run(work, blocks, cancelled)

    def _run(
        self, work: BlockWork, blocks: Sequence[Block], cancelled: CancelToken | None
    ) -> Iterator[Done]:
        left = iter(blocks)
        name = f"process {os.getpid()}"
        if isinstance(work, StreamWork):
            for report in work.stream(blocks, cancelled):
                yield Done(report, name)
            return
        if len(blocks) == 1:  # nothing to read or write meanwhile, and a thread takes a while
            raise_if_cancelled(cancelled)
            yield Done(_compute(work, blocks[0], cancelled), name)
            return
        with ThreadPoolExecutor(self.threads, thread_name_prefix="halocline") as executor:
            running: set[Future[Report]] = set()

            def start(count: int) -> None:
                for block in itertools.islice(left, count):
                    running.add(executor.submit(_compute, work, block, cancelled))

            start(self.threads)
            while running:
                raise_if_cancelled(cancelled)
                finished, _ = wait(running, timeout=POLL, return_when=FIRST_COMPLETED)
                for future in finished:
                    running.discard(future)
                    yield Done(future.result(), name)
                start(len(finished))

    def run_ranks(
        self, work: RankWork, ranks: int, cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Run the ranks of a job in threads."""
        name = f"process {os.getpid()}"
        mailbox = Mailbox(cancelled)
        told: queue.SimpleQueue[Event | Future[Report]] = queue.SimpleQueue()
        executor = ThreadPoolExecutor(ranks, thread_name_prefix="halocline-rank")
        with DEVICE_USE, executor:
            running = {
                executor.submit(run_rank, work, LocalCommunicator(rank, ranks, mailbox), told.put)
                for rank in range(ranks)
            }
            for future in running:
                future.add_done_callback(told.put)
            try:
                while running:
                    one = told.get()
                    if isinstance(one, Future):
                        running.discard(one)
                        yield Done(one.result(), name)
                    else:
                        yield one
            finally:
                if running:
                    mailbox.lose("Another rank of the job ended with an error.")

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function here."""
        function()

    def each(self, function: Callable[..., T], *arguments: object) -> Mapping[str, T]:
        """Return what a function returns here."""
        return {f"process {os.getpid()}": function(*arguments)}


def _compute(work: BlockWork, block: Block, cancelled: CancelToken | None) -> Report:
    return compute_blocks(work, (block,), cancelled)[0]


def usable_device_memory(target: str) -> int | None:
    """Return the bytes of this process's device that blocks may take; None without a device."""
    return int(device_bytes() * _DEVICE_SHARE) if TARGETS[target].on_device else None


def host_memory() -> int:
    """Return the bytes that this process can still get: free memory, or less in a container."""
    free = psutil.virtual_memory().available
    limit = Path("/sys/fs/cgroup/memory.max")
    used = Path("/sys/fs/cgroup/memory.current")
    try:
        return min(free, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):
        return free


def return_freed_memory() -> None:
    """Let large arrays that are freed leave this process at once, for jobs whose memory is bounded.

    glibc raises the size from which it does so to that of the largest array freed, up to 32 MiB,
    and each thread then keeps what it freed of smaller ones: 200 MB more where two threads decode
    chunks of 20 MB. Does nothing where there is no glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _RETURNED)
