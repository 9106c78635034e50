"""Threads that copy between a device and the host, and never need the interpreter for it.

What they are to copy stands in a table that they share, behind a lock of the system. With threads
of Python each piece would wait several times for the interpreter, and the one that queues products
for each of them.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import Event, Pinned, Stream, cupy
from halocline_engine.device.io.loops import (
    FIELDS,
    NUMBERS,
    SHORT,
    Field,
    do_copy,
    wait_event,
)
from halocline_engine.device.launch.calls import (
    CALLS,
    call_int,
    compiled,
    peek,
    poke,
)
from halocline_engine.device.memory.zero_copy import BUFFER, RING, PinnedRows
from halocline_engine.errors import DeviceError

__all__ = ["Batch", "CopyThreads"]

#: Copies that are known at most, and words of a lock of the system, and of what is waited for.
_ROOM, _WORDS = 4096, 16
_NANO = 1_000_000_000
#: What all threads share: first and next copy of each way, to the device and from it; when to stop.
_SHARED = 5
_HEADS, _TAILS, _STOP = slice(0, 4, 2), slice(1, 4, 2), 4
#: When threads end: never, when they have done all that was put, or with what they are about.
_NEVER, _DONE, _NOW = range(3)

_RECORD = CALLS.index("cuEventRecord")
_LOCK, _UNLOCK, _COND_WAIT, _TIMED, _WAKE, _CLOCK = range(
    CALLS.index("pthread_mutex_lock"), len(CALLS)
)
_OUT, _STREAM, _THEN, _STATUS, _LEFT = (
    int(one) for one in (Field.OUT, Field.STREAM, Field.THEN, Field.STATUS, Field.LEFT)
)

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """State that threads share: see `_SHARED`; copies of both ways; lock; two signals."""

    calls: _Numbers
    shared: _Numbers
    jobs: _Numbers
    lock: _Numbers
    more: _Numbers
    done: _Numbers

    @property
    def all(self) -> tuple[_Numbers, ...]:
        """All of it, as compiled functions take it."""
        return self.calls, self.shared, self.jobs, self.lock, self.more, self.done


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Copies that are done, or not, together: like a future, whose result is their bytes."""

    table: _Table
    copies: tuple[PinnedRows, ...]
    states: _Numbers
    left: _Numbers
    keeps: tuple[object, ...]

    def done(self) -> bool:
        """Whether nothing is to be done any more."""
        return int(self.left[0]) == 0

    def result(self, timeout: float) -> int:
        """Return how many bytes were copied, once that is done.

        Raises `TimeoutError` where it takes more seconds, `OSError` where the system refused
        something, and `DeviceError` where the driver did.
        """
        if not self.done() and not _await(*self.table.all, self.left, int(timeout * _NANO)):
            raise TimeoutError
        for rows, state in zip(self.copies, self.states.tolist(), strict=True):
            if state < SHORT:
                raise OSError(SHORT - state, os.strerror(SHORT - state), str(rows.path))
            if state > 0:
                raise DeviceError(
                    f"The driver refused a copy of {rows.rows * rows.width} bytes, error {state}.",
                    hint="An earlier asynchronous operation may be the cause.",
                )
        return sum(rows.rows * rows.width for rows in self.copies) - sum(
            self.copies[at].rows * self.copies[at].width for at in self.missing
        )

    @property
    def missing(self) -> tuple[int, ...]:
        """Copies that found no file, or not all of one."""
        return tuple(int(at) for at in np.flatnonzero(self.states == SHORT))


