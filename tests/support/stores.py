"""Stores, and jobs in them, for tests of what every store promises."""

from __future__ import annotations

from halocline_service.jobs.job import Job, JobRequest
from halocline_service.store.base import (
    Store,
)


class Clock:
    """A clock that a test sets."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.now = 1_000_000.0 + ahead

    def __call__(self) -> float:
        return self.now


def asked(
    owner: str = "ann",
    *,
    key: str | None = None,
    fingerprint: str = "f",
    process: str = "stencil",
    name: str | None = None,
    labels: tuple[str, ...] = (),
) -> JobRequest:
    return JobRequest(
        owner=owner,
        process=process,
        request={"inputs": {"steps": 3}},
        fingerprint=fingerprint,
        idempotency_key=key,
        max_attempts=2,
        name=name,
        labels=labels,
    )


def add(store: Store, owner: str = "ann", process: str = "stencil") -> str:
    return store.jobs.add(asked(owner, process=process), queue_limit=100).id


def lose(store: Store) -> list[str]:
    """Have all leases taken, as if their holders were lost."""
    return list(store.jobs.recover(store.jobs.held()))


def job_of(store: Store, job_id: str) -> Job:
    found = store.jobs.get(job_id, owner=None)
    assert found is not None
    return found
