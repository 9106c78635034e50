"""What pipelines of one run share: the queues of the device, page-locked buffers, threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, HostArray
from halocline_engine.device.pages import Locking, Pages
from halocline_engine.distribute.host_lanes import HostLanes
from halocline_engine.distribute.pipeline import Lanes

__all__ = ["Belt", "Carrier", "open_belt"]


class Carrier(Lanes, Protocol):
    """The queues of a device, and what copies to and from it."""

    def buffer(self, size: int) -> NDArray[np.uint8]:
        """Return memory of the host from and to which a device copies at its full rate."""
        ...

    def locking(self) -> Locking | None:
        """Return what locks pages to copy from and to where they lie; None where that is no use."""
        ...

    def send(self, host: HostArray, into: Array) -> None:
        """Queue the copy of an array [i, j, k] in locked memory in the current lane.

        Points along I stand side by side.
        """
        ...

    def fetch(self, array: Array, into: HostArray) -> None:
        """Queue the copy of a target's array to such an array, in the current lane."""
        ...

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what queues in the current lane what `work` queues, which is not done yet."""
        ...


@dataclass(slots=True)
class Belt:
    """A device and the buffers of its host, which are made once and kept for the next pass.

    `pages` lock what is sent and fetched where it lies; None where all goes through buffers.
    """

    lanes: Carrier
    readers: Executor
    writers: Executor
    pages: Pages | None = None
    _buffers: dict[tuple[str, int], NDArray[np.uint8]] = field(
        default_factory=dict[tuple[str, int], NDArray[np.uint8]]
    )

    def buffer(self, side: str, slot: int, size: int) -> NDArray[np.uint8]:
        """Return the buffer of a slot on one side of the device, of at least `size` bytes."""
        found = self._buffers.get((side, slot))
        if found is None or found.size < size:
            self._buffers.pop((side, slot), None)
            found = self._buffers[side, slot] = self.lanes.buffer(size)
        return found


@contextmanager
def open_belt(target: str) -> Generator[Belt]:
    """Open the device of a target for pipelines; at the end nothing is under way, or locked."""
    threads = max(2, len(os.sched_getaffinity(0)) // 2)
    with ExitStack() as stack:
        readers = stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="read"))
        writers = stack.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="write"))
        lanes: Any = stack.enter_context(_lanes(target))
        locking: Locking | None = lanes.locking()
        pages = Pages(locking) if locking is not None else None
        if pages is not None:
            stack.callback(pages.close)
        yield Belt(lanes, readers, writers, pages)


def _lanes(target: str) -> Any:
    if target != "cuda":
        return HostLanes()
    from halocline_engine.device.lanes import DeviceLanes

    return DeviceLanes()
