"""Keeps the lease of a running job, and learns whether the job should stop."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import structlog
from sqlalchemy.exc import SQLAlchemyError

from halocline_service.dispatcher.attempt import EngineEvent
from halocline_service.jobs.job import Job
from halocline_service.jobs.states import State
from halocline_service.settings import Settings
from halocline_service.store.base import JobStore, Note

__all__ = ["Keeper"]

_log = structlog.get_logger()
_FREQUENT = frozenset({"block-finished", "pass-finished"})
_FASTEST_SECONDS = 0.2  # at most five of the frequent events a second


class Keeper:
    """Used as `with Keeper(...) as keeper`: a thread renews the lease until the end.

    `stopped` is true once the job was dismissed, was claimed by another, or could not be renewed
    in time; or once someone called `stop`.
    """

    def __init__(self, store: JobStore, job: Job, settings: Settings) -> None:
        self._store = store
        self._lease = job.lease
        self._settings = settings
        self._stop = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeper-{job.id}", daemon=True)
        self._lock = threading.Lock()
        self._told = float("-inf")
        self._held_back: tuple[float, Note] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def stop(self) -> None:
        """Ask the attempt to stop."""
        self._stop.set()

    def stopped(self) -> bool:
        """Say whether the attempt should stop."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> None:
        """Wait, or until the attempt should stop."""
        self._stop.wait(seconds)

    def tell(self, event: EngineEvent) -> None:
        """Write an event of the engine; of those that come in quick order, the last one."""
        data = dict(event.to_json())
        kind = str(data.pop("kind"))
        told = (event.progress, Note(kind, data))
        with self._lock:
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
        message = f"Computing, {progress:.0%} done."
        try:
            held = self._store.record(self._lease, progress=progress, message=message, notes=[note])
        except SQLAlchemyError as error:  # progress is worth less than the work
            _log.warning("progress not written", job_id=self._lease.job_id, error=str(error))
            return
        if not held:
            self._stop.set()

    def _keep(self) -> None:
        beat = self._settings.heartbeat_seconds
        deadline = time.monotonic() + self._settings.lease_seconds
        renewed = time.monotonic()
        while not self._done.wait(self._settings.poll_seconds):
            with self._lock:
                self._flush()
            try:
                if time.monotonic() - renewed >= beat:
                    self._renew()
                    renewed = time.monotonic()
                    deadline = renewed + self._settings.lease_seconds
                elif not self._holds():
                    self._stop.set()
            except SQLAlchemyError as error:
                _log.warning("lease not renewed", job_id=self._lease.job_id, error=str(error))
                if time.monotonic() > deadline:  # by now another may have claimed it
                    self._stop.set()

    def _renew(self) -> None:
        if not self._store.renew(self._lease, seconds=self._settings.lease_seconds):
            self._stop.set()

    def _holds(self) -> bool:
        job = self._store.get(self._lease.job_id, owner=None)
        return job is not None and job.lease == self._lease and job.state is State.RUNNING
