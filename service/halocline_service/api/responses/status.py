"""Status documents of jobs."""

from __future__ import annotations

from typing import Any

from halocline_engine.interface.words import Interface
from halocline_service.api.problems import problem_body, stored_problem
from halocline_service.api.responses.sentences import sentence_of
from halocline_service.api.schemas import Link, StatusInfo, timestamp
from halocline_service.jobs.job import JobEvent, JobSummary
from halocline_service.jobs.states import State, ogc_status

__all__ = ["event_line", "exception", "status_info"]

_RESULTS = "http://www.opengis.net/def/rel/ogc/1.0/results"


def status_info(job: JobSummary, base: str, interface: Interface = Interface.JSON) -> StatusInfo:
    """Write a job as OGC's statusInfo; `base` is the API's URL, `interface` the reader's."""
    created, updated = timestamp(job.created), timestamp(job.updated)
    assert created is not None
    assert updated is not None
    return StatusInfo(
        jobID=job.id,
        id=job.id,
        processID=job.process,
        job_name=job.name,
        labels=list(job.labels) or None,
        status=ogc_status(job.state),  # pyright: ignore[reportArgumentType] # one of the five words
        message=job.message,
        progress=min(100, int(job.progress * 100)),
        attempt=job.attempt,
        created=created,
        started=timestamp(job.started),
        finished=timestamp(job.finished),
        updated=updated,
        exception=exception(job, base, interface),
        links=_links(job, f"{base}/jobs/{job.id}"),
    )


def exception(
    job: JobSummary, base: str, interface: Interface = Interface.JSON
) -> dict[str, Any] | None:
    """Give why a job failed, as the problem that its results answer."""
    if job.error is None:
        return None
    return problem_body(base, stored_problem(job.error), interface)


def _links(job: JobSummary, url: str) -> list[Link]:
    links = [
        Link(href=url, rel="self", type="application/json", title="Status"),
        Link(href=url, rel="monitor", type="application/json", title="Status"),
        Link(href=f"{url}/events", rel="events", type="text/event-stream", title="Progress"),
        Link(href=f"{url}/log", rel="log", type="text/plain", title="Log"),
        Link(href=f"{url}/inputs", rel="inputs", type="application/json", title="Inputs"),
    ]
    if job.state is State.SUCCEEDED:
        results = f"{url}/results"
        links.append(Link(href=results, rel=_RESULTS, type="application/json", title="Results"))
    if not job.is_final:
        links.append(Link(href=url, rel="cancel", type="application/json", title="Dismiss"))
    return links


def event_line(event: JobEvent) -> str:
    """Write an event as one line of the log."""
    told = sentence_of(event.kind, event.data)
    return " ".join(part for part in (timestamp(event.at), event.kind, told) if part)
