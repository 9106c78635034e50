"""Protocol of a store: `sql` keeps it in a database, `memory` in a process; one test judges both.

Every method is atomic and safe to call from any thread. An owner of None means "whoever owns it"
and is for the dispatcher only. Every method raises `StoreAway` where the database does not answer,
and `StoreOutdated` where it was not migrated; what was asked for has happened wholly then, or not
at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from halocline_service.jobs.job import (
    Ending,
    Held,
    Job,
    JobEvent,
    JobRequest,
    JobSummary,
    JsonObject,
    Lease,
    Removed,
    Upload,
    UploadRequest,
)
from halocline_service.jobs.setbacks import Interruption
from halocline_service.jobs.states import State, ogc_status

__all__ = [
    "ANY",
    "WAITING",
    "ApiKey",
    "Change",
    "Changes",
    "Check",
    "Clock",
    "IdempotencyConflict",
    "JobQuery",
    "JobStore",
    "KeyStore",
    "Listener",
    "Note",
    "Page",
    "PresenceStore",
    "QueueFull",
    "Removal",
    "RemovedStore",
    "Store",
    "StoreAway",
    "StoreNewer",
    "StoreOutdated",
    "UploadGone",
    "UploadStore",
    "Wish",
    "lost_error",
    "same_upload",
    "status_note",
]

Clock = Callable[[], float]


class IdempotencyConflict(Exception):
    """The idempotency key was used before for another request."""


class QueueFull(Exception):
    """The owner has as many unfinished jobs (or open uploads) as are allowed."""


class UploadGone(Exception):
    """An upload that a job was to read is not there any more, or is not complete."""

    def __init__(self, upload_id: str) -> None:
        super().__init__(upload_id)
        self.upload_id = upload_id


class StoreAway(Exception):
    """The database cannot be reached, or ended the conversation; it may answer later."""


class StoreOutdated(StoreAway):
    """The database answers, and tables or columns are missing: it was not migrated."""


class StoreNewer(Exception):
    """The database was migrated by a newer version; `hint` is the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.hint = (
            "Install that version or a later one; or restore a backup of the database from before."
        )


