"""Keeps the lease of a running job, and learns whether the job should stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

import structlog
from sqlalchemy.exc import SQLAlchemyError

from halocline_engine.errors import OutputError
from halocline_service.dispatcher.attempts.attempt import EngineEvent
from halocline_service.dispatcher.attempts.usage import USAGE
from halocline_service.jobs.job import Job
from halocline_service.jobs.states import State
from halocline_service.settings import Settings
from halocline_service.store.base import JobStore, Note, StoreAway

__all__ = ["LeaseKeeper"]

_log = structlog.get_logger()
_FREQUENT = frozenset({"block-finished", "pass-finished"})
_STALLED = "worker-stalled"
_OF_WORKERS = frozenset({_STALLED, USAGE})
_FASTEST_SECONDS = 0.2  # at most five of the frequent events a second
_MOST_UNTOLD = 100


class LeaseKeeper:
    """Used as `with LeaseKeeper(...) as keeper`: a thread renews the lease until the end.

    `stopped` is true once the job was dismissed or claimed by another, as the store says; or once
    someone called `stop`. A store that does not answer says nothing: the work goes on, and the
    fence keeps out what is late.

    With each heartbeat it calls `check_room`; once that raises an `OutputError`, the attempt should
    stop as well, and the error is its `shortage`.
    """

    def __init__(
        self, store: JobStore, job: Job, settings: Settings, *, check_room: Callable[[], None]
    ) -> None:
        self._store = store
        self.check_room = check_room
        self._shortage: OutputError | None = None
        self._lease = job.lease
        self._settings = settings
        self._stop = threading.Event()
        self._done = threading.Event()
        self._nudged = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeper-{job.id}", daemon=True)
        self._lock = threading.Lock()
        self._told = float("-inf")
        self._held_back: tuple[float, Note] | None = None
        self._untold: list[Note] = []
        self._progress = 0.0
        self._away_until = float("-inf")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._nudged.set()
        self._thread.join()

    @property
    def job_id(self) -> str:
        """Identifier of the job."""
        return self._lease.job_id

    def look(self) -> None:
        """Look now whether the job was dismissed or claimed by another."""
        self._nudged.set()

    def stop(self) -> None:
        """Ask the attempt to stop."""
        self._stop.set()

    def stopped(self) -> bool:
        """Say whether the attempt should stop."""
        return self._stop.is_set()

    @property
    def shortage(self) -> OutputError | None:
        """Reason to stop the attempt, where that is the disk."""
        return self._shortage

    def wait(self, seconds: float) -> None:
        """Wait, or until the attempt should stop."""
        self._stop.wait(seconds)

    def tell(self, event: EngineEvent) -> None:
        """Write an event of the engine; of those that come in quick order, the last one."""
        data = dict(event.to_json())
        kind = str(data.pop("kind"))
        with self._lock:
            # What happens to a worker says nothing of how far the job is.
            progress = self._progress if kind in _OF_WORKERS else event.progress
            told = (progress, Note(kind, data))
            self._held_back = told if kind in _FREQUENT else None
            if self._held_back is None:
                self._write(*told)
            else:
                self._flush()

    def _flush(self) -> None:
        """Write what was held back, once it is time."""
        now = time.monotonic()
        if self._held_back is not None and now - self._told >= _FASTEST_SECONDS:
            self._told = now
            self._write(*self._held_back)
            self._held_back = None

    def _write(self, progress: float, note: Note) -> None:
        """Write an event; where the store is away, keep it unless others like it will follow."""
        self._progress = progress
        kept = [] if note.kind in _FREQUENT else [note]
        if time.monotonic() >= self._away_until:
            try:
                self._record([*self._untold, note])
            except StoreAway as error:
                _log.warning("progress not written", job_id=self._lease.job_id, error=str(error))
                self._away_until = time.monotonic() + self._settings.poll_seconds
            except SQLAlchemyError:  # progress is worth less than the work
                _log.exception("progress not written", job_id=self._lease.job_id)
                kept = []
            else:
                self._untold, kept = [], []
        self._untold = [*self._untold, *kept][-_MOST_UNTOLD:]

    def _record(self, notes: Sequence[Note]) -> None:
        message = f"Computing, {self._progress:.0%} done."
        if notes and notes[-1].kind == _STALLED:
            message += f" {notes[-1].data['message']}"
        progress = self._progress
        if not self._store.record(self._lease, progress=progress, message=message, notes=notes):
            self._stop.set()

    def deliver(self) -> None:
        """Write the events that the store could not take before. Raises `StoreAway`."""
        with self._lock:
            if self._untold:
                self._record(self._untold)
                self._untold = []

    def _keep(self) -> None:
        beat = self._settings.heartbeat_seconds
        renewed = looked = time.monotonic()
        while not self._is_over():
            with self._lock:
                self._flush()
            if time.monotonic() - looked >= beat:  # whether or not the store answers
                self._look_at_disk()
                looked = time.monotonic()
            try:
                if time.monotonic() - renewed >= beat:
                    self._renew()
                    renewed = time.monotonic()
                elif not self._holds():
                    self._stop.set()
            except (StoreAway, SQLAlchemyError) as error:
                _log.warning("lease not renewed", job_id=self._lease.job_id, error=str(error))
                renewed = float("-inf")  # as soon as the store answers, before another claims it

    def _is_over(self) -> bool:
        """Wait until it is time to look, or the end; say whether it is the end."""
        self._nudged.wait(self._settings.poll_seconds)
        self._nudged.clear()
        return self._done.is_set()

    def _renew(self) -> None:
        if not self._store.renew(self._lease):
            self._stop.set()

    def _look_at_disk(self) -> None:
        if self._stop.is_set():
            return
        try:
            self.check_room()
        except OutputError as error:
            self._shortage = error  # before `stopped` is true: who stops then asks why
            self._stop.set()
        except OSError as error:
            _log.warning("disk not looked at", job_id=self._lease.job_id, error=str(error))

    def _holds(self) -> bool:
        job = self._store.get(self._lease.job_id, owner=None)
        return job is not None and job.lease == self._lease and job.state is State.RUNNING
