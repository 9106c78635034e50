"""A store in one process: for tests and for trying things, and the judge of what SQL must mean."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from halocline_service.jobs.job import Job, JobEvent, JobRequest, JsonObject, Lease, Upload, new_id
from halocline_service.jobs.states import FINAL, Event, State, after, target
from halocline_service.store.base import (
    ApiKey,
    Clock,
    IdempotencyConflict,
    JobQuery,
    Note,
    Page,
    QueueFull,
    Store,
    lost_error,
    status_note,
)

__all__ = ["MemoryJobs", "MemoryKeys", "MemoryPresence", "MemoryUploads", "memory_store"]


def memory_store(*, clock: Clock = time.time) -> Store:
    """Make an empty store that lives as long as this process."""
    return Store(
        jobs=MemoryJobs(clock),
        uploads=MemoryUploads(clock),
        keys=MemoryKeys(clock),
        presence=MemoryPresence(clock),
        check=lambda: None,
        close=lambda: None,
    )


class MemoryJobs:
    """`JobStore` in dictionaries."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._events: list[JobEvent] = []
        self._seq = 0

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
                request=asked.request,
                fingerprint=asked.fingerprint,
                idempotency_key=asked.idempotency_key,
                state=State.QUEUED,
                progress=0.0,
                message="Waiting for a dispatcher.",
                error=None,
                outputs=None,
                attempt=0,
                max_attempts=asked.max_attempts,
                fence=0,
                lease_owner=None,
                lease_until=None,
                created=now,
                started=None,
                updated=now,
                finished=None,
            )
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

    def list(self, query: JobQuery) -> Sequence[Job]:
        """Give the jobs that fit, newest first."""
        with self._lock:
            now = self._now()
            fitting = [each for each in self._jobs.values() if _fits(each, query, now)]
        return _paged(fitting, query.page)

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

    def remove(self, job_id: str, *, owner: str) -> Job | None:
        """Forget a finished job; see `JobStore`."""
        with self._lock:
            found = self.get(job_id, owner=owner)
            if found is None or not found.is_final:
                return None
            del self._jobs[job_id]
            self._events = [each for each in self._events if each.job_id != job_id]
            return found

    def claim(self, worker: str, *, seconds: float) -> Job | None:
        """Take the oldest queued job; see `JobStore`."""
        with self._lock:
            waiting = [each for each in self._jobs.values() if after(each.state, Event.CLAIM)]
            if not waiting:
                return None
            oldest = min(waiting, key=lambda each: each.id)
            now = self._now()
            return self._put(
                replace(
                    oldest,
                    state=target(Event.CLAIM),
                    attempt=oldest.attempt + 1,
                    fence=oldest.fence + 1,
                    lease_owner=worker,
                    lease_until=now + seconds,
                    started=now if oldest.started is None else oldest.started,
                    updated=now,
                    message="Started.",
                )
            )

    def renew(self, lease: Lease, *, seconds: float) -> bool:
        """Lengthen a lease; see `JobStore`."""
        with self._held(lease) as held:
            if held is not None:
                self._jobs[held.id] = replace(held, lease_until=self._now() + seconds)
            return held is not None

    def record(self, lease: Lease, *, progress: float, message: str, notes: Sequence[Note]) -> bool:
        """Write progress and events; see `JobStore`."""
        with self._held(lease) as held:
            if held is not None:
                now = self._now()
                self._jobs[held.id] = replace(held, progress=progress, message=message, updated=now)
                for note in notes:
                    self._note(held.id, note)
            return held is not None

    def settle(
        self,
        lease: Lease,
        event: Event,
        *,
        message: str,
        outputs: JsonObject | None = None,
        error: JsonObject | None = None,
        refund: bool = False,
    ) -> bool:
        """End a running job; see `JobStore`."""
        with self._held(lease) as held:
            if held is None:
                return False
            now = self._now()
            state = target(event)
            self._put(
                replace(
                    held,
                    state=state,
                    message=message,
                    updated=now,
                    finished=now if state in FINAL else None,
                    outputs=outputs,
                    error=error,
                    lease_owner=None,
                    lease_until=None,
                    progress=1.0 if state is State.SUCCEEDED else held.progress,
                    attempt=held.attempt - 1 if refund else held.attempt,
                )
            )
            return True

    def drop(self, lease: Lease) -> None:
        """Say that this worker writes no more files for the job."""
        with self._lock:
            found = self._jobs.get(lease.job_id)
            if found is not None and found.fence == lease.fence and found.is_final:
                self._jobs[found.id] = replace(found, lease_owner=None, lease_until=None)

    def recover(self) -> Sequence[str]:
        """Give back every job whose lease ran out; see `JobStore`."""
        with self._lock:
            now = self._now()
            lost = [
                each
                for each in self._jobs.values()
                if each.state is State.RUNNING and each.lease_until and each.lease_until < now
            ]
            for each in lost:
                if each.attempt < each.max_attempts:
                    message = "Its worker was lost; waiting for another."
                    self.settle(each.lease, Event.GIVE_BACK, message=message)
                else:
                    error = lost_error(each.attempt)
                    self.settle(each.lease, Event.FAIL, message=error["message"], error=error)
            return [each.id for each in lost]

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

    def counts(self) -> Mapping[State, int]:
        """Say how many jobs are in each state."""
        with self._lock:
            states = [each.state for each in self._jobs.values()]
        return {state: states.count(state) for state in State}

    def oldest_queued(self) -> float | None:
        """Say when the job that waits longest was made."""
        with self._lock:
            made = [each.created for each in self._jobs.values() if each.state is State.QUEUED]
        return min(made, default=None)

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