@dataclass(frozen=True, slots=True)
class Removal:
    """A job that was removed, and the uploads that went with it."""

    job: Job
    uploads: tuple[Upload, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """An event that has no number yet."""

    kind: str
    data: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Part of a list that is ordered by identifiers, and so by age, newest first.

    `before` leaves out that item and what is newer, `after` that item and what is older; with
    `after` alone, the items next to it are meant and not the newest ones.
    """

    limit: int = 10
    offset: int = 0
    before: str | None = None
    after: str | None = None

    @property
    def is_backward(self) -> bool:
        """Whether it is counted from its oldest item."""
        return self.after is not None and self.before is None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Filter of a list of jobs; fields left out match all. Newest first.

    Durations are seconds from start to finish, or to now for a running job; a job that has not
    started has none and is left out once a duration is asked for. `name` is a part of the job's
    name, and `labels` are words that it has all.
    """

    owner: str
    processes: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    created_from: float | None = None
    created_to: float | None = None
    min_duration: float | None = None
    max_duration: float | None = None
    name: str | None = None
    labels: tuple[str, ...] = ()
    page: Page = Page()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key as it is kept: never the secret, only its SHA-256."""

    id: str
    owner: str
    digest: str
    created: float
    revoked: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Jobs that a worker would take: of some processes, and `most` of one owner beside others."""

    processes: frozenset[str] | None = None
    most: int | None = None


ANY = Wish()
#: What a queued job says while nothing else keeps it from running.
WAITING = "Waiting for a dispatcher."


class JobStore(Protocol):
    """The jobs and what happened to them."""

    def add(self, asked: JobRequest, *, queue_limit: int) -> Job:
        """Store a job as queued, or give the one stored under the same idempotency key.

        Raises `IdempotencyConflict` if that one asked for something else, `QueueFull`, and
        `UploadGone` where one of its uploads is not there, complete and the owner's.
        """
        ...

    def get(self, job_id: str, *, owner: str | None) -> Job | None:
        """Give a job, or None where there is none or it is another's."""
        ...

    def list(self, query: JobQuery) -> Sequence[JobSummary]:
        """Give the jobs that fit, newest first; not what they were asked for, or made."""
        ...

    def cancel(self, job_id: str, *, owner: str) -> Job | None:
        """End an unfinished job; its worker learns of it at its next renewal or write."""
        ...

    def remove(self, job_id: str, *, owner: str) -> Removal | None:
        """Forget a finished job and its events; give what was forgotten.

        Its uploads that are not kept and that no other job reads go with it. All of it is
        `removed` from then on.
        """
        ...

    def claim(self, worker: str, wish: Wish = ANY) -> Job | None:
        """Take a queued job under a lease and a new fence; None where nothing is to be had.

        The owner goes first who has the fewest jobs that run; of these, who was served least
        lately; and of an owner's jobs the oldest one. One that is to wait before its next attempt
        is left out. Of jobs that crashed before, one runs at a time: where several run when a
        worker ends, each of them is blamed, and no two may be blamed together again and again.
        """
        ...

    def renew(self, lease: Lease) -> bool:
        """Count one beat; False where the job is no longer this worker's or was cancelled.

        One that was cancelled counts beats until its worker drops it.
        """
        ...

    def record(self, lease: Lease, *, progress: float, message: str, notes: Sequence[Note]) -> bool:
        """Write progress and events; False, and nothing written, where the lease is void.

        Progress beyond what was reached before forgives crashes and losses.
        """
        ...

    def settle(self, lease: Lease, ending: Ending) -> bool:
        """End a running job by SUCCEED or FAIL; False where the lease is void."""
        ...

    def give_back(self, lease: Lease, interruption: Interruption) -> bool:
        """Have a running job tried again, or end it where that is enough (`setback`).

        An attempt that the worker could give back does not count as one unless it crashed. False
        where the lease is void.
        """
        ...

    def explain(self, message: str, *, processes: frozenset[str]) -> int:
        """Say to the queued jobs of some processes why they wait; give how many heard it anew."""
        ...

    def drop(self, lease: Lease) -> None:
        """Say that this worker writes no more files for the job."""
        ...

    def held(self) -> Sequence[Held]:
        """Give all leases, those of jobs that ended and were not dropped among them."""
        ...

    def recover(self, lost: Sequence[Held], *, pause: float = 0.0) -> Sequence[str]:
        """Take leases from workers that are lost, and give those jobs back that ran.

        A lease that was renewed since it was looked at is left alone. Returns the jobs' ids.
        """
        ...

    def events(
        self, job_id: str, *, after: int = 0, kind: str | None = None, limit: int = 1000
    ) -> Sequence[JobEvent]:
        """Give a job's events in order, those after a number only."""
        ...

    def counts(self, *, owner: str | None) -> Mapping[State, int]:
        """Say how many jobs are in each state."""
        ...

    def oldest_queued(self, *, owner: str | None) -> float | None:
        """Say when the job that waits longest was made."""
        ...

    def known(self) -> frozenset[str]:
        """Give the identifiers of all jobs."""
        ...


class UploadStore(Protocol):
    """The uploads; their bytes are files, kept elsewhere."""

    def add(self, request: UploadRequest, *, limit: int) -> Upload:
        """Open an upload, or give the one opened under the same idempotency key.

        Raises `IdempotencyConflict` if that one was announced otherwise.
        Where the owner has a complete one with this digest, that is given; it is kept from now on
        if that is asked for. Raises `QueueFull` where the owner has too many.
        """
        ...

    def get(self, upload_id: str, *, owner: str | None) -> Upload | None:
        """Give an upload, or None where there is none or it is another's."""
        ...

    def list(self, owner: str, page: Page) -> Sequence[Upload]:
        """Give an owner's uploads, newest first."""
        ...

    def unfinished(self, *, before: float) -> Sequence[Upload]:
        """Give everyone's open uploads that were opened before a time, oldest first."""
        ...

    def complete(self, upload_id: str, *, owner: str, keys: int, size: int) -> Upload | None:
        """Freeze an open upload; None where it is not open."""
        ...

    def unused(self, *, before: float) -> Sequence[Upload]:
        """Give everyone's complete uploads that are not kept, read by no job, and older."""
        ...

    def release(self, upload_id: str) -> Upload | None:
        """Forget such an upload; None where it is kept or read by a job meanwhile."""
        ...

    def remove(self, upload_id: str, *, owner: str) -> Upload | None:
        """Forget an upload, which is `removed` from then on; give what was forgotten."""
        ...

    def known(self) -> frozenset[str]:
        """Give the identifiers of all uploads."""
        ...


class RemovedStore(Protocol):
    """Record of removals from the stores, until the files are known to be gone."""

    def list(self, *, before: float) -> Sequence[Removed]:
        """Give what was removed before a time, oldest first."""
        ...

    def forget(self, gone: Removed) -> None:
        """Say that nothing is left of it."""
        ...


class KeyStore(Protocol):
    """The API keys."""

    def add(self, key_id: str, *, owner: str, digest: str) -> ApiKey:
        """Keep a new key."""
        ...

    def get(self, key_id: str) -> ApiKey | None:
        """Give a key that was not revoked."""
        ...

    def list(self) -> Sequence[ApiKey]:
        """Give all keys, oldest first."""
        ...

    def revoke(self, key_id: str) -> bool:
        """Make a key void; False where there is none."""
        ...


class PresenceStore(Protocol):
    """Register of live dispatchers."""

    def beat(self, name: str, info: JsonObject) -> None:
        """Say that a dispatcher is alive."""
        ...

    def alive(self, *, within: float) -> Sequence[JsonObject]:
        """Give what the dispatchers said that were heard of in the last seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """Something happened to a job; `status` is its new state in the standard's words, if that."""

    job_id: str
    status: str | None


#: Is called in another thread, and must be quick. None: anything may have changed.
Listener = Callable[[Change | None], None]


class Changes(Protocol):
    """Notifications of changes to jobs, to wake those who wait."""

    def listen(self, listener: Listener) -> AbstractContextManager[None]:
        """Call `listener` with what happens from now on; with None where something was missed."""
        ...


class Check(Protocol):
    """Raises where the database does not answer, or lacks a column."""

    def __call__(self, *, writes: bool = False) -> None:
        """Look at every table; with `writes`, also whether they can be written."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """The stores of one deployment."""

    jobs: JobStore
    uploads: UploadStore
    keys: KeyStore
    presence: PresenceStore
    removed: RemovedStore
    identity: Callable[[], str]  # of the database, as it was made; the data folder's marker has it
    changes: Changes
    check: Check
    close: Callable[[], None]


def same_upload(stored: Upload, asked: UploadRequest) -> Upload:
    """Return the upload of an idempotency key. Raises `IdempotencyConflict` if it is another."""
    if stored.digest != asked.digest or (asked.kept and not stored.kept):
        raise IdempotencyConflict
    return stored


def status_note(state: State, progress: float, message: str) -> Note:
    """Make the event that says in which state a job now is."""
    data = {"status": ogc_status(state), "progress": progress, "message": message}
    return Note("status", data)


def lost_error(losses: int) -> JsonObject:
    """Make the error of a job under which too much was lost."""
    return {
        "code": "device",
        "message": f"The job was given up: {losses} times it was cut off and had got no further.",
        "hint": "Look at the log of the dispatcher and the workers, and submit it again.",
    }
