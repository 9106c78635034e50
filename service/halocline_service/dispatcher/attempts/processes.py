"""Attempts in processes of their own, with limits: started ahead, and used for many jobs.

What a user sends is parsed, planned, opened and compiled in there. An attempt that should stop is
asked to, and a moment later ended with its process; so is one that plans for too long or takes too
much memory, which is then the job's error. A process that ends by itself is told apart: by a
signal that faults send, the job may have done it; by one that people and kernels send, not.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from halocline_engine.control.stoppage import STOPPED_SECONDS, Stoppage
from halocline_engine.errors import CancelledError, CapacityError, DeviceError
from halocline_service.datasets.references import Resolves
from halocline_service.dispatcher.attempts.attempt import (
    EngineEvent,
    attempt_inline,
    check_still_there,
    described_of,
    places_of,
)
from halocline_service.dispatcher.attempts.process import AttemptProcess
from halocline_service.dispatcher.attempts.setup import Setup
from halocline_service.dispatcher.attempts.wire import ClusterLost, Told, error_from, job_to
from halocline_service.jobs.job import Job, JsonObject

__all__ = ["COMMAND", "Limits", "Processes"]

#: What a process for attempts runs.
COMMAND = (sys.executable, "-m", "halocline_service.dispatcher.attempts.child")
_TICK = 0.05
# Of a process that needs more than this share of its limit after a job, a new one is better.
_KEPT_SHARE = 0.5
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds that an attempt may plan, and that one may go on after it was asked to stop."""

    planning: float
    stopping: float


class Processes:
    """Used as `with Processes(...) as attempt`: leaving it ends every process."""

    def __init__(
        self,
        setup: Setup,
        resolver: Resolves,
        limits: Limits,
        *,
        ahead: int,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._setup = setup
        self._resolver = resolver
        self._limits = limits
        self._ahead = ahead
        self._command = command
        self._idle: list[AttemptProcess] = []
        self._all: set[AttemptProcess] = set()
        self._lock = threading.Lock()
        # A process ends with the thread that started it, and this one lasts.
        self._starter = ThreadPoolExecutor(1, "starts-attempts")

    def __enter__(self) -> Processes:
        """Start processes ahead."""
        for _ in range(self._ahead):
            self._idle.append(self._started())
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        with self._lock:
            left, self._all = self._all, set()
        for process in left:
            process.kill()
        self._starter.shutdown()

    def __call__(
        self, job: Job, on_event: Callable[[EngineEvent], None], cancelled: Callable[[], bool]
    ) -> JsonObject:
        """Compute a job's outputs."""
        inline = attempt_inline(job, cancelled)
        if inline is not None:
            return inline
        places = places_of(job, self._resolver)
        datasets = described_of(job, self._resolver)
        process = self._taken()
        try:
            process.send({"job": job_to(job), "places": places, "datasets": datasets})
            outputs = _Watch(process, self._setup.memory, self._limits).until_done(
                on_event, cancelled
            )
        finally:
            self._give_back(process)
        check_still_there(job, self._resolver)
        return outputs

    def _started(self) -> AttemptProcess:
        process = self._starter.submit(AttemptProcess, self._command, self._setup).result()
        with self._lock:
            self._all.add(process)
        return process

    def _taken(self) -> AttemptProcess:
        while True:
            with self._lock:
                process = self._idle.pop(0) if self._idle else None
            if process is None:
                return self._started()
            if process.is_alive:
                return process
            self._forget(process)

    def _give_back(self, process: AttemptProcess) -> None:
        """Keep a process for the next job, or start another ahead in its place."""
        if not process.is_alive or process.resident > self._setup.memory * _KEPT_SHARE:
            self._forget(process)
            process = self._started()
        with self._lock:
            self._idle.append(process)

    def _forget(self, process: AttemptProcess) -> None:
        process.kill()
        with self._lock:
            self._all.discard(process)


class _Watch:
    """Waits for one attempt, and ends its process where it must."""

    def __init__(self, process: AttemptProcess, memory: int, limits: Limits) -> None:
        self._process = process
        self._memory = memory
        self._limits = limits
        self._stop_at: float | None = None
        self._plan_until = float("inf")
        self._has_planned = False
        self._stoppage = Stoppage()

    def until_done(
        self, on_event: Callable[[EngineEvent], None], cancelled: Callable[[], bool]
    ) -> JsonObject:
        """Give the outputs. Raises what the attempt raised, or why its process ended."""
        looked = 0.0
        try:
            while True:
                if time.monotonic() - looked >= _TICK:
                    self._look(cancelled())
                    looked = time.monotonic()
                try:
                    message = self._process.receive(_TICK)
                except queue.Empty:
                    continue
                if message is None:
                    raise self._ended()
                outputs = self._heard(message, on_event)
                if outputs is not None:
                    return outputs
        except _Over as over:
            self._process.kill()
            raise over.error from None

    def _heard(
        self, message: JsonObject, on_event: Callable[[EngineEvent], None]
    ) -> JsonObject | None:
        match message:
            case {"event": {"kind": str(), **fields}, "progress": float(progress)}:
                self._has_planned = True
                on_event(Told(progress, {"kind": message["event"]["kind"], **fields}))
            case {"error": {**error}}:
                raise error_from(error)
            case {"outputs": {**outputs}}:
                return outputs
            case _:
                raise _Over(ClusterLost("The process that computes the job says what it must not."))
        return None

    def _ended(self) -> Exception:
        """Say why the process ended."""
        was_ready, code = self._process.is_ready, self._process.kill()
        if not was_ready or -code in _FROM_OUTSIDE:
            return ClusterLost(f"The process that computed the job ended {_how(code)}.")
        return DeviceError(
            f"The process that computed the job ended {_how(code)}.",
            hint="The log of the dispatcher has the details; please report it with the dataset.",
        )

    def _look(self, cancelled: bool) -> None:
        """Ask an attempt to stop, or end it. Raises `_Over`."""
        now = time.monotonic()
        if cancelled and self._stop_at is None:
            self._stop_at = now + self._limits.stopping
            self._process.send({"stop": True})
        if self._stop_at is not None and now > self._stop_at:
            raise _Over(CancelledError("The job was stopped on request."))
        if self._process.is_ready and not self._has_planned:
            self._plan_until = min(self._plan_until, now + self._limits.planning)
            if now > self._plan_until:
                raise _Over(_too_long(self._limits.planning))
        if self._stoppage.is_over(now, stopped=self._process.is_stopped):
            raise _Over(
                ClusterLost(
                    "The process that computed the job was stopped by a signal for "
                    f"{STOPPED_SECONDS:g} seconds, and was ended."
                )
            )
        taken = self._process.resident
        if taken > self._memory:
            raise _Over(_too_large(taken, self._memory))


class _Over(Exception):
    """The process must end now, and the attempt with an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _too_long(seconds: float) -> CapacityError:
    return CapacityError(
        f"Planning the job took more than {seconds:g} seconds, the limit of a job.",
        hint="Make the program smaller, or the blocks of the dataset larger.",
    )


def _too_large(taken: int, memory: int) -> CapacityError:
    return CapacityError(
        f"The process of the job took {taken} bytes of memory, but may take {memory}.",
        hint="Make the program or the blocks smaller.",
        needed=taken,
        available=memory,
    )


def _how(code: int) -> str:
    return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
