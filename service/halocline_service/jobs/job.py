"""The nouns: a job, what is asked for, what happened to it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from halocline_service.jobs.states import FINAL, State

__all__ = ["Job", "JobEvent", "JobRequest", "JsonObject", "Lease", "Upload", "new_id"]

JsonObject = Mapping[str, Any]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job that was asked for and checked, and is not stored yet."""

    owner: str
    process: str
    request: JsonObject  # {"inputs": {...}, "outputs": {...}}, as it was checked
    fingerprint: str  # SHA-256 of process and request
    idempotency_key: str | None = None
    max_attempts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row: what was asked for, and how far it is. Times are seconds since 1970, UTC."""

    id: str
    owner: str
    process: str
    request: JsonObject
    fingerprint: str
    idempotency_key: str | None
    state: State
    progress: float  # 0..1
    message: str
    error: JsonObject | None
    outputs: JsonObject | None  # {"values": {name: value}, "zarr": {name: folder of the job}}
    attempt: int  # how often it was claimed
    max_attempts: int
    fence: int  # grows with every claim; a writer with an older one is ignored
    lease_owner: str | None
    lease_until: float | None
    created: float
    started: float | None
    updated: float
    finished: float | None

    @property
    def lease(self) -> Lease:
        """The right to write that the last claim gave."""
        return Lease(self.id, self.fence)

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to this job."""
        return self.state in FINAL


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A dataset that a user sends; frozen once it is complete."""

    id: str
    owner: str
    created: float
    completed: float | None
    keys: int
    bytes: int
    idempotency_key: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it was checked and frozen, so that jobs may read it."""
        return self.completed is not None
