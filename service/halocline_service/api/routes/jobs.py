"""Jobs: list, status, inputs, dismissal, log, plan and rates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from halocline_engine.schedule.traversal.pictures import draw_svg, draw_text
from halocline_service.api.problems import ProblemError, interface_of
from halocline_service.api.requests.context import Here, Owner, OwnJob, base_url
from halocline_service.api.requests.paging import After, Before, Limit, Offset, asked, links, turn
from halocline_service.api.requests.usage import refuse_in_use
from halocline_service.api.responses.pictures import scene_of
from halocline_service.api.responses.rates import rates_of
from halocline_service.api.responses.status import event_line, status_info
from halocline_service.api.schemas import JobInputs, JobList, StatusInfo
from halocline_service.jobs.job import Job
from halocline_service.jobs.states import State, ogc_status
from halocline_service.store.base import JobQuery, JobStore

__all__ = ["router"]

router = APIRouter(tags=["Jobs"])

_STATES = {ogc_status(state): state for state in State}
_STARTED = tuple(state for state in State if state is not State.QUEUED)
_PAGE_OF_LOG = 1000

_Texts = Annotated[list[str] | None, Query(max_length=20)]
_Seconds = Annotated[int | None, Query(ge=0, le=2**40)]


@router.get("/jobs", response_model=JobList, response_model_exclude_none=True, summary="Your jobs")
def jobs(
    request: Request,
    here: Here,
    owner: Owner,
    type: _Texts = None,  # noqa: A002  the standard's name
    processID: _Texts = None,
    status: _Texts = None,
    datetime: Annotated[
        str | None, Query(max_length=100, description="An instant or interval, RFC 3339.")
    ] = None,
    minDuration: _Seconds = None,
    maxDuration: _Seconds = None,
    job_name: Annotated[str | None, Query(max_length=200, description="Part of the name.")] = None,
    name: Annotated[str | None, Query(max_length=200, include_in_schema=False)] = None,
    label: Annotated[
        list[str] | None, Query(max_length=20, description="Labels; a job must have all of them.")
    ] = None,
    limit: Limit = 10,
    offset: Offset = 0,
    before: Before = None,
    after: After = None,
) -> JobList:
    """List jobs, newest first."""
    first, last = _interval(datetime)
    states = _states(status)
    if (minDuration is not None or maxDuration is not None) and not states:
        states = _STARTED
    page = asked(limit, offset, before, after)
    query = JobQuery(
        owner=owner,
        processes=_words(processID),
        states=states,
        created_from=first,
        created_to=last,
        min_duration=minDuration,
        max_duration=maxDuration,
        name=name if job_name is None else job_name,
        labels=_words(label),
        page=page,
    )
    wanted = set(_words(type)) or {"process"}
    matching = list(here.store.jobs.list(query)) if "process" in wanted else []
    shown, more = turn(matching, page)
    base = base_url(request)
    listed = [status_info(job, base, interface_of(request)) for job in shown]
    return JobList(jobs=listed, links=links(request, [job.id for job in shown], page, more=more))


def _words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(word for text in given or () for word in text.split(",") if word)


def _states(given: list[str] | None) -> tuple[State, ...]:
    for word in _words(given):
        if word not in _STATES:
            raise ProblemError(
                "argument",
                f"There is no job status '{word}'.",
                hint=f"There are: {', '.join(_STATES)}.",
            )
    return tuple(_STATES[word] for word in _words(given))


def _interval(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    first, slash, last = text.partition("/")
    if not slash:
        # An instant is a span of a millisecond, the precision of displayed times.
        instant = _instant(first, text)
        return instant, None if instant is None else instant + 0.000999
    return _instant(first, text), _instant(last, text)


def _instant(part: str, text: str) -> float | None:
    if part in ("", ".."):
        return None
    try:
        when = datetime.fromisoformat(part.replace("z", "Z"))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ProblemError(
            "argument",
            f"Parameter 'datetime' must be an instant or an interval, got '{text}'.",
            hint="Write '2026-01-31T12:00:00Z', '<from>/<to>', '../<to>' or '<from>/..'.",
        ) from None


@router.get(
    "/jobs/{job_id}",
    response_model=StatusInfo,
    response_model_exclude_none=True,
    summary="Status of a job",
)
def job(request: Request, job: OwnJob) -> StatusInfo:
    """Return the status of a job."""
    return status_info(job, base_url(request), interface_of(request))


@router.get("/jobs/{job_id}/inputs", summary="Inputs of a job")
def inputs(job: OwnJob) -> JobInputs:
    """Return the inputs of a job, to view or to submit again."""
    return JobInputs(
        processID=job.process,
        inputs=dict(job.request.get("inputs", {})),
        outputs=list(job.request.get("outputs", ())),
        job_name=job.name,
        labels=list(job.labels),
    )


@router.delete(
    "/jobs/{job_id}",
    response_model=StatusInfo,
    response_model_exclude_none=True,
    summary="Dismiss a job",
)
def dismiss(
    request: Request,
    job: OwnJob,
    here: Here,
    owner: Owner,
    ended: Annotated[
        Literal["remove", "keep"],
        Query(description="Whether to remove a finished job: 'keep' only stops jobs."),
    ] = "remove",
) -> StatusInfo:
    """Stop an unfinished job, or remove a finished one with its results.

    With `ended=keep`, the results remain if the job ends before the request arrives, or if the
    request is repeated.
    """
    base = base_url(request)
    stopped = here.store.jobs.cancel(job.id, owner=owner)
    if stopped is None and ended == "keep":
        stopped = here.store.jobs.get(job.id, owner=owner)
    if stopped is not None:
        return status_info(stopped, base, interface_of(request))
    refuse_in_use(here, f"job:{job.id}", owner=owner)
    removal = here.store.jobs.remove(job.id, owner=owner)
    if removal is None:
        raise ProblemError("no-such-job", f"There is no job '{job.id}'.")
    if removal.job.lease_owner is None:  # otherwise its worker deletes the files
        here.layout.forget_job(job.id)
    for upload in removal.uploads:
        here.layout.forget_upload(upload.id)
    return status_info(removal.job, base, interface_of(request)).model_copy(
        update={"status": "dismissed", "message": "Removed with its results.", "links": []}
    )


@router.get("/jobs/{job_id}/log", summary="Log of a job", response_class=PlainTextResponse)
def log(job: OwnJob, here: Here) -> StreamingResponse:
    """Return the events of a job as lines of text."""
    return StreamingResponse(_lines(here.store.jobs, job), media_type="text/plain; charset=utf-8")


def _lines(store: JobStore, job: Job) -> Any:
    after = 0
    while page := store.events(job.id, after=after, limit=_PAGE_OF_LOG):
        yield "".join(f"{event_line(event)}\n" for event in page)
        after = page[-1].seq


@router.get("/jobs/{job_id}/plan", summary="Plan of a job")
def plan(job: OwnJob, here: Here) -> Mapping[str, Any]:
    """Return the plan of the engine: mode, target, blocks, passes, memory, order, fetches."""
    return _plan(job, here.store.jobs)


@router.get("/jobs/{job_id}/rates", summary="Rates of the kernels of a job")
def rates(job: OwnJob, here: Here) -> Mapping[str, Any]:
    """Return the bytes, operations, seconds and rates of each worker's kernels.

    For comparison, it has the rates of a copy in memory and of a matrix product, as measured on the
    worker, or null.
    """
    store = here.store.jobs
    planned = max((one.seq for one in store.events(job.id, kind="planned")), default=0)
    worked = [one.data for one in store.events(job.id, kind="worked") if one.seq > planned]
    if not worked and job.state is not State.SUCCEEDED:
        raise ProblemError(
            "result-not-ready",
            f"Job '{job.id}' has no rates: it is {ogc_status(job.state)}.",
            hint="Rates are available after all blocks of a job of the engine are computed.",
        )
    return rates_of(worked, [one.data for one in store.events(job.id, kind="ceilings")])


@router.get(
    "/jobs/{job_id}/plan.svg",
    summary="Drawing of the order of blocks",
    response_class=Response,
    responses={200: {"content": {"image/svg+xml": {}}}},
)
def plan_picture(job: OwnJob, here: Here) -> Response:
    """Return a drawing of the order of blocks and the content of the cache, as SVG."""
    scene = scene_of(_plan(job, here.store.jobs))
    return Response(draw_svg(scene), media_type="image/svg+xml")


@router.get(
    "/jobs/{job_id}/plan.txt",
    summary="Order of blocks as text",
    response_class=PlainTextResponse,
)
def plan_text(job: OwnJob, here: Here) -> PlainTextResponse:
    """Return a drawing of the order of blocks and the content of the cache, as text."""
    return PlainTextResponse(draw_text(scene_of(_plan(job, here.store.jobs))))


def _plan(job: Job, store: JobStore) -> Mapping[str, Any]:
    """Return the plan, with the number of fetches at the end.

    The progress is left out: it is that of the start.
    """
    planned = store.events(job.id, kind="planned")
    if not planned:
        raise ProblemError(
            "result-not-ready",
            f"Job '{job.id}' has no plan: it is {ogc_status(job.state)}.",
            hint="A plan is made when a job of the engine starts.",
        )
    plan = {key: value for key, value in planned[-1].data.items() if key != "progress"}
    for event in store.events(job.id, kind="finished")[-1:]:
        plan["fetches"] = event.data.get("fetches")
    return plan
