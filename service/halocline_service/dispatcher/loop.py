"""Claims jobs, one thread for each that runs, and settles them as they ended."""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from typing import assert_never

import structlog
from sqlalchemy.exc import SQLAlchemyError

from halocline_service.datasets.turns import BusyError, alone, last_touched
from halocline_service.dispatcher.attempt import Tools, attempt, check_room
from halocline_service.dispatcher.keeper import Keeper
from halocline_service.dispatcher.outcome import (
    Away,
    Failed,
    Lost,
    Outcome,
    Stopped,
    Succeeded,
    outcome_of,
)
from halocline_service.jobs.job import Job
from halocline_service.jobs.states import Event
from halocline_service.settings import Settings
from halocline_service.store.base import Store, StoreAway

__all__ = ["Dispatcher"]

_log = structlog.get_logger()
_SWEEP_SECONDS = 600.0
_GRACE_SECONDS = 20.0
_TRIES_TO_SETTLE = 5


class Dispatcher:
    """Runs jobs until it is told to stop.

    Any number of dispatchers may run on one database. One that is killed loses nothing: its
    leases run out, and its jobs go on elsewhere from their last checkpoint.
    """

    def __init__(self, settings: Settings, store: Store, tools: Tools) -> None:
        self._settings = settings
        self._store = store
        self._tools = tools
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._running: dict[threading.Thread, Keeper] = {}
        self._swept = float("-inf")
        self._beaten = float("-inf")
        self._lenient_until = float("-inf")
        self._closing = False

    def run(self, stop: threading.Event) -> None:
        """Take and run jobs until `stop` is set; then give back what is not finished."""
        _log.info("dispatcher started", name=self._name)
        while not stop.is_set():
            try:
                self._turn()
            except (StoreAway, SQLAlchemyError) as error:
                _log.warning("database not reached", error=str(error))
                # Leases may have run out meanwhile: those who hold them may renew them first.
                self._lenient_until = time.monotonic() + self._settings.heartbeat_seconds
            stop.wait(self._settings.poll_seconds)
        self._close()

    def sweep(self) -> None:
        """Delete what nothing needs: files of no job or upload, and uploads that were left open."""
        # The folders first: one that is made after the jobs were read belongs to a new job.
        names = sorted(os.listdir(self._tools.layout.jobs))
        known = self._store.jobs.known()
        for name in names:
            if name not in known:
                self._tools.layout.forget_job(name)
            else:
                self._tidy(name)
        uploads = self._tools.layout.uploads()
        for upload_id in sorted(uploads - self._store.uploads.known()):
            self._tools.layout.forget_upload(upload_id)
        self._expire()

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._beaten >= self._settings.heartbeat_seconds:
            self._store.presence.beat(self._name, {"name": self._name, "pid": os.getpid()})
            self._beaten = now
        if now >= self._lenient_until:
            for job_id in self._store.jobs.recover():
                _log.warning("job recovered from a lost worker", job_id=job_id)
        if now - self._swept >= _SWEEP_SECONDS:
            self.sweep()
            self._swept = now
        self._running = {
            thread: keep for thread, keep in self._running.items() if thread.is_alive()
        }
        while len(self._running) < self._settings.concurrency and self._start():
            pass

    def _start(self) -> bool:
        job = self._store.jobs.claim(self._name, seconds=self._settings.lease_seconds)
        if job is None:
            return False
        check = functools.partial(check_room, job, self._tools)
        keeper = Keeper(self._store.jobs, job, self._settings, check_room=check)
        thread = threading.Thread(target=self._work, args=(job, keeper), name=f"job-{job.id}")
        self._running[thread] = keeper
        thread.start()
        return True

    def _work(self, job: Job, keeper: Keeper) -> None:
        log = _log.bind(job_id=job.id, fence=job.fence, owner=job.owner)
        log.info("job started", job_process=job.process, attempt=job.attempt)
        with keeper:
            try:
                outcome: Outcome = Succeeded(attempt(job, self._tools, keeper.tell, keeper.stopped))
            except Exception as error:
                outcome = outcome_of(error)
                if isinstance(outcome, Stopped) and keeper.shortage is not None:
                    outcome = outcome_of(keeper.shortage)
                if not isinstance(outcome, Stopped):  # else it was asked to
                    log.warning("job did not finish", exc_info=True)
            if isinstance(outcome, Lost) and job.attempt < job.max_attempts:
                keeper.wait(self._settings.retry_seconds * 2 ** (job.attempt - 1))
            self._settle(job, outcome, keeper)
        log.info("job ended", outcome=type(outcome).__name__)

    def _settle(self, job: Job, outcome: Outcome, keeper: Keeper) -> None:
        """Tell the store how a job ended; a store that is away is waited for."""
        left = _TRIES_TO_SETTLE
        while left > 0:
            try:
                keeper.deliver()
                self._settle_once(job, outcome)
            except (StoreAway, SQLAlchemyError) as error:
                if self._closing or not isinstance(error, StoreAway):
                    left -= 1
                if left == 0:  # the lease will run out, and the job will go on elsewhere
                    _log.exception("job not settled", job_id=job.id)
                time.sleep(self._settings.poll_seconds)
            else:
                return

    def _settle_once(self, job: Job, outcome: Outcome) -> None:
        jobs, lease = self._store.jobs, job.lease
        match outcome:
            case Succeeded(outputs):
                jobs.settle(lease, Event.SUCCEED, message="The result is there.", outputs=outputs)
            case Failed(error):
                jobs.settle(lease, Event.FAIL, message=str(error["message"]), error=error)
            case Lost(error) if job.attempt < job.max_attempts:
                message = f"{error['message']} Waiting for another attempt."
                jobs.settle(lease, Event.GIVE_BACK, message=message)
            case Lost(error):
                jobs.settle(lease, Event.FAIL, message=str(error["message"]), error=error)
            case Stopped() if self._closing:
                message = "Its dispatcher was stopped; waiting for another."
                jobs.settle(lease, Event.GIVE_BACK, message=message, refund=True)
            case Away():
                message = "The database did not answer; waiting for another attempt."
                jobs.settle(lease, Event.GIVE_BACK, message=message, refund=True)
            case Stopped():
                pass  # the database knows already: that is why it was stopped
            case _:
                assert_never(outcome)
        jobs.drop(lease)
        self._tidy(job.id)

    def _tidy(self, job_id: str) -> None:
        """Delete what a job that has ended no longer needs, unless another still writes."""
        job = self._store.jobs.get(job_id, owner=None)
        if job is None:
            self._tools.layout.forget_job(job_id)
        elif job.is_final and (job.lease_until is None or job.lease_until < time.time()):
            self._tools.layout.prune(job)

    def _expire(self) -> None:
        """Forget uploads that were opened and left."""
        uploads, layout = self._store.uploads, self._tools.layout
        before = time.time() - self._settings.upload_open_seconds
        for upload in uploads.unfinished(before=before):
            parts = layout.upload_parts(upload.id)
            try:
                with alone(parts, seconds=0.0):
                    found = uploads.get(upload.id, owner=None)
                    if found is None or found.is_complete or last_touched(parts) >= before:
                        continue
                    # The files first: what is left open is read by no job.
                    layout.forget_upload(upload.id)
                    uploads.remove(upload.id, owner=upload.owner)
            except BusyError:
                continue
            _log.info("upload expired", upload_id=upload.id, owner=upload.owner)

    def _close(self) -> None:
        self._closing = True
        for keeper in self._running.values():
            keeper.stop()
        deadline = time.monotonic() + _GRACE_SECONDS
        for thread in self._running:
            thread.join(max(0.0, deadline - time.monotonic()))
        _log.info("dispatcher stopped", left=sum(thread.is_alive() for thread in self._running))
