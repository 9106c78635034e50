"""Progress by server-sent events: first what happened, then what happens, to the end.

An event's id is its number in the database, so a client that was cut off goes on with
`Last-Event-ID` where it stopped, at any API process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from halocline_service.api.context import Here, Owner, OwnJob
from halocline_service.api.problems import ProblemError
from halocline_service.api.schemas import timestamp
from halocline_service.jobs.job import Job, JobEvent
from halocline_service.jobs.states import FINAL
from halocline_service.store.base import JobStore, StoreAway

__all__ = ["router"]

router = APIRouter(tags=["Jobs"])

_POLL_SECONDS = 0.25
_PAGE = 500
_LARGEST = 2**63 - 1


def _start(
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was seen.")
    ] = None,
    after: Annotated[int, Query(ge=0, le=_LARGEST, description="The same, as a parameter.")] = 0,
) -> int:
    if last_event_id is None:
        return after
    if not last_event_id.isascii() or not last_event_id.isdigit() or int(last_event_id) > _LARGEST:
        raise ProblemError(
            "argument", f"Header 'Last-Event-ID' must be a number, got '{last_event_id[:40]}'."
        )
    return int(last_event_id)


@router.get(
    "/jobs/{job_id}/events", response_class=EventSourceResponse, summary="Progress as it happens"
)
async def events(
    job: OwnJob, here: Here, owner: Owner, start: Annotated[int, Depends(_start)]
) -> AsyncIterator[ServerSentEvent]:
    """Send a job's events until it has ended."""
    after = start
    while True:
        try:
            # The state is read first: what happened before it was final is then in the events.
            ended = await anyio.to_thread.run_sync(_has_ended, here.store.jobs, job, owner)
            page = await anyio.to_thread.run_sync(_page, here.store.jobs, job.id, after)
        except StoreAway:
            return  # the client comes back with the last id that it saw
        for event in page:
            after = event.seq
            yield _message(event)
        if ended and len(page) < _PAGE:
            return
        if not page:
            await anyio.sleep(_POLL_SECONDS)


def _has_ended(store: JobStore, job: Job, owner: str) -> bool:
    now = store.get(job.id, owner=owner)
    return now is None or now.state in FINAL


def _page(store: JobStore, job_id: str, after: int) -> list[JobEvent]:
    return list(store.events(job_id, after=after, limit=_PAGE))


def _message(event: JobEvent) -> ServerSentEvent:
    data: dict[str, Any] = {"at": timestamp(event.at), **event.data}
    return ServerSentEvent(id=str(event.seq), event=event.kind, data=data)
