"""Events of a running job over HTTP, with reconnection."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import httpx2

from halocline.connection import Connection
from halocline.errors import BusyError, ConnectionFailed, InternalError, ServiceError, WaitTimeout

__all__ = ["ENDED", "Event", "Status", "follow"]

Status: TypeAlias = Literal["accepted", "running", "successful", "failed", "dismissed"]

ENDED: frozenset[str] = frozenset({"successful", "failed", "dismissed"})

_QUIET_SECONDS = 60.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_PATIENCE = 300.0


@dataclass(frozen=True)
class Event:
    """An event of a job.

    Attributes
    ----------
    kind : str
        Kind of the event: 'planned', 'block-finished', 'pass-finished', 'finished' and others.
    data : dict
        Members of the event.
    id : str
        Orders events; empty for a status that the client requested.
    progress : float or None
        Fraction of the job that is done, from 0 to 1; None if the event does not tell.

    """

    kind: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""

    @property
    def progress(self) -> float | None:
        """Fraction of the job that is done, from 0 to 1; None if the event does not tell."""
        value = self.data.get("progress")
        return float(value) if isinstance(value, int | float) else None


def follow(
    connection: Connection, job_id: str, timeout: float | None = None, last: str = ""
) -> Iterator[Event]:
    """Yield the events of a job until it ends: all of them, or those after the id `last`.

    A broken stream is reopened after the last received event. Without a stream, the status is
    polled with growing pauses and yielded as events of the kind "status". Raises WaitTimeout after
    `timeout` seconds, and ConnectionFailed or BusyError if the service is unavailable for five
    minutes.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while True:
        came = False
        try:
            for event in _stream(connection, job_id, last, deadline):
                came = True
                last = event.id or last
                yield event
        except (httpx2.TransportError, InternalError, ServiceError):
            pass  # the status decides whether the job has ended
        document = _status(connection, job_id, deadline)
        if document["status"] in ENDED:
            return
        if not came:
            yield _status_event(document)
        pause = _FIRST_PAUSE if came else min(pause * 1.5, _LONGEST_PAUSE)
        connection.sleep(min(pause, _left(deadline, job_id)))


def _status(connection: Connection, job_id: str, deadline: float | None) -> dict[str, Any]:
    """Return a job's status document, with patience for an unavailable service."""
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            return connection.get(f"/jobs/{job_id}", needs=("status",))
        except (ConnectionFailed, BusyError):
            if time.monotonic() > patience:
                raise
            connection.sleep(min(_LONGEST_PAUSE, _left(deadline, job_id)))


def _stream(
    connection: Connection, job_id: str, after: str, deadline: float | None
) -> Iterator[Event]:
    """Yield the events of one connection."""
    quiet = min(_QUIET_SECONDS, _left(deadline, job_id))
    with connection.events(f"/jobs/{job_id}/events", after, quiet) as source:
        for sent in source:
            yield Event(sent.event, _data(sent), sent.id)
            _left(deadline, job_id)


def _left(deadline: float | None, job_id: str) -> float:
    """Return the seconds left; raise WaitTimeout if there are none."""
    if deadline is None:
        return _QUIET_SECONDS
    left = deadline - time.monotonic()
    if left <= 0:
        raise WaitTimeout(
            f"Job '{job_id}' has not ended before the timeout.",
            hint="The job continues: wait again, or dismiss it with 'cancel'.",
        )
    return left


def _data(sent: httpx2.ServerSentEvent) -> dict[str, Any]:
    """Return the data of an event; text that is no JSON object becomes its 'message'."""
    try:
        value: object = json.loads(sent.data)
    except ValueError:
        value = sent.data
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"message": value}


def _status_event(document: dict[str, Any]) -> Event:
    """Return an event from a job's status document, whose progress is in percent."""
    data = {key: document.get(key) for key in ("status", "message")}
    progress = document.get("progress")
    if isinstance(progress, int | float):
        data["progress"] = progress / 100
    return Event("status", data)
