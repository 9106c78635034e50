"""The nouns: a job, what is asked for, what happened to it."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from halocline_service.jobs.states import FINAL, Event, State

__all__ = [
    "Ending",
    "Held",
    "Job",
    "JobEvent",
    "JobRequest",
    "JobSummary",
    "JsonObject",
    "Kind",
    "Lease",
    "Removed",
    "Upload",
    "UploadRequest",
    "is_id",
    "new_id",
]

JsonObject = Mapping[str, Any]
Kind = Literal["job", "upload"]

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_id() -> str:
    """Make an identifier that sorts by time of making: a UUID of version 7.

    The 12 bits after the milliseconds are their fraction (RFC 9562, method 3), so that the order
    holds to a quarter of a microsecond.

    >>> UUID(new_id()).version
    7
    >>> new_id() < new_id()
    True
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | secrets.randbits(62)
    return str(UUID(int=value))


def is_id(text: str) -> bool:
    """Say whether a text has the form of an identifier.

    >>> is_id(new_id()), is_id("../etc")
    (True, False)
    """
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job that was asked for and checked, and is not stored yet."""

    owner: str
    process: str
    request: JsonObject  # {"inputs": {...}, "outputs": {...}}, as it was checked
    fingerprint: str  # SHA-256 of process and request
    idempotency_key: str | None = None
    max_attempts: int = 3
    uploads: tuple[str, ...] = ()  # identifiers of those that it reads
    name: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """Entry of a list of jobs. Times are seconds since 1970, UTC."""

    id: str
    process: str
    name: str | None  # what its owner calls it; several may have one name
    labels: tuple[str, ...]  # words of its owner, by which jobs are found
    state: State
    progress: float  # 0..1
    message: str
    error: JsonObject | None
    attempt: int  # how often it was begun, without the times that it was given back unharmed
    created: float
    started: float | None
    updated: float
    finished: float | None

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to this job."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobSummary):
    """One row: what was asked for as well, and who may write about it."""

    owner: str
    request: JsonObject
    fingerprint: str
    idempotency_key: str | None
    outputs: JsonObject | None  # {"values": {name: value}, "zarr": {name: folder of the job}}
    max_attempts: int
    crashes: int  # how often it ended what computed it, since it last made progress
    losses: int  # how often what computed it went away, since it last made progress
    reached: float  # how far it was when it last made progress
    fence: int  # grows with every claim; a writer with an older one is ignored
    lease_owner: str | None  # who may write files for it
    beats: int  # grows while that one lives
    retry_wait: float | None  # seconds without an attempt, from when the last one was cut off

    @property
    def lease(self) -> Lease:
        """The right to write that the last claim gave."""
        return Lease(self.id, self.fence)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One thing that happened to a job; `seq` grows and is never used twice."""

    seq: int
    job_id: str
    at: float
    kind: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write about a running job; void once another has claimed it."""

    job_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Held:
    """A lease, who has it, and how often it was renewed."""

    lease: Lease
    holder: str
    beats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest:
    """An upload that was asked for; see `Upload`."""

    owner: str
    idempotency_key: str | None = None
    digest: str | None = None
    kept: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A dataset that a user sends; frozen once it is complete.

    One that is not `kept` belongs to the jobs that read it, and goes with the last of them.
    """

    id: str
    owner: str
    created: float
    completed: float | None
    keys: int
    bytes: int
    idempotency_key: str | None = None
    digest: str | None = None  # of what was sent; see `datasets.digests`
    kept: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether it was checked and frozen, so that jobs may read it."""
        return self.completed is not None


@dataclass(frozen=True, slots=True)
class Ending:
    """End of an attempt: by SUCCEED with outputs, by FAIL with an error, or by GIVE_BACK."""

    event: Event
    message: str
    outputs: JsonObject | None = None
    error: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    """A job or an upload that was removed, and of which files may be left."""

    kind: Kind
    id: str
    at: float
