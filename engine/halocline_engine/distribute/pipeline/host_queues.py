"""The queues of a pipeline as threads of this process, for targets that compute on the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, HostArray
from halocline_engine.device.io.files import Files
from halocline_engine.device.memory.locking import Locking
from halocline_engine.distribute.pipeline.schedule import Mark

__all__ = ["HostMoment", "HostQueue", "HostQueues"]


class HostQueues:
    """Three threads; as a context, they end with it."""

    def __init__(self) -> None:
        self.sending = HostQueue("sending")
        self.computing = HostQueue("computing")
        self.fetching = HostQueue("fetching")

    def __enter__(self) -> HostQueues:
        """Begin."""
        return self

    def __exit__(self, *details: object) -> None:
        """End the threads when all is done."""
        for queue in (self.sending, self.computing, self.fetching):
            queue.close()

    def synchronize(self) -> None:
        """Wait until nothing is under way any more."""
        for queue in (self.sending, self.computing, self.fetching):
            queue.mark().reached.wait()
            queue.renew()

    def buffer(self, size: int) -> NDArray[np.uint8]:
        """Return memory of the host that copies to and from the device are fast with."""
        return np.empty(size, np.uint8)

    def memory(self, size: int) -> Array:
        """Return memory for files that are read to where threads compute."""
        return np.empty(size, np.uint8)

    def files(self, _reading: int, _writing: int) -> Files | None:
        """Return nothing: what is read for threads of this process needs no way of its own."""
        return None

    def locking(self) -> Locking | None:
        """Return nothing: threads of this process need no locked pages, and should map no files."""
        return None

    def send(self, host: HostArray, into: Array) -> None:
        """Copy to the device, in a queue."""
        np.copyto(into, host)

    def fetch(self, array: Array, into: HostArray) -> None:
        """Copy from the device, in a queue."""
        np.copyto(into, array)

    def moment(self) -> HostMoment:
        """Return now: what was put in a queue is done in its thread."""
        return HostMoment(time.perf_counter())

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return the work itself, which is done when it is called."""
        return work


@dataclass(frozen=True, slots=True)
class HostMoment:
    """A moment by the clock of this process."""

    at: float

    def since(self, earlier: HostMoment) -> float:
        """Return the seconds from an earlier moment."""
        return self.at - earlier.at


class _Place:
    """A place in a queue; `error` is what failed before it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.error: BaseException | None = None

    def wait(self) -> None:
        """Return when all before it is complete; raises what failed."""
        self.reached.wait()
        if self.error is not None:
            raise self.error


class HostQueue:
    """A thread that does what is put, in that order, until something fails."""

    def __init__(self, name: str) -> None:
        self._works: SimpleQueue[Callable[[], None] | _Place | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        """Queue work."""
        self._works.put(work)

    def after(self, mark: Mark) -> None:
        """Let what is put from now on wait for a place in another queue."""
        self._works.put(mark.wait)

    def mark(self) -> _Place:
        """Return the place behind what was put so far."""
        place = _Place()
        self._works.put(place)
        return place

    def renew(self) -> None:
        """Forget what failed; nothing is queued."""
        self._error = None

    def close(self) -> None:
        """End the thread when all is done."""
        self._works.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            if isinstance(work, _Place):
                work.error = self._error
                work.reached.set()
            elif self._error is None:
                try:
                    work()
                except BaseException as error:
                    self._error = error
