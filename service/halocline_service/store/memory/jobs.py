"""The jobs in dictionaries of one process; the same as `sql_jobs`, as plainly as it can be said."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from halocline_service.jobs.job import (
    Ending,
    Held,
    Job,
    JobEvent,
    JobRequest,
    JobSummary,
    Lease,
    new_id,
)
from halocline_service.jobs.setbacks import PROGRESS, Cause, Interruption, setback
from halocline_service.jobs.states import FINAL, Event, State, after, target
from halocline_service.store.base import (
    ANY,
    WAITING,
    Change,
    Clock,
    IdempotencyConflict,
    JobQuery,
    Listener,
    Note,
    QueueFull,
    Removal,
    Wish,
    lost_error,
    status_note,
)
from halocline_service.store.memory.uploads import MemoryRemoved, MemoryUploads, in_page
from halocline_service.store.waits import Waits

__all__ = ["MemoryChanges", "MemoryJobs"]


class MemoryChanges:
    """`Changes` of one process."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    @contextmanager
    def listen(self, listener: Listener) -> Generator[None]:
        """Call `listener` with each change; see `Changes`."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def tell(self, change: Change) -> None:
        """Tell all who listen."""
        for listener in tuple(self._listeners):
            listener(change)


class MemoryJobs:
    """`JobStore` in dictionaries."""

    def __init__(
        self,
        clock: Clock,
        ticks: Clock,
        changes: MemoryChanges,
        uploads: MemoryUploads,
        removed: MemoryRemoved,
    ) -> None:
        self._now = clock
        self._waits = Waits(ticks)
        self._changes = changes
        self._uploads = uploads
        self._removed = removed
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._events: list[JobEvent] = []
        self._seq = 0
        self._served: dict[str, int] = {}

    def add(self, asked: JobRequest, *, queue_limit: int) -> Job:
        """Store a job as queued; see `JobStore`."""
        with self._lock:
            known = self._same_key(asked)
            if known is not None:
                return known
            mine = [each for each in self._jobs.values() if each.owner == asked.owner]
            if sum(not each.is_final for each in mine) >= queue_limit:
                raise QueueFull
            now = self._now()
            made = Job(
                id=new_id(),
                owner=asked.owner,
                process=asked.process,
                name=asked.name,
                labels=asked.labels,
                request=asked.request,
                fingerprint=asked.fingerprint,
                idempotency_key=asked.idempotency_key,
                state=State.QUEUED,
                progress=0.0,
                message=WAITING,
                error=None,
                outputs=None,
                attempt=0,
                max_attempts=asked.max_attempts,
                crashes=0,
                losses=0,
                reached=0.0,
                fence=0,
                lease_owner=None,
                beats=0,
                retry_wait=None,
                created=now,
                started=None,
                updated=now,
                finished=None,
            )
            self._uploads.use(made.id, asked)
            return self._put(made)

    def _same_key(self, asked: JobRequest) -> Job | None:
        if asked.idempotency_key is None:
            return None
        wanted = (asked.owner, asked.idempotency_key)
        for each in self._jobs.values():
            if (each.owner, each.idempotency_key) == wanted:
                if each.fingerprint != asked.fingerprint:
                    raise IdempotencyConflict
                return each
        return None

    def get(self, job_id: str, *, owner: str | None) -> Job | None:
        """Give a job; see `JobStore`."""
        with self._lock:
            found = self._jobs.get(job_id)
            return found if found is not None and owner in (None, found.owner) else None

    def list(self, query: JobQuery) -> Sequence[JobSummary]:
        """Give the jobs that fit, newest first."""
        with self._lock:
            now = self._now()
            fitting = [each for each in self._jobs.values() if _fits(each, query, now)]
        return in_page(fitting, query.page)

    def cancel(self, job_id: str, *, owner: str) -> Job | None:
        """End an unfinished job; see `JobStore`."""
        with self._lock:
            found = self.get(job_id, owner=owner)
            state = None if found is None else after(found.state, Event.CANCEL)
            if found is None or state is None:
                return None
            now = self._now()
            return self._put(
                replace(
                    found, state=state, message="Dismissed on request.", updated=now, finished=now
                )
            )

    def remove(self, job_id: str, *, owner: str) -> Removal | None:
        """Forget a finished job; see `JobStore`."""
        with self._lock:
            found = self.get(job_id, owner=owner)
            if found is None or not found.is_final:
                return None
            del self._jobs[job_id]
            self._events = [each for each in self._events if each.job_id != job_id]
            self._removed.note("job", job_id)
            return Removal(found, self._uploads.leave(job_id))

    def claim(self, worker: str, wish: Wish = ANY) -> Job | None:
        """Take the queued job whose turn it is; see `JobStore`."""
        with self._lock:
            chosen = self._next(worker, wish)
            if chosen is None:
                return None
            self._served[chosen.owner] = max(self._served.values(), default=0) + 1
            now = self._now()
            return self._put(
                replace(
                    chosen,
                    state=target(Event.CLAIM),
                    attempt=chosen.attempt + 1,
                    fence=chosen.fence + 1,
                    lease_owner=worker,
                    retry_wait=None,
                    started=now if chosen.started is None else chosen.started,
                    updated=now,
                    message="Started.",
                )
            )

    def _next(self, worker: str, wish: Wish) -> Job | None:
        running = [each for each in self._jobs.values() if each.state is State.RUNNING]
        crashed = any(each.crashes for each in running)
        everyone = Counter(each.owner for each in running)
        mine = Counter(each.owner for each in running if each.lease_owner == worker)
        waiting = [
            (each.lease, each.retry_wait)
            for each in self._jobs.values()
            if after(each.state, Event.CLAIM) and each.retry_wait is not None
        ]
        waited = set(self._waits.over(waiting))
        fitting = [
            each
            for each in self._jobs.values()
            if after(each.state, Event.CLAIM)
            and (each.retry_wait is None or each.id in waited)
            and not (each.crashes and crashed)
            and (wish.processes is None or each.process in wish.processes)
            and (wish.most is None or mine[each.owner] < wish.most)
        ]
        return min(
            fitting,
            key=lambda each: (everyone[each.owner], self._served.get(each.owner, 0), each.id),
            default=None,
        )

    def renew(self, lease: Lease) -> bool:
        """Count one beat; see `JobStore`."""
        with self._lock:
            found = self._jobs.get(lease.job_id)
            if found is None or found.lease != lease or found.lease_owner is None:
                return False
            self._jobs[found.id] = replace(found, beats=found.beats + 1)
            return found.state is State.RUNNING

    def record(self, lease: Lease, *, progress: float, message: str, notes: Sequence[Note]) -> bool:
        """Write progress and events; see `JobStore`."""
        with self._held(lease) as held:
            if held is not None:
                further = held.reached <= progress - PROGRESS
                forgiven = {"reached": progress, "crashes": 0, "losses": 0} if further else {}
                now = self._now()
                self._jobs[held.id] = replace(
                    held, progress=progress, message=message, updated=now, **forgiven
                )
                for note in notes:
                    self._note(held.id, note)
            return held is not None

    def settle(self, lease: Lease, ending: Ending) -> bool:
        """End a running job; see `JobStore`."""
        with self._held(lease) as held:
            if held is not None:
                self._leave(held, ending)
            return held is not None

    def give_back(self, lease: Lease, interruption: Interruption) -> bool:
        """Have a running job tried again, or end it; see `JobStore`."""
        with self._held(lease) as held:
            if held is not None:
                began = held.attempt - (interruption.cause is not Cause.CRASHED)
                self._set_back(replace(held, attempt=began), interruption)
            return held is not None

    def _set_back(self, found: Job, interruption: Interruption) -> None:
        what = setback(found, interruption)
        counted = replace(found, crashes=what.crashes, losses=what.losses)
        if what.event is Event.FAIL:
            why = interruption.error or lost_error(what.losses)
            self._leave(counted, Ending(what.event, str(why["message"]), error=why))
        else:
            self._waits.begin(found.lease)
            ending = Ending(what.event, interruption.message)
            self._leave(counted, ending, retry_wait=what.wait or None)

    def _leave(self, found: Job, ending: Ending, **values: Any) -> None:
        now = self._now()
        state = target(ending.event)
        self._put(
            replace(
                found,
                state=state,
                updated=now,
                finished=now if state in FINAL else None,
                lease_owner=None,
                progress=1.0 if state is State.SUCCEEDED else found.progress,
                message=ending.message,
                outputs=ending.outputs,
                error=ending.error,
                **values,
            )
        )

    def explain(self, message: str, *, processes: frozenset[str]) -> int:
        """Say to queued jobs why they wait; see `JobStore`."""
        with self._lock:
            told = [
                each
                for each in self._jobs.values()
                if each.state is State.QUEUED
                and each.process in processes
                and each.message != message
            ]
            for each in told:
                self._put(replace(each, message=message, updated=self._now()))
            return len(told)

    def drop(self, lease: Lease) -> None:
        """Say that this worker writes no more files for the job."""
        with self._lock:
            found = self._jobs.get(lease.job_id)
            if found is not None and found.fence == lease.fence and found.is_final:
                self._jobs[found.id] = replace(found, lease_owner=None)

    def held(self) -> Sequence[Held]:
        """Give all leases; see `JobStore`."""
        with self._lock:
            return [
                Held(each.lease, each.lease_owner, each.beats)
                for each in self._jobs.values()
                if each.lease_owner is not None
            ]

    def recover(self, lost: Sequence[Held], *, pause: float = 0.0) -> Sequence[str]:
        """Take leases from workers that are lost; see `JobStore`."""
        message = "Its dispatcher was lost; waiting for another."
        taken: list[str] = []
        with self._lock:
            for each in set(self.held()) & set(lost):
                found = self._jobs[each.lease.job_id]
                taken.append(found.id)
                if found.state is State.RUNNING:
                    self._set_back(found, Interruption(Cause.LOST, message, pause=pause))
                else:
                    self._jobs[found.id] = replace(found, lease_owner=None)
        return sorted(taken)

    def events(
        self, job_id: str, *, after: int = 0, kind: str | None = None, limit: int = 1000
    ) -> Sequence[JobEvent]:
        """Give a job's events in order; see `JobStore`."""
        with self._lock:
            found = [
                each
                for each in self._events
                if each.job_id == job_id and each.seq > after and kind in (None, each.kind)
            ]
        return found[:limit]

    def counts(self, *, owner: str | None) -> Mapping[State, int]:
        """Say how many jobs are in each state."""
        with self._lock:
            states = [one.state for one in self._jobs.values() if owner in (None, one.owner)]
        return {state: states.count(state) for state in State}

    def oldest_queued(self, *, owner: str | None) -> float | None:
        """Say when the job that waits longest was made."""
        with self._lock:
            own = [one for one in self._jobs.values() if owner in (None, one.owner)]
        return min((one.created for one in own if one.state is State.QUEUED), default=None)

    def known(self) -> frozenset[str]:
        """Give the identifiers of all jobs."""
        with self._lock:
            return frozenset(self._jobs)

    @contextmanager
    def _held(self, lease: Lease) -> Generator[Job | None]:
        with self._lock:
            found = self._jobs.get(lease.job_id)
            valid = found and found.fence == lease.fence and found.state is State.RUNNING
            yield found if valid else None

    def _put(self, changed: Job) -> Job:
        self._jobs[changed.id] = changed
        self._note(changed.id, status_note(changed.state, changed.progress, changed.message))
        return changed

    def _note(self, job_id: str, note: Note) -> None:
        self._seq += 1
        self._events.append(
            JobEvent(seq=self._seq, job_id=job_id, at=self._now(), kind=note.kind, data=note.data)
        )
        self._changes.tell(Change(job_id, note.data["status"] if note.kind == "status" else None))


def _fits(each: Job, query: JobQuery, now: float) -> bool:
    duration = None if each.started is None else (each.finished or now) - each.started
    return (
        each.owner == query.owner
        and (not query.processes or each.process in query.processes)
        and (not query.states or each.state in query.states)
        and (query.created_from is None or each.created >= query.created_from)
        and (query.created_to is None or each.created <= query.created_to)
        and (query.min_duration is None or _at_least(duration, query.min_duration))
        and (query.max_duration is None or _at_most(duration, query.max_duration))
        and (query.name is None or (each.name is not None and query.name in each.name))
        and set(query.labels) <= set(each.labels)
    )


def _at_least(duration: float | None, bound: float) -> bool:
    return duration is not None and duration >= bound


def _at_most(duration: float | None, bound: float) -> bool:
    return duration is not None and duration <= bound