class CopyThreads:
    """Threads that copy one way; the device is the one that is current where this is made.

    Threads that are `beside` each other steal work when idle, and end together.
    """

    def __init__(
        self,
        threads: int,
        calls: _Numbers,
        size: int = BUFFER,
        *,
        out: bool,
        name: str,
        beside: CopyThreads | None = None,
    ) -> None:
        self._device = cupy().cuda.runtime.getDevice()
        self._out = out
        self.table = _table(calls) if beside is None else beside.table
        self._under_way: list[Batch] = []
        rings = [_ring(size) for _ in range(threads)]
        self.table.shared[_STOP] = _NOW
        self._work(rings[0])  # compiles; none of those beside these has begun
        self.table.shared[_STOP] = _NEVER
        self.threads = [
            threading.Thread(target=self._work, args=(ring,), name=name, daemon=True)
            for ring in rings
        ]
        self._started = False
        self._lock = threading.Lock()

    def put(
        self,
        copies: Sequence[tuple[PinnedRows, int, int]],
        stream: Stream,
        after: Event,
        then: Event | None = None,
    ) -> Batch:
        """Let rows be copied, whose address on the device and distance there stand beside them.

        They wait for `after`; `then` is recorded behind the last of them.
        """
        count = len(copies)
        states, left = np.zeros(count, np.int64), np.array([count], np.int64)
        names, paths = _names([rows.path for rows, _, _ in copies])
        events = (after.ptr, then.ptr if then is not None else 0)
        status, remaining = _address(states), _address(left)
        jobs = np.array(
            [
                (
                    *(int(self._out), path, rows.size, rows.start, *_rows(rows, apart, device)),
                    *(stream.ptr, *events, status + 8 * at, remaining),
                )
                for at, ((rows, device, apart), path) in enumerate(zip(copies, paths, strict=True))
            ],
            np.int64,
        ).reshape(count, FIELDS)
        kept = (names, after, then, stream)
        batch = Batch(self.table, tuple(rows for rows, _, _ in copies), states, left, kept)
        with self._lock:
            # Threads use its memory, whoever else still does.
            self._under_way = [one for one in self._under_way if not one.done()]
            self._under_way.append(batch)
        _put(*self.table.all, jobs)
        self.start()
        return batch

    def start(self) -> None:
        """Let threads begin; not before something is put, so that one is at work while others do.

        That something is put starts them too.
        """
        with self._lock:
            if not self._started:
                self._started = True
                for thread in self.threads:
                    thread.start()

    def finish(self) -> None:
        """Let threads end when they have done what was put; nothing may be put any more."""
        _stop(*self.table.all, _DONE)

    def close(self) -> None:
        """End the threads; what they have not begun is not done."""
        _stop(*self.table.all, _NOW)
        if self._started:
            for thread in self.threads:
                thread.join()
        self._under_way.clear()

    def _work(self, ring: _Ring) -> None:
        cupy().cuda.runtime.setDevice(self._device)
        job = np.zeros(FIELDS, np.int64)
        own = int(self._out)
        _serve(*self.table.all, own, job, ring.buffers, ring.events, ring.turn, ring.copy)


@dataclass(frozen=True, slots=True, eq=False)
class _Ring:
    """Buffers of a thread, and events that are complete when the device has done with each."""

    memory: tuple[Pinned, ...]
    marks: tuple[Event, ...]
    buffers: _Numbers
    events: _Numbers
    turn: _Numbers
    copy: _Numbers


def _table(calls: _Numbers) -> _Table:
    locks = [np.zeros(_WORDS, np.int64) for _ in range(3)]
    jobs = np.zeros((2, _ROOM, FIELDS), np.int64)
    return _Table(calls, np.zeros(_SHARED, np.int64), jobs, *locks)


def _ring(size: int) -> _Ring:
    cuda = cupy().cuda
    memory = tuple(cuda.alloc_pinned_memory(size) for _ in range(RING))
    marks = tuple(cuda.Event(disable_timing=True) for _ in range(RING))
    return _Ring(
        memory=memory,
        marks=marks,
        buffers=np.array([one.ptr for one in memory], np.int64),
        events=np.array([one.ptr for one in marks], np.int64),
        turn=np.array([0, size], np.int64),
        copy=np.zeros(NUMBERS, np.int64),
    )


def _rows(rows: PinnedRows, apart: int, device: int) -> tuple[int, int, int, int, int]:
    """Return a copy's rows as `Field` has them, from `PITCH` to `FAR`; dense ones are one row."""
    if rows.rows == 1 or rows.width == rows.pitch == apart:
        width = rows.rows * rows.width
        return width, 1, width, device, width
    return rows.pitch, rows.rows, rows.width, device, apart


def _names(paths: Sequence[str | Path | None]) -> tuple[NDArray[np.uint8], list[int]]:
    """Return names of files as the system takes them, and the address of each; 0 for None."""
    names = [b"" if path is None else os.fsencode(path) + b"\0" for path in paths]
    text = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    starts = itertools.accumulate(map(len, names), initial=_address(text))
    return text, [at if name else 0 for at, name in zip(starts, names, strict=False)]


