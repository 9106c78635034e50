"""Checks of requests to execute, without storing a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request

from halocline_engine.errors import HaloclineError
from halocline_service.api.checking.inputs import JsonObject
from halocline_service.api.problems import ProblemError, interface_of, problem_body, problem_of
from halocline_service.api.requests.context import AskedProcess, Context, Here, Owner, base_url
from halocline_service.api.requests.execution import outcome_of, request_of
from halocline_service.api.schemas import Check, Checked
from halocline_service.processes.base import DatasetInputs, Inputs, Process

__all__ = ["router"]

router = APIRouter(tags=["Processes"])


@router.post(
    "/processes/{process_id}/check",
    response_model=Checked,
    response_model_exclude_none=True,
    summary="Check a request without executing it",
)
async def check_request(
    request: Request, process: AskedProcess, body: Check, here: Here, owner: Owner
) -> Checked:
    """Return whether execution would accept the request, and the fields of its program.

    Datasets may be left out, or described by outlines before they are uploaded. The response has
    status 200 and the problem of an invalid request.
    """
    missing = _missing(process.inputs, body.inputs)
    base = base_url(request)
    outcome = await outcome_of(here, process, body, owner, base, without=missing, facts=True)
    problem = await _problem(here, process, body, owner, outcome, missing)
    return Checked(
        process=process.id,
        valid=problem is None,
        missing=[name for name in missing if name not in body.datasets],
        problem=None if problem is None else problem_body(base, problem, interface_of(request)),
        program=outcome.get("program"),
    )


def _missing(inputs: type[Inputs], given: Mapping[str, Any]) -> list[str]:
    if not issubclass(inputs, DatasetInputs):
        return []
    return [name for name in inputs.datasets if name not in given]


async def _problem(
    here: Context,
    process: Process,
    body: Check,
    owner: str,
    outcome: JsonObject,
    missing: Sequence[str],
) -> ProblemError | None:
    """Return the problem that execution would return, if any."""
    try:
        outlines = {
            name: {"outline": body.datasets[name]} for name in {*missing} & {*body.datasets}
        }
        await request_of(here, process, body, owner, outcome, without=missing, outlines=outlines)
    except ProblemError as problem:
        return problem
    except HaloclineError as error:
        return problem_of(error)
    return None
