"""Resources of the pipelines of a run: queues, page-locked buffers, threads."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, HostArray
from halocline_engine.backends.targets import TARGETS
from halocline_engine.device.io.files import Files
from halocline_engine.device.memory.locking import Locking, Pages
from halocline_engine.distribute.pipeline.host_queues import HostQueues
from halocline_engine.distribute.pipeline.schedule import Queues
from halocline_engine.distribute.transports.decoder import Decoder, open_decoder
from halocline_engine.processors import usable_processors

__all__ = ["CopyQueues", "Moment", "PipelineResources", "cores_of", "io_threads", "open_resources"]


class Moment(Protocol):
    """When a queue came to a place."""

    def since(self, earlier: Any) -> float:
        """Return the seconds from an earlier moment of the same queue; both have been reached."""
        ...


class CopyQueues(Queues, Protocol):
    """The queues of a device, and what copies to and from it."""

    def buffer(self, size: int) -> NDArray[np.uint8]:
        """Return memory of the host from and to which a device copies at its full rate."""
        ...

    def memory(self, size: int) -> Array:
        """Return bytes [n] of the device, to and from which files are read and written."""
        ...

    def files(self, reading: int, writing: int) -> Files | None:
        """Return what reads and writes such files; None where they go through the host.

        So many cores read, and so many write, at a time.
        """
        ...

    def locking(self) -> Locking | None:
        """Return what locks pages to copy from and to where they lie; None where that is no use."""
        ...

    def send(self, host: HostArray, into: Array) -> None:
        """Queue the copy of an array [i, j, k] in locked memory in the current queue.

        Points along I stand side by side.
        """
        ...

    def fetch(self, array: Array, into: HostArray) -> None:
        """Queue the copy of a target's array to such an array, in the current queue."""
        ...

    def moment(self) -> Moment:
        """Return when the current queue comes to here; called by what was put there."""
        ...

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what queues in the current queue what `work` queues, which is not done yet."""
        ...


@dataclass(slots=True)
class PipelineResources:
    """A device and the buffers of its host, which are made once and kept for the next pass.

    `pages` lock what is sent and fetched where it lies; None where all goes through buffers.
    `files` go straight to memory of the device; None where they too go through buffers. `decoder`
    decodes chunks there; None where the host does.
    """

    queues: CopyQueues
    readers: Executor
    writers: Executor
    pages: Pages | None = None
    files: Files | None = None
    decoder: Decoder | None = None
    _memory: dict[tuple[str, int], Array] = field(default_factory=dict[tuple[str, int], Array])
    _buffers: dict[tuple[str, int], NDArray[np.uint8]] = field(
        default_factory=dict[tuple[str, int], NDArray[np.uint8]]
    )

    def buffer(self, name: str, slot: int, size: int) -> NDArray[np.uint8]:
        """Return the page-locked buffer of a slot under a name, of at least `size` bytes."""
        found = self._buffers.get((name, slot))
        if found is None or found.size < size:
            self._buffers.pop((name, slot), None)
            found = self._buffers[name, slot] = self.queues.buffer(size)
        return found

    def memory(self, name: str, slot: int, size: int) -> Array:
        """Return memory of the device of a slot under a name, of at least `size` bytes."""
        found = self._memory.get((name, slot))
        if found is None or found.nbytes < size:
            self._memory.pop((name, slot), None)
            found = self._memory[name, slot] = self.queues.memory(size)
        return found


@contextmanager
def open_resources(
    target: str,
    *,
    direct_io: bool = False,
    device_decoding: tuple[str, ...] = (),
    workers_per_host: int = 1,
) -> Generator[PipelineResources]:
    """Open the device of a target for pipelines; at the end nothing is under way, or locked.

    `direct_io` lets files go straight to and from memory of the device, where that is possible, and
    chunks of the codecs `device_decoding` are decoded there, if nvCOMP is there. So many processes
    of this machine, `workers_per_host`, do the same, and have as many cores each.
    """
    with ExitStack() as stack:
        stack.enter_context(_frozen())
        queues: Any = stack.enter_context(_queues(target))
        cores = cores_of(workers_per_host)
        files: Files | None = queues.files(*io_threads(cores)) if direct_io else None
        if files is not None:
            stack.callback(files.close)
        threads = max(2, cores // 2)
        readers = stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="read"))
        writers = stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="write"))
        locking: Locking | None = queues.locking()
        pages = Pages(locking) if locking is not None else None
        if pages is not None:
            stack.callback(pages.close)
        decoder = open_decoder(target, device_decoding) if device_decoding else None
        yield PipelineResources(queues, readers, writers, pages, files, decoder)


@contextmanager
def _frozen() -> Generator[None]:
    """Let Python's collector pass over what is there already, unless something else did.

    A look at all of it takes 0.2 s, in which nothing is queued, at any moment of a run.
    """
    if gc.get_freeze_count() > len(gc.get_objects()):
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def cores_of(workers_per_host: int) -> int:
    """Return how many cores are for a process, of so many that share this machine.

    Those that may use some of its cores only may already have no more than their share.
    """
    everywhere = os.cpu_count() or 1
    return max(1, min(usable_processors(), everywhere // workers_per_host))


def io_threads(cores: int) -> tuple[int, int]:
    """Return how many cores shall read files to a device at a time, and how many write.

    A new file takes a core about twice as long as one that is read, as its pages are made. An
    eighth is left for what else a run does.
    """
    return max(1, cores * 5 // 16), max(1, cores * 9 // 16)


def _queues(target: str) -> Any:
    if not TARGETS[target].on_device:
        return HostQueues()
    from halocline_engine.device.queues import DeviceQueues

    return DeviceQueues()