def _address(values: Any) -> int:
    return int(values.__array_interface__["data"][0])


@compiled
def _put(calls: Any, shared: Any, table: Any, lock: Any, more: Any, done: Any, jobs: Any) -> None:
    """Add copies to the table, as far as there is room; wait for that."""
    heads, tails, room = shared[_HEADS], shared[_TAILS], table.shape[1]
    call_int(calls[_LOCK], lock.ctypes.data, 0, 0, 0)
    for at in range(len(jobs)):
        way = jobs[at, _OUT]
        while tails[way] - heads[way] == room:
            call_int(calls[_COND_WAIT], done.ctypes.data, lock.ctypes.data, 0, 0)
        table[way, tails[way] % room] = jobs[at]
        tails[way] += 1
        call_int(calls[_WAKE], more.ctypes.data, 0, 0, 0)
    call_int(calls[_UNLOCK], lock.ctypes.data, 0, 0, 0)


@compiled
def _stop(
    calls: Any, shared: Any, _table: Any, lock: Any, more: Any, _done: Any, when: Any
) -> None:
    call_int(calls[_LOCK], lock.ctypes.data, 0, 0, 0)
    shared[_STOP] = when
    call_int(calls[_WAKE], more.ctypes.data, 0, 0, 0)
    call_int(calls[_UNLOCK], lock.ctypes.data, 0, 0, 0)


@compiled
def _await(
    calls: Any, _shared: Any, _table: Any, lock: Any, _more: Any, done: Any, left: Any, nano: Any
) -> Any:
    """Wait until copies are done, at most so long; return whether they are."""
    until = np.zeros(2, np.int64)
    call_int(calls[_CLOCK], 0, until.ctypes.data, 0, 0)
    until[1] += nano
    until[0] += until[1] // _NANO
    until[1] %= _NANO
    late = 0
    call_int(calls[_LOCK], lock.ctypes.data, 0, 0, 0)
    while peek(left.ctypes.data) != 0 and late == 0:
        late = call_int(calls[_TIMED], done.ctypes.data, lock.ctypes.data, until.ctypes.data, 0)
    ready = peek(left.ctypes.data) == 0
    call_int(calls[_UNLOCK], lock.ctypes.data, 0, 0, 0)
    return ready


@compiled
def _serve(
    calls: Any,
    shared: Any,
    table: Any,
    lock: Any,
    more: Any,
    done: Any,
    own: Any,
    job: Any,
    buffers: Any,
    events: Any,
    turn: Any,
    copy: Any,
) -> None:
    """Do copies of the table until it is over: those of the own way first."""
    heads, tails, room = shared[_HEADS], shared[_TAILS], table.shape[1]
    call_int(calls[_LOCK], lock.ctypes.data, 0, 0, 0)
    while True:
        while heads[0] == tails[0] and heads[1] == tails[1] and shared[_STOP] == _NEVER:
            call_int(calls[_COND_WAIT], more.ctypes.data, lock.ctypes.data, 0, 0)
        way = own if heads[own] != tails[own] else 1 - own
        if shared[_STOP] == _NOW or heads[way] == tails[way]:
            break
        if tails[way] - heads[way] == room:
            call_int(calls[_WAKE], done.ctypes.data, 0, 0, 0)
        job[:] = table[way, heads[way] % room]
        heads[way] += 1
        call_int(calls[_UNLOCK], lock.ctypes.data, 0, 0, 0)
        state = do_copy(calls, job, buffers, events, turn, copy)
        call_int(calls[_LOCK], lock.ctypes.data, 0, 0, 0)
        left = peek(job[_LEFT]) - 1
        if left == 0 and job[_THEN] != 0:
            # Behind all copies of its kind, since all of them have been queued.
            then = call_int(calls[_RECORD], job[_THEN], job[_STREAM], 0, 0)
            state = state if state != 0 else then
        poke(job[_STATUS], state)
        poke(job[_LEFT], left)
        if left == 0:
            call_int(calls[_WAKE], done.ctypes.data, 0, 0, 0)
    call_int(calls[_UNLOCK], lock.ctypes.data, 0, 0, 0)
    # The device may still read what was sent, and the buffers go when the thread has ended.
    for at in range(len(events)):
        wait_event(calls, events[at])