_Listed = TypeVar("_Listed", Job, Upload)


def _paged(items: list[_Listed], page: Page) -> list[_Listed]:
    fitting = [
        each
        for each in sorted(items, key=lambda each: each.id, reverse=not page.is_backward)
        if (page.before is None or each.id < page.before)
        and (page.after is None or each.id > page.after)
    ][page.offset : page.offset + page.limit]
    return fitting[::-1] if page.is_backward else fitting


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
    )


def _at_least(duration: float | None, bound: float) -> bool:
    return duration is not None and duration >= bound


def _at_most(duration: float | None, bound: float) -> bool:
    return duration is not None and duration <= bound


class MemoryUploads:
    """`UploadStore` in a dictionary."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock
        self._lock = threading.Lock()
        self._uploads: dict[str, Upload] = {}

    def add(self, owner: str, *, limit: int, idempotency_key: str | None = None) -> Upload:
        """Open an upload; see `UploadStore`."""
        with self._lock:
            mine = [each for each in self._uploads.values() if each.owner == owner]
            for each in mine:
                if idempotency_key is not None and each.idempotency_key == idempotency_key:
                    return each
            if len(mine) >= limit:
                raise QueueFull
            made = Upload(
                id=new_id(),
                owner=owner,
                created=self._now(),
                completed=None,
                keys=0,
                bytes=0,
                idempotency_key=idempotency_key,
            )
            self._uploads[made.id] = made
            return made

    def get(self, upload_id: str, *, owner: str | None) -> Upload | None:
        """Give an upload; see `UploadStore`."""
        with self._lock:
            found = self._uploads.get(upload_id)
            return found if found is not None and owner in (None, found.owner) else None

    def list(self, owner: str, page: Page) -> Sequence[Upload]:
        """Give an owner's uploads, newest first."""
        with self._lock:
            mine = [each for each in self._uploads.values() if each.owner == owner]
        return _paged(mine, page)

    def unfinished(self, *, before: float) -> Sequence[Upload]:
        """Give everyone's open uploads that were opened before a time; see `UploadStore`."""
        with self._lock:
            left = [
                each
                for each in self._uploads.values()
                if not each.is_complete and each.created < before
            ]
        return sorted(left, key=lambda each: each.id)

    def complete(self, upload_id: str, *, owner: str, keys: int, size: int) -> Upload | None:
        """Freeze an open upload; see `UploadStore`."""
        found = self.get(upload_id, owner=owner)
        with self._lock:
            if found is None or found.is_complete:
                return None
            done = replace(found, completed=self._now(), keys=keys, bytes=size)
            self._uploads[done.id] = done
            return done

    def remove(self, upload_id: str, *, owner: str) -> Upload | None:
        """Forget an upload; see `UploadStore`."""
        found = self.get(upload_id, owner=owner)
        with self._lock:
            return None if found is None else self._uploads.pop(found.id, None)

    def known(self) -> frozenset[str]:
        """Give the identifiers of all uploads."""
        with self._lock:
            return frozenset(self._uploads)


class MemoryKeys:
    """`KeyStore` in a dictionary."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock
        self._keys: dict[str, ApiKey] = {}

    def add(self, key_id: str, *, owner: str, digest: str) -> ApiKey:
        """Keep a new key."""
        key = ApiKey(id=key_id, owner=owner, digest=digest, created=self._now(), revoked=None)
        self._keys[key_id] = key
        return key

    def get(self, key_id: str) -> ApiKey | None:
        """Give a key that was not revoked."""
        found = self._keys.get(key_id)
        return found if found is not None and found.revoked is None else None

    def list(self) -> Sequence[ApiKey]:
        """Give all keys, oldest first."""
        return sorted(self._keys.values(), key=lambda each: each.created)

    def revoke(self, key_id: str) -> bool:
        """Make a key void; False where there is none."""
        found = self.get(key_id)
        if found is not None:
            self._keys[key_id] = replace(found, revoked=self._now())
        return found is not None


class MemoryPresence:
    """`PresenceStore` in a dictionary."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock
        self._seen: dict[str, tuple[float, dict[str, Any]]] = {}

    def beat(self, name: str, info: JsonObject) -> None:
        """Say that a dispatcher is alive."""
        self._seen[name] = (self._now(), dict(info))

    def alive(self, *, within: float) -> Sequence[JsonObject]:
        """Give what the dispatchers said that were heard of in the last seconds."""
        since = self._now() - within
        return [info for _, (seen, info) in sorted(self._seen.items()) if seen >= since]
