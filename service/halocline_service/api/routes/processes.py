"""Processes, and their execution."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import (
    AskedProcess,
    Here,
    IdempotencyKey,
    Owner,
    base_url,
)
from halocline_service.api.requests.execution import ExecutionRequest, check, preference, submit
from halocline_service.api.requests.paging import Limit, Offset, counted
from halocline_service.api.requests.shares import one_of
from halocline_service.api.requests.writers import END_TURN
from halocline_service.api.responses.status import status_info
from halocline_service.api.schemas import (
    Execute,
    Link,
    ProcessDescription,
    ProcessList,
    ProcessSummary,
    StatusInfo,
)
from halocline_service.jobs.states import State
from halocline_service.processes.base import Inputs, Process
from halocline_service.processes.describe import input_descriptions, output_descriptions

__all__ = ["router"]

router = APIRouter(tags=["Processes"])

_MOST_ANSWERS = 20  # of one owner, at one API process
_EXECUTE = "http://www.opengis.net/def/rel/ogc/1.0/execute"


@router.get(
    "/processes",
    response_model=ProcessList,
    response_model_exclude_none=True,
    summary="The processes",
)
async def processes(
    request: Request, here: Here, limit: Limit = 100, offset: Offset = 0
) -> ProcessList:
    """List what can be executed."""
    base = base_url(request)
    shown, beside = counted(request, list(here.processes.values()), limit, offset)
    return ProcessList(processes=[_summary(process, base) for process in shown], links=beside)


def _summary(process: Process, base: str) -> ProcessSummary:
    url = f"{base}/processes/{process.id}"
    return ProcessSummary(
        id=process.id,
        version=process.version,
        title=process.title,
        description=process.description,
        keywords=list(process.keywords),
        jobControlOptions=list(process.control),
        outputTransmission=["value"] if process.inline else ["reference"],
        links=[
            Link(href=url, rel="self", type="application/json", title="Description"),
            Link(href=f"{url}/execution", rel=_EXECUTE, type="application/json", title="Execute"),
        ],
    )


@router.get(
    "/processes/{process_id}",
    response_model=ProcessDescription,
    response_model_exclude_none=True,
    summary="One process, its inputs and outputs",
)
async def process(request: Request, process: AskedProcess) -> ProcessDescription:
    """Describe a process."""
    return ProcessDescription(
        **_summary(process, base_url(request)).model_dump(),
        inputs=input_descriptions(process),
        outputs=output_descriptions(process),
    )


@router.post(
    "/processes/{process_id}/execution",
    status_code=201,
    response_model=StatusInfo,
    response_model_exclude_none=True,
    responses={
        200: {
            "description": "The outputs, where the process answers at once.",
            "content": {"application/json": {"schema": {}}, "text/plain": {}},
        },
        204: {"description": "Executed; no outputs were asked for."},
    },
    summary="Execute a process",
)
async def execute(
    request: Request,
    process: AskedProcess,
    body: Execute,
    here: Here,
    owner: Owner,
    prefer: Annotated[str | None, Header()] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Check the request and make a job of it, or answer at once where the process may."""
    base = base_url(request)
    _check_process(process, body)
    asked = await check(here, process, body, owner, base)
    wishes = preference(prefer)
    if process.may_run_now and not (wishes.run_async or body.mode == "async"):
        await getattr(request.state, END_TURN)()  # it may take long, and stores nothing
        return await _run_now(request, asked, owner)
    job = await anyio.to_thread.run_sync(submit, here, asked, owner, idempotency_key)
    headers = {"Location": f"{base}/jobs/{job.id}"}
    if wishes.run_async:
        headers["Preference-Applied"] = "respond-async"
    content = status_info(job, base).model_dump(mode="json", exclude_none=True)
    waits = here.layout.waits_for_room(here.settings.disk_headroom_bytes)
    if waits and process.writes and job.state is State.QUEUED:
        content["message"] = waits
    return JSONResponse(content, status_code=201, headers=headers)


def _check_process(process: Process, body: Execute) -> None:
    """Raise a problem where the body names another process than the path does."""
    named = {"id": body.id, "process": body.process and body.process.rstrip("/").split("/")[-1]}
    for member, given in named.items():
        if given not in (None, process.id):
            raise ProblemError(
                "argument",
                f"Member '{member}' must name the process '{process.id}', got '{given[:200]}'.",
                hint="Leave it out: the path names the process.",
            )


async def _run_now(request: Request, asked: ExecutionRequest, owner: str) -> Response:
    """Answer at once; who is to wait before that holds no slot of those who compute."""
    assert asked.process.inline is not None
    inputs = asked.process.inputs.model_validate(asked.inputs)
    answers: Counter[str] = request.app.state.answers
    limiter: CapacityLimiter = request.app.state.inline_limiter
    hint = "Wait for one, or ask with the header 'Prefer: respond-async'."
    with one_of(answers, owner, _MOST_ANSWERS, what="requests answered at once", hint=hint):
        await anyio.sleep(asked.process.inline.pause(inputs))
        return await anyio.to_thread.run_sync(_outputs, asked, inputs, limiter=limiter)


def _outputs(asked: ExecutionRequest, inputs: Inputs) -> Response:
    assert asked.process.inline is not None
    values = asked.process.inline.run(inputs)
    values = {name: value for name, value in values.items() if name in asked.outputs}
    if not asked.outputs:
        return Response(status_code=204)
    if not asked.raw:
        return JSONResponse(values)
    if len(values) != 1:
        raise ProblemError(
            "argument",
            f"A raw response must have one output, got {len(values)}.",
            hint="Name one of 'outputs', or ask for the response 'document'.",
        )
    (value,) = values.values()
    return _raw(value)


def _raw(value: Any) -> Response:
    return PlainTextResponse(value) if isinstance(value, str) else JSONResponse(value)
