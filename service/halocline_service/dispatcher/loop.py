"""Claims jobs, one thread for each that runs, and settles them as they ended."""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import assert_never

import structlog
from sqlalchemy.exc import SQLAlchemyError

from halocline_service.datasets.layout import Layout
from halocline_service.dispatcher.attempts.attempt import Attempt, check_room
from halocline_service.dispatcher.lease_keeper import LeaseKeeper
from halocline_service.dispatcher.leases import LifeSign, Observer
from halocline_service.dispatcher.outcome import (
    Away,
    Crashed,
    Failed,
    Lost,
    Outcome,
    Stopped,
    Succeeded,
    outcome_of,
)
from halocline_service.dispatcher.quota import check_quota
from halocline_service.dispatcher.sweep import Sweep, Sweeper
from halocline_service.dispatcher.workers import Look, Seen, Workers
from halocline_service.jobs.job import Ending, Job, Lease
from halocline_service.jobs.setbacks import Cause, Interruption
from halocline_service.jobs.states import Event, ogc_status, sources
from halocline_service.processes.plan import PLAN
from halocline_service.processes.table import PROCESSES
from halocline_service.settings import Settings
from halocline_service.store.base import WAITING, Change, JobStore, Store, StoreAway, Wish

__all__ = ["Dispatcher"]

_log = structlog.get_logger()
_GRACE_SECONDS = 20.0
_TRIES_TO_SETTLE = 5
# Processes that need no workers, and those that do.
_INSTANT = frozenset(name for name, process in PROCESSES.items() if process.inline is not None)
_COMPUTED = frozenset(PROCESSES) - _INSTANT
# What is asked before a job is sent waits for no job: there is one slot more for it.
_PLANNED = frozenset({PLAN.id})
_CLAIMABLE = {ogc_status(state) for state in sources(Event.CLAIM)}
_LOOK_BEATS = 0.4  # heartbeats between two looks at who holds leases


