"""What a store promises. `sql` keeps it in a database, `memory` in a process; one test judges both.

Every method is atomic and safe to call from any thread. An owner of None means "whoever owns it"
and is for the dispatcher only. Every method raises `StoreAway` where the database does not answer,
and `StoreOutdated` where it was not migrated; what was asked for has happened wholly then, or not
at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from halocline_service.jobs.job import Job, JobEvent, JobRequest, JsonObject, Lease, Upload
from halocline_service.jobs.states import Event, State, ogc_status

__all__ = [
    "ApiKey",
    "Clock",
    "IdempotencyConflict",
    "JobQuery",
    "JobStore",
    "KeyStore",
    "Note",
    "Page",
    "PresenceStore",
    "QueueFull",
    "Store",
    "StoreAway",
    "StoreOutdated",
    "UploadStore",
    "lost_error",
    "status_note",
]

Clock = Callable[[], float]


class IdempotencyConflict(Exception):
    """The idempotency key was used before for another request."""


class QueueFull(Exception):
    """The owner has as many unfinished jobs (or open uploads) as are allowed."""


class StoreAway(Exception):
    """The database cannot be reached, or ended the conversation; it may answer later."""


class StoreOutdated(StoreAway):
    """The database answers, and tables or columns are missing: it was not migrated."""


@dataclass(frozen=True, slots=True)
class Note:
    """An event that has no number yet."""

    kind: str
    data: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list that is ordered by identifiers, and so by age, newest first.

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
    """Which jobs to list; what is left out does not matter. Newest first.

    Durations are seconds from start to finish, or to now for a running job; a job that has not
    started has none and is left out once a duration is asked for.
    """

    owner: str
    processes: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    created_from: float | None = None
    created_to: float | None = None
    min_duration: float | None = None
    max_duration: float | None = None
    page: Page = Page()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key as it is kept: never the secret, only its SHA-256."""

    id: str
    owner: str
    digest: str
    created: float
    revoked: float | None


class JobStore(Protocol):
    """The jobs and what happened to them."""

    def add(self, asked: JobRequest, *, queue_limit: int) -> Job:
        """Store a job as queued, or give the one stored under the same idempotency key.

        Raises `IdempotencyConflict` if that one asked for something else, and `QueueFull`.
        """
        ...

    def get(self, job_id: str, *, owner: str | None) -> Job | None:
        """Give a job, or None where there is none or it is another's."""
        ...

    def list(self, query: JobQuery) -> Sequence[Job]:
        """Give the jobs that fit, newest first."""
        ...

    def cancel(self, job_id: str, *, owner: str) -> Job | None:
        """End an unfinished job; its worker learns of it at its next renewal or write."""
        ...

    def remove(self, job_id: str, *, owner: str) -> Job | None:
        """Forget a finished job and its events; give what was forgotten."""
        ...

    def claim(self, worker: str, *, seconds: float) -> Job | None:
        """Take the oldest queued job under a lease and a new fence; None where nothing waits."""
        ...

    def renew(self, lease: Lease, *, seconds: float) -> bool:
        """Lengthen a lease; False where the job is no longer this worker's or was cancelled."""
        ...

    def record(self, lease: Lease, *, progress: float, message: str, notes: Sequence[Note]) -> bool:
        """Write progress and events; False, and nothing written, where the lease is void."""
        ...

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
        """End a running job by SUCCEED, FAIL or GIVE_BACK; False where the lease is void.

        `refund` takes back the attempt (a soft stop is not the job's fault).
        """
        ...

    def drop(self, lease: Lease) -> None:
        """Say that this worker writes no more files for the job."""
        ...

    def recover(self) -> Sequence[str]:
        """Give back (or fail, if its attempts are spent) every job whose lease ran out."""
        ...

    def events(
        self, job_id: str, *, after: int = 0, kind: str | None = None, limit: int = 1000
    ) -> Sequence[JobEvent]:
        """Give a job's events in order, those after a number only."""
        ...

    def counts(self) -> Mapping[State, int]:
        """Say how many jobs are in each state."""
        ...

    def oldest_queued(self) -> float | None:
        """Say when the job that waits longest was made."""
        ...

    def known(self) -> frozenset[str]:
        """Give the identifiers of all jobs, for sweeping files that belong to none."""
        ...


class UploadStore(Protocol):
    """The uploads; their bytes are files, kept elsewhere."""

    def add(self, owner: str, *, limit: int, idempotency_key: str | None = None) -> Upload:
        """Open an upload, or give the one opened under the same idempotency key.

        Raises `QueueFull` where the owner has too many.
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

    def remove(self, upload_id: str, *, owner: str) -> Upload | None:
        """Forget an upload; give what was forgotten."""
        ...

    def known(self) -> frozenset[str]:
        """Give the identifiers of all uploads, for sweeping files that belong to none."""
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
    """Which dispatchers are there."""

    def beat(self, name: str, info: JsonObject) -> None:
        """Say that a dispatcher is alive."""
        ...

    def alive(self, *, within: float) -> Sequence[JsonObject]:
        """Give what the dispatchers said that were heard of in the last seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """The stores of one deployment."""

    jobs: JobStore
    uploads: UploadStore
    keys: KeyStore
    presence: PresenceStore
    check: Callable[[], None]  # raises where the database cannot be written, or lacks a column
    close: Callable[[], None]


def status_note(state: State, progress: float, message: str) -> Note:
    """Make the event that says in which state a job now is."""
    data = {"status": ogc_status(state), "progress": progress, "message": message}
    return Note("status", data)


def lost_error(attempts: int) -> JsonObject:
    """Make the error of a job whose workers were lost too often."""
    return {
        "code": "device",
        "message": f"The job was given up after {attempts} attempts: its workers were lost.",
        "hint": "Look at the log of the dispatcher and the workers, and submit it again.",
    }
