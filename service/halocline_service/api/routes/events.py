"""Server-sent events of a job: the past ones, then new ones until the job has ended.

The id of an event is its number in the database: with `Last-Event-ID`, a client resumes after a
lost connection, at any API process.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import Here, Owner, OwnJob
from halocline_service.api.requests.headers import LARGEST, whole_number
from halocline_service.api.requests.shares import one_of
from halocline_service.api.responses.sentences import sentence_of
from halocline_service.api.schemas import timestamp
from halocline_service.jobs.job import Job, JobEvent
from halocline_service.jobs.states import FINAL
from halocline_service.store.base import Change, JobStore, Listener, StoreAway

__all__ = ["router"]

router = APIRouter(tags=["Jobs"])

_POLL_SECONDS = 1.0  # correctness does not depend on notifications
_MOST_STREAMS = 20  # of one owner, at one API process
_PAGE = 500


async def _start(
    last_event_id: Annotated[
        str | None, Header(description="Id of the last received event.")
    ] = None,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="The same, as a parameter.")] = 0,
) -> int:
    if last_event_id is None:
        return after
    number = whole_number(last_event_id)
    if number is None:
        raise ProblemError(
            "argument", f"Header 'Last-Event-ID' must be a number, got '{last_event_id[:40]}'."
        )
    return number


async def _stream(request: Request, owner: Owner) -> AsyncIterator[None]:
    """Count a stream while it is open, as each polls the database."""
    hint = "Close one, or poll GET /jobs/{id}."
    streams: Counter[str] = request.app.state.streams
    with one_of(streams, owner, _MOST_STREAMS, what="streams of events open", hint=hint):
        yield


@router.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    summary="Events of a job",
    dependencies=[Depends(_stream)],
)
async def events(
    job: OwnJob, here: Here, owner: Owner, start: Annotated[int, Depends(_start)]
) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of a job until it has ended."""
    after = start
    woken = asyncio.Event()
    with here.store.changes.listen(_waking(job.id, woken)):
        while True:
            woken.clear()
            try:
                look = functools.partial(_look, here.store.jobs, job, owner, after)
                ended, page = await anyio.to_thread.run_sync(look)
            except StoreAway:
                return  # the client reconnects with its last id
            for event in page:
                after = event.seq
                yield _message(event)
            if ended and len(page) < _PAGE:
                return
            if not page:
                with anyio.move_on_after(_POLL_SECONDS):
                    await woken.wait()


def _waking(job_id: str, woken: asyncio.Event) -> Listener:
    """Return a listener that sets an event of this loop when a job changes."""
    loop = asyncio.get_running_loop()

    def wake(change: Change | None) -> None:
        if change is None or change.job_id == job_id:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(woken.set)

    return wake


def _look(store: JobStore, job: Job, owner: str, after: int) -> tuple[bool, list[JobEvent]]:
    """Return whether a job has ended, and its new events."""
    # The state is read first, so that the events are complete if it is final.
    now = store.get(job.id, owner=owner)
    ended = now is None or now.state in FINAL
    return ended, list(store.events(job.id, after=after, limit=_PAGE))


def _message(event: JobEvent) -> ServerSentEvent:
    text = sentence_of(event.kind, event.data)
    data: dict[str, Any] = {"at": timestamp(event.at), "text": text, **event.data}
    return ServerSentEvent(id=str(event.seq), event=event.kind, data=data)