class Dispatcher:
    """Runs jobs until it is told to stop.

    Any number of dispatchers may run on one database. One that is killed loses nothing: others
    take its leases, and its jobs go on there from their last checkpoint.
    """

    def __init__(
        self, settings: Settings, store: Store, attempt: Attempt, *, look: Look | None = None
    ) -> None:
        self._settings = settings
        self._store = store
        self._attempt = attempt
        self._layout = Layout(settings.data_dir.resolve())
        self._sign = LifeSign(self._layout.root / "dispatchers")
        self._name = self._sign.name
        self._observer = Observer(
            seconds=settings.lease_seconds,
            gap=settings.heartbeat_seconds,
            is_gone=self._sign.is_gone,
        )
        self._sweep = Sweep(store, self._layout, settings.upload_open_seconds)
        self._sweeper = Sweeper(self._sweep)
        self._wake = threading.Event()
        self._workers = Workers(look, self._wake.set)
        self._told: Seen | None = None
        self._running: dict[threading.Thread, LeaseKeeper] = {}
        self._planning: set[str] = set()
        self._beaten = float("-inf")
        self._observed = float("-inf")
        self._explained = WAITING
        self._closing = False

    def run(self, stop: threading.Event) -> None:
        """Take and run jobs until `stop` is set; then give back what is not finished."""
        _log.info("dispatcher started", name=self._name)
        with self._sign, self._workers, self._store.changes.listen(self._heed):
            while not stop.is_set():
                self._wake.clear()
                try:
                    self._turn()
                except (StoreAway, SQLAlchemyError) as error:
                    _log.warning("database not reached", error=str(error))
                except Exception:  # whatever it is about, the other jobs go on
                    _log.exception("turn of the dispatcher failed")
                self._wake.wait(self._settings.poll_seconds)
            self._close()

    def _turn(self) -> None:
        now = time.monotonic()
        seen = self._workers.seen
        if now - self._beaten >= self._settings.heartbeat_seconds or seen != self._told:
            self._beat(seen)
            self._beaten = now
        if now - self._observed >= self._settings.heartbeat_seconds * _LOOK_BEATS:
            self._observe()
            self._observed = now
        if self._sweeper.look():
            self._sign.tidy({each.holder for each in self._store.jobs.held()})
        wish = self._wish(seen)
        while len(self._running) < self._settings.concurrency and self._start(wish):
            pass
        is_full = wish.most is not None and len(self._running) >= wish.most
        if is_full and not self._planning and _allowed(wish) >= _PLANNED:
            self._start(Wish(processes=_PLANNED))

    def _heed(self, change: Change | None) -> None:
        """Look for work where there is some, and whether jobs that were dismissed run here."""
        if change is None or change.status in _CLAIMABLE:
            self._wake.set()
        if change is None or change.status is not None:
            for keeper in tuple(self._running.values()):
                if change is None or change.job_id == keeper.job_id:
                    keeper.look()

    def _beat(self, seen: Seen | None) -> None:
        """Say that this dispatcher lives, and what it has to compute with."""
        has = {"lacks": "not looked at yet"} if seen is None else seen.told
        told = {"name": self._name, "pid": os.getpid(), **has}
        self._store.presence.beat(self._name, told)
        self._told = seen

    def _wish(self, seen: Seen | None) -> Wish:
        """Say what can be run; jobs that cannot are told why they wait."""
        # An owner leaves one slot to others, who so wait for no job of theirs.
        most = max(1, self._settings.concurrency - 1)
        if seen is None:
            return Wish(processes=_INSTANT, most=most)
        message = self._layout.waits_for_room(self._settings.disk_headroom_bytes) or WAITING
        possible = None if message == WAITING else _INSTANT | _PLANNED
        if seen.lacks:
            message, possible = f"Waiting for workers: {seen.lacks}.", _INSTANT
        if possible is not None or self._explained != WAITING:
            self._store.jobs.explain(message, processes=_COMPUTED - (possible or frozenset()))
        self._explained = message
        return Wish(processes=possible, most=most)

    def _observe(self) -> None:
        """Take the jobs of workers that are lost."""
        lost = self._observer.lost(self._store.jobs.held())
        for job_id in self._store.jobs.recover(lost, pause=self._settings.retry_seconds):
            _log.warning("job recovered from a lost worker", job_id=job_id)

    def _start(self, wish: Wish) -> bool:
        job = self._store.jobs.claim(self._name, wish)
        if job is None:
            return False
        check = functools.partial(_check_files, job, self._layout, self._settings)
        keeper = LeaseKeeper(self._store.jobs, job, self._settings, check_room=check)
        thread = threading.Thread(target=self._work, args=(job, keeper), name=f"job-{job.id}")
        self._running[thread] = keeper
        if job.process in _PLANNED:
            self._planning.add(job.id)
        thread.start()
        return True

    def _work(self, job: Job, keeper: LeaseKeeper) -> None:
        try:
            self._finish(job, keeper)
        finally:  # a slot is free again whatever happened
            self._running.pop(threading.current_thread(), None)
            self._planning.discard(job.id)
            self._wake.set()

    def _finish(self, job: Job, keeper: LeaseKeeper) -> None:
        log = _log.bind(job_id=job.id, fence=job.fence, owner=job.owner, attempt=job.attempt)
        log.info("job started", job_process=job.process)
        with keeper:
            try:
                keeper.check_room()
                outcome: Outcome = Succeeded(self._attempt(job, keeper.tell, keeper.stopped))
            except Exception as error:
                outcome = outcome_of(error)
                if isinstance(outcome, Stopped) and keeper.shortage is not None:
                    outcome = outcome_of(keeper.shortage)
                if not isinstance(outcome, Stopped):  # else it was asked to
                    log.warning("job did not finish", exc_info=True)
            self._settle(job, outcome, keeper)
        log.info("job ended", outcome=type(outcome).__name__)

    def _settle(self, job: Job, outcome: Outcome, keeper: LeaseKeeper) -> None:
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
        jobs, pause = self._store.jobs, self._settings.retry_seconds
        _end(jobs, job.lease, outcome, pause=pause, closing=self._closing)
        jobs.drop(job.lease)
        self._sweep.tidy(job.id)

    def _close(self) -> None:
        self._closing = True
        running = dict(self._running)
        for keeper in running.values():
            keeper.stop()
        deadline = time.monotonic() + _GRACE_SECONDS
        for thread in running:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._sweeper.close(max(0.0, deadline - time.monotonic()))
        _log.info("dispatcher stopped", left=sum(thread.is_alive() for thread in running))


def _check_files(job: Job, layout: Layout, settings: Settings) -> None:
    """Raise `OutputError` where a job may write no more."""
    check_room(job, layout.root, settings.disk_headroom_bytes)
    check_quota(layout.job(job.id), settings)


def _allowed(wish: Wish) -> frozenset[str]:
    return frozenset(PROCESSES) if wish.processes is None else wish.processes


def _end(jobs: JobStore, lease: Lease, outcome: Outcome, *, pause: float, closing: bool) -> None:
    """Tell the store how an attempt has ended; `pause` is before another one."""
    match outcome:
        case Succeeded(outputs):
            jobs.settle(lease, Ending(Event.SUCCEED, "The result is there.", outputs=outputs))
        case Failed(error):
            jobs.settle(lease, Ending(Event.FAIL, str(error["message"]), error=error))
        case Crashed(error):
            message = f"{error['message']} Waiting for another attempt."
            jobs.give_back(lease, Interruption(Cause.CRASHED, message, error, pause))
        case Lost(error):
            message = f"{error['message']} Waiting for another attempt."
            jobs.give_back(lease, Interruption(Cause.LOST, message, error, pause))
        case Stopped() if closing:
            message = "Its dispatcher was stopped; waiting for another."
            jobs.give_back(lease, Interruption(Cause.STOPPED, message))
        case Away():
            message = "The database did not answer; waiting for another attempt."
            jobs.give_back(lease, Interruption(Cause.LOST, message, pause=pause))
        case Stopped():
            pass  # the database knows already: that is why it was stopped
        case _:
            assert_never(outcome)
