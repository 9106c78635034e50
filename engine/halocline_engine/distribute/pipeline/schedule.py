"""Blocks on their way through a device, several at a time: the schedule, and who keeps to it.

A block, here an item, is read by the host, sent, computed, fetched, and written by the host. What
it needs on the way is in slots of a ring: a buffer of the host that is sent from, the arrays of the
device, and a buffer of the host that is written from. Item `n` has slot `n % slots` of each::

    read    0 1 2 3 4 5
    send      0 1 2 3 4 5          each row is a thread of the host or a queue of the device;
    compute     0 1 2 3 4 5        a stage waits for what `needs` says, and for nothing else
    fetch         0 1 2 3 4 5
    write           0 1 2 3 4 5

Stages of the device are queued and wait for each other there; the host waits only for a slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from enum import IntEnum
from functools import partial
from typing import Protocol, TypeAlias

from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled

__all__ = ["AT_ONCE", "Mark", "Queue", "Queues", "Stage", "Stages", "Step", "needs", "run_pipeline"]

#: Seconds between two looks at whether someone asked for the end.
_POLL = 0.1
#: Items that are written at the same time, at most.
AT_ONCE = 3


class Stage(IntEnum):
    """Stages of an item, in their order."""

    READ = 0
    SEND = 1
    COMPUTE = 2
    FETCH = 3
    WRITE = 4


#: A stage of an item.
Step: TypeAlias = tuple[Stage, int]


def needs(step: Step, slots: int) -> tuple[Step, ...]:
    """Return what must be complete before a step begins, beside the same stage of earlier items.

    >>> needs((Stage.SEND, 5), slots=3)
    ((<Stage.READ: 0>, 5), (<Stage.FETCH: 3>, 2))
    """
    stage, item = step
    before: tuple[Step, ...] = () if stage is Stage.READ else ((Stage(stage - 1), item),)
    drained = {Stage.READ: Stage.SEND, Stage.SEND: Stage.FETCH, Stage.FETCH: Stage.WRITE}.get(stage)
    if drained is None or item < slots:
        return before
    return (*before, (drained, item - slots))


class Mark(Protocol):
    """A place in a queue."""

    def wait(self) -> None:
        """Return when all before it is complete; raises what failed."""
        ...


class Queue(Protocol):
    """A queue of a device: what is put there is done in that order."""

    def put(self, work: Callable[[], None]) -> None:
        """Queue work; on a device, what `work` queues on the current stream."""
        ...

    def after(self, mark: Mark) -> None:
        """Let what is put from now on wait for a place in another queue."""
        ...

    def mark(self) -> Mark:
        """Return the place behind what was put so far."""
        ...


class Queues(Protocol):
    """The three queues of a device."""

    @property
    def sending(self) -> Queue:
        """Queue of copies to the device."""
        ...

    @property
    def computing(self) -> Queue:
        """Queue of computations on the device."""
        ...

    @property
    def fetching(self) -> Queue:
        """Queue of copies from the device."""
        ...

    def synchronize(self) -> None:
        """Wait until nothing is under way any more; raises nothing."""
        ...


class Stages(Protocol):
    """Actions on an item in a slot."""

    def read(self, item: int, slot: int) -> None:
        """Fill the slot of the host."""
        ...

    def send(self, item: int, slot: int) -> None:
        """Queue copies to the device."""
        ...

    def compute(self, item: int, slot: int) -> None:
        """Queue the steps."""
        ...

    def fetch(self, item: int, slot: int) -> None:
        """Queue copies to the other slot of the host."""
        ...

    def write(self, item: int, slot: int) -> None:
        """Store what is in that slot, perhaps beside others."""
        ...


def run_pipeline(
    stages: Stages,
    queues: Queues,
    items: int,
    slots: int,
    cancelled: CancelToken | None,
    reading: int = 1,
) -> Generator[int]:
    """Yield the items in order as they are written; at most `reading` are read at the same time.

    What a stage raises is raised here once, and nothing is under way then. Raises `CancelledError`
    where `cancelled` says True.
    """
    run = _Run(stages, queues, items, slots)
    loops = (partial(run.read, reading), run.send, run.compute_and_fetch, run.write)
    threads = [threading.Thread(target=run.guarded, args=(loop,), daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        for item in range(items):
            run.wait_written(item, cancelled)
            yield item
    finally:
        run.stop(None)
        for thread in threads:
            thread.join()
        queues.synchronize()


class _Stopped(Exception):
    """Another thread failed, or the rest is not needed."""


class _Run:
    """A run: which steps are complete, or, on the device, queued up to a mark."""

    def __init__(self, stages: Stages, queues: Queues, items: int, slots: int) -> None:
        self._stages = stages
        self._queues = queues
        self._items = items
        self._slots = slots
        self._lock = threading.Lock()
        self._steps: dict[Step, Future[Mark | None]] = {
            (stage, item): Future() for stage in Stage for item in range(items)
        }
        self._stopped = False

    def guarded(self, loop: Callable[[], None]) -> None:
        """Run a loop; what it raises stops all others."""
        try:
            loop()
        except _Stopped:
            return
        except BaseException as error:
            self.stop(error)

    def stop(self, error: BaseException | None) -> None:
        """Let nothing new begin; whoever waits for a step gets the error, the first time only."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            for future in self._steps.values():
                if not future.done():
                    future.set_exception(error or _Stopped())

    def wait_written(self, item: int, cancelled: CancelToken | None) -> None:
        """Wait until an item is written, with an eye on who may have asked for the end."""
        future = self._steps[Stage.WRITE, item]
        while True:
            raise_if_cancelled(cancelled)
            if wait_for([future], timeout=_POLL).done:
                future.result()
                return

    def read(self, reading: int) -> None:
        """Fill slots, some at a time; wait for a slot of the host before that."""
        self._several(min(self._slots, reading), "read", Stage.READ, self._stages.read)

    def send(self) -> None:
        """Queue the copies to the device."""
        for item in range(self._items):
            self._there(Stage.SEND, item, self._queues.sending, self._stages.send)

    def compute_and_fetch(self) -> None:
        """Queue steps and the copies of what they make."""
        for item in range(self._items):
            self._there(Stage.COMPUTE, item, self._queues.computing, self._stages.compute)
            self._there(Stage.FETCH, item, self._queues.fetching, self._stages.fetch)

    def write(self) -> None:
        """Store what came back, several items at a time: each may be few files, of one thread."""
        self._several(min(self._slots, AT_ONCE), "write", Stage.WRITE, self._stages.write)

    def _several(
        self, count: int, name: str, stage: Stage, work: Callable[[int, int], None]
    ) -> None:
        """Do a step of all items on the host, of so many at a time."""

        def one(item: int) -> None:
            if not self._stopped:
                self.guarded(lambda: self._here(stage, item, work))

        with ThreadPoolExecutor(count, f"Thread-{name}") as threads:
            for _ in threads.map(one, range(self._items)):
                pass

    def _here(self, stage: Stage, item: int, work: Callable[[int, int], None]) -> None:
        """Do a step in this thread when all that it needs is complete."""
        for step in needs((stage, item), self._slots):
            mark = self._wait(step)
            if mark is not None:
                mark.wait()
        work(item, item % self._slots)
        self._done((stage, item), None)

    def _there(
        self, stage: Stage, item: int, queue: Queue, work: Callable[[int, int], None]
    ) -> None:
        """Queue a step behind all that it needs."""
        for step in needs((stage, item), self._slots):
            mark = self._wait(step)
            if mark is not None:
                queue.after(mark)
        queue.put(lambda: work(item, item % self._slots))
        self._done((stage, item), queue.mark())

    def _wait(self, step: Step) -> Mark | None:
        """Wait until a step of the host is complete, or one of the device is queued."""
        future = self._steps[step]
        try:
            return future.result()
        except BaseException as error:
            raise _Stopped from error

    def _done(self, step: Step, mark: Mark | None) -> None:
        with self._lock:
            if self._stopped:
                raise _Stopped
            self._steps[step].set_result(mark)
