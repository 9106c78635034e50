"""The web page at `/ui/`: every page as HTML of its own, and the files that it loads.

Where keys are needed, whoever sends none gets a page without content: a browser sends no header
when somebody follows a link, so the script of the page asks again with the key.
"""

from __future__ import annotations

import shutil
from typing import Annotated, TypeVar, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from halocline_engine.interface.words import Interface
from halocline_service.api.problems import SECURITY, ProblemError
from halocline_service.api.requests.context import LOCAL_OWNER, Here
from halocline_service.api.requests.paging import Before
from halocline_service.api.responses.status import status_info
from halocline_service.api.routes.datasets import datasets
from halocline_service.api.routes.health import DISPATCHER_SECONDS, outcomes
from halocline_service.api.routes.uploads import uploads
from halocline_service.api.ui.assets import Asset, Assets
from halocline_service.api.ui.cluster import Cluster, cluster_main
from halocline_service.api.ui.datasets import datasets_main
from halocline_service.api.ui.html import Html
from halocline_service.api.ui.job import job_main, missing_main
from halocline_service.api.ui.jobs import Asked, find, jobs_main
from halocline_service.api.ui.new import Reference, new_main
from halocline_service.api.ui.shell import View, locked, page
from halocline_service.auth.keys import verify
from halocline_service.jobs.states import State, ogc_status
from halocline_service.store.base import JobQuery, Page

__all__ = ["POLICY", "answer_page", "router"]

router = APIRouter(prefix="/ui", include_in_schema=False)

#: What a page may load: what this service answers, and pictures that it made itself.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    **SECURITY,
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Vary": "Authorization",
}
_FOREVER = "public, max-age=31536000, immutable"
_OFFERED = 500  # names of datasets on a page
_RESULTS = 50  # of jobs that are offered as datasets

_bearer = HTTPBearer(auto_error=False)
_T = TypeVar("_T")


def _visitor(
    here: Here, sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> str | None:
    """Return the owner of the key, or None without a valid key."""
    if not here.settings.needs_keys:
        return LOCAL_OWNER
    return None if sent is None else verify(here.store.keys, sent.credentials)


_Visitor = Annotated[str | None, Depends(_visitor)]
_Text = Annotated[str, Query(max_length=200)]


def answer_page(request: Request, view: View, main: Html, status: int = 200) -> HTMLResponse:
    """Return the response with a page."""
    assets = cast("Assets", request.app.state.assets)
    return HTMLResponse(page(view, assets.version, main), status_code=status, headers=_HEADERS)


def _refused(request: Request, view: View) -> HTMLResponse:
    """Return the form for a key, with status 200, as browsers display it."""
    wrong = "authorization" in request.headers
    return answer_page(request, view, locked(view.title, wrong=wrong))


@router.get("")
async def without_slash() -> Response:
    """Redirect to the page, as its links are relative."""
    return RedirectResponse("ui/", status_code=308)


@router.get("/")
def jobs_page(
    request: Request,
    here: Here,
    visitor: _Visitor,
    status: _Text = "",
    process: _Text = "",
    q: _Text = "",
    before: Before = None,
) -> Response:
    """Show jobs, newest first."""
    view = View("Jobs", "jobs", "")
    if visitor is None:
        return _refused(request, view)
    asked = Asked(status, process, q.strip(), before)
    shown = find(here.store.jobs, visitor, asked, lambda job: status_info(job, "", Interface.PAGE))
    counts = {ogc_status(state): n for state, n in here.store.jobs.counts(owner=visitor).items()}
    return answer_page(request, view, jobs_main(shown, asked, tuple(here.processes), counts))


@router.get("/jobs/{job_id}")
def job_page(request: Request, here: Here, visitor: _Visitor, job_id: str) -> Response:
    """Show a job."""
    view = View(f"Job {job_id[-8:]}", "job", "job", depth=1)
    if visitor is None:
        return _refused(request, view)
    job = here.store.jobs.get(job_id, owner=visitor)
    if job is None:
        return answer_page(request, view, missing_main(job_id), 404)
    return answer_page(request, view, job_main(status_info(job, "", Interface.PAGE)))


@router.get("/new")
def new_page(request: Request, here: Here, visitor: _Visitor) -> Response:
    """Show the form for a new job."""
    view = View("New job", "new", "new")
    if visitor is None:
        return _refused(request, view)
    named = datasets(request, here, visitor, limit=_OFFERED).datasets
    sent = uploads(request, here, visitor, limit=_OFFERED).uploads
    ended = JobQuery(owner=visitor, states=(State.SUCCEEDED,), page=Page(limit=_RESULTS))
    references = [
        *(Reference(name, name) for name in named),
        *(
            Reference(each.reference, f"upload of {each.created[:16].replace('T', ' ')}")
            for each in sent
            if each.status == "complete"
        ),
        *(
            Reference(f"job:{job.id}", f"result of {job.name or f'{job.process} {job.id[-8:]}'}")
            for job in here.store.jobs.list(ended)
            if here.processes[job.process].writes
        ),
    ]
    return answer_page(request, view, new_main(references, tuple(here.processes.values())))


@router.get("/datasets")
def datasets_page(
    request: Request, here: Here, visitor: _Visitor, before: Before = None
) -> Response:
    """Show the datasets of the service and the uploads of the user."""
    view = View("Datasets", "datasets", "datasets")
    if visitor is None:
        return _refused(request, view)
    named = datasets(request, here, visitor, limit=_OFFERED)
    sent = uploads(request, here, visitor, limit=25, before=before)
    return answer_page(request, view, datasets_main(named, sent, before=before))


@router.get("/cluster")
def cluster_page(request: Request, here: Here, visitor: _Visitor) -> Response:
    """Show the state of the service."""
    view = View("Cluster", "cluster", "cluster")
    if visitor is None:
        return _refused(request, view)
    whose = None if here.may_see_all(visitor) else visitor
    oldest = here.store.jobs.oldest_queued(owner=whose)
    states = here.store.jobs.counts(owner=whose)
    page = Page(limit=max(here.settings.queue_per_owner, here.settings.uploads_per_owner))
    unfinished = JobQuery(owner=visitor, states=(State.QUEUED, State.RUNNING), page=page)
    cluster = Cluster(
        checks=outcomes(here),
        counts={ogc_status(state): number for state, number in states.items()},
        of_all=whose is None,
        oldest=None if oldest is None else max(0.0, here.now() - oldest),
        dispatchers=here.store.presence.alive(within=DISPATCHER_SECONDS),
        free=shutil.disk_usage(here.layout.root).free,
        unfinished=len(here.store.jobs.list(unfinished)),
        uploads=len(here.store.uploads.list(visitor, page)),
        settings=here.settings,
    )
    return answer_page(request, view, cluster_main(cluster))


@router.get("/assets/{version}/{path:path}")
async def asset(request: Request, version: str, path: str) -> Response:
    """Return a file of the page; addresses of other versions of the service do not exist."""
    assets = cast("Assets", request.app.state.assets)
    file = assets.by_path.get(path) if version == assets.version else None
    if file is None:
        raise ProblemError("not-found", "The page has no such file: load it again.")
    # A worker has the policy of its own script.
    headers = {"ETag": file.tag, "Cache-Control": _FOREVER, "Content-Security-Policy": POLICY}
    if _is_known(request, file):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _is_known(request: Request, file: Asset) -> bool:
    given = request.headers.get("if-none-match", "").split(",")
    tags = {tag.strip().removeprefix("W/") for tag in given}
    return bool(tags & {file.tag, "*"})
