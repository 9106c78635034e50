"""Results: the document, and Zarr stores over HTTP that clients open lazily.

Zarr clients silently read a chunk with status 404 as fill values. Status 404 is therefore limited
to missing keys of a published store. A result that is not ready has status 425, and a removed
result, or one of a failed job, 410.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from halocline_service.api.problems import ProblemError, stored_problem
from halocline_service.api.requests.context import Context, Here, Owner, OwnJob, base_url
from halocline_service.api.responses.downloads import FileProcesses
from halocline_service.api.responses.files import FOREVER, serve
from halocline_service.api.responses.listing import listing
from halocline_service.datasets.keys import locate
from halocline_service.exports.formats import FORMATS
from halocline_service.jobs.job import Job
from halocline_service.jobs.states import State, ogc_status
from halocline_service.processes.table import PROCESSES

__all__ = ["router"]

router = APIRouter(tags=["Results"])

_ZARR = "application/vnd+zarr"
#: Preference of the web page for 204 instead of 404, which browsers log on the console.
_ABSENT = "absent=empty"


_Form = Annotated[
    Literal["json", "netcdf", "csv"],
    Query(
        description="The document, with links to datasets; or an output as a file: 'netcdf' for "
        "any dataset, 'csv' for series along one dimension. The first request writes the file."
    ),
]
_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/json": {},
            **{form.media_type: {} for form in FORMATS.values()},
        }
    },
    206: {"description": "The requested range of a file."},
    304: {"description": "Not changed."},
    416: {"description": "The range is not satisfiable."},
}


@router.get("/jobs/{job_id}/results", summary="The results", responses=_FILES)
async def results(
    request: Request,
    job: OwnJob,
    here: Here,
    owner: Owner,
    outputs: Annotated[
        str | None, Query(max_length=1000, description="Names, separated by commas.")
    ] = None,
    f: _Form = "json",
) -> Any:
    """Return the outputs as values and links to datasets, or an output as a file."""
    _published(job)
    if f != "json":
        return await _file(request, here, owner, job, outputs, f)
    document = _document(job, base_url(request))
    if outputs is None:
        return document
    return {name: _output(job, document, name) for name in outputs.split(",") if name}


@router.get("/jobs/{job_id}/results/{output}", summary="One result", responses=_FILES)
async def result(
    request: Request, job: OwnJob, here: Here, owner: Owner, output: str, f: _Form = "json"
) -> Any:
    """Return an output as a value, a link or a file; the address of a store redirects to it."""
    _published(job)
    if f != "json":
        return await _file(request, here, owner, job, output, f)
    document = _document(job, base_url(request))
    match document.get(output.removesuffix(".zarr")):
        case {"href": str(address)} if address.endswith(f"/{output}"):
            return RedirectResponse(f"{address}/")
        case _:
            return _output(job, document, output)


async def _file(
    request: Request, here: Context, owner: str, job: Job, wanted: str | None, form: str
) -> Response:
    """Return an output as a file, which is written if it does not exist."""
    stored = (job.outputs or {}).get("zarr", {})
    name = next(iter(stored), "") if wanted is None else wanted
    root = here.layout.output(job, name)
    if root is None:
        raise ProblemError(
            "no-such-output",
            f"Job '{job.id}' has no output '{name}' that is a dataset."
            if name
            else f"Job '{job.id}' has no dataset as its result.",
            hint=f"It has: {', '.join(stored) or 'values only; leave out f='}.",
        )
    described = FORMATS[form]
    path = here.layout.download(job, name, described.suffix)
    files: FileProcesses = request.app.state.files
    await files.make(owner, root, form, path)
    # Identifiers begin with the time: their ends distinguish jobs.
    called = f"{name}-{job.id[-8:]}{described.suffix}"
    told = {"media_type": described.media_type, "filename": called}
    return await anyio.to_thread.run_sync(lambda: serve(request, path, caching=FOREVER, **told))


def _document(job: Job, base: str) -> dict[str, Any]:
    published = job.outputs or {}
    document = dict(published.get("values", {}))
    described = PROCESSES[job.process].outputs
    for name in published.get("zarr", {}):
        document[name] = {
            "href": f"{base}/jobs/{job.id}/results/{name}.zarr",
            "type": _ZARR,
            "title": described[name].title,
        }
    wanted = job.request.get("outputs")
    return {name: value for name, value in document.items() if wanted is None or name in wanted}


def _output(job: Job, document: dict[str, Any], name: str) -> Any:
    if name not in document:
        raise ProblemError(
            "no-such-output",
            f"Job '{job.id}' has no output '{name}'.",
            hint=f"It has: {', '.join(document) or 'none'}.",
        )
    return document[name]


def _published(job: Job) -> None:
    """Raise a problem if a job has no results, or none yet."""
    match job.state:
        case State.SUCCEEDED:
            return
        case State.FAILED:
            raise stored_problem(job.error or {"code": "internal", "message": job.message})
        case State.CANCELLED:
            raise ProblemError(
                "cancelled", f"Job '{job.id}' was dismissed.", hint="Submit it again."
            )
        case State.QUEUED | State.RUNNING:
            raise ProblemError(
                "result-not-ready",
                f"The result of job '{job.id}' is not ready: it is {ogc_status(job.state)}.",
                hint="Wait until the job has ended.",
                headers={"Retry-After": "1"},
            )


_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}, "application/json": {}, "text/html": {}}},
    206: {"description": "The requested range."},
    204: {"description": "The object does not exist, with 'Prefer: absent=empty'."},
    304: {"description": "Not changed."},
    416: {"description": "The range is not satisfiable."},
}


def _own_result(job_id: str, here: Here, owner: Owner) -> Job:
    job = here.store.jobs.get(job_id, owner=owner)
    if job is None:
        raise ProblemError(
            "gone",
            f"There is no job '{job_id}', and no result of it.",
            hint="GET /jobs lists yours.",
        )
    return job


_OwnResult = Annotated[Job, Depends(_own_result)]


@router.get(
    "/jobs/{job_id}/results/{output}.zarr/{key:path}",
    summary="A key of a result's Zarr store",
    response_class=Response,
    responses=_CONTENT,
)
def chunk(request: Request, job: _OwnResult, output: str, key: str, here: Here) -> Response:
    """Return an object of a result, whole or in ranges."""
    root = here.layout.output(job, output)
    if root is None:
        raise _unpublished(job, output)
    page = listing(root, key, caching=FOREVER)
    if page is not None:
        return page
    path = locate(root, key)
    if path is not None and path.is_file():
        return serve(request, path, caching=FOREVER)
    if _ABSENT in request.headers.get("Prefer", ""):
        return Response(status_code=204, headers={"Preference-Applied": _ABSENT, "Vary": "Prefer"})
    hint = "The address of a group lists its members."
    raise ProblemError("not-found", f"The result has no key '{key}'.", hint=hint)


def _unpublished(job: Job, output: str) -> ProblemError:
    described = PROCESSES[job.process].outputs
    if output not in described or PROCESSES[job.process].inline is not None:
        return ProblemError(
            "no-such-output",
            f"Job '{job.id}' has no Zarr output '{output}'.",
            hint=f"It has: {', '.join(described)}.",
        )
    if job.is_final:
        return ProblemError(
            "gone",
            f"Job '{job.id}' is {ogc_status(job.state)} and has no result.",
            hint=f"GET /jobs/{job.id} has the reason.",
        )
    return ProblemError(
        "not-yet",
        f"The result of job '{job.id}' is not ready yet: it is {ogc_status(job.state)}.",
        hint="Wait until the job has ended.",
        headers={"Retry-After": "1", "Cache-Control": "no-store"},
    )
