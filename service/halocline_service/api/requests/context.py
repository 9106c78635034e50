"""Context of a request: the stores, the settings, and the owner of the key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from halocline_service.api.checking.base import Checks
from halocline_service.api.problems import ProblemError
from halocline_service.auth.keys import verify
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.references import Resolver
from halocline_service.jobs.job import Job, Upload
from halocline_service.processes.base import Process
from halocline_service.processes.table import PROCESSES
from halocline_service.settings import Settings
from halocline_service.store.base import Store

__all__ = [
    "LOCAL_OWNER",
    "AskedProcess",
    "Context",
    "Here",
    "IdempotencyKey",
    "OwnJob",
    "OwnUpload",
    "Owner",
    "base_url",
    "make_context",
]

LOCAL_OWNER = "local"


@dataclass(frozen=True, slots=True)
class Context:
    """Dependencies of the routes, created once for an application."""

    settings: Settings
    store: Store
    layout: Layout
    resolver: Resolver
    processes: dict[str, Process]
    now: Callable[[], float]
    checks: Checks

    def may_see_all(self, owner: str) -> bool:
        """Return whether an owner may see figures of the jobs of all owners."""
        return not self.settings.needs_keys or owner in self.settings.operators


def make_context(
    settings: Settings, store: Store, now: Callable[[], float], checks: Checks
) -> Context:
    """Return the context for settings and stores."""
    layout = Layout(settings.data_dir.resolve())
    resolver = Resolver(store, layout, tuple(settings.data_roots))
    return Context(settings, store, layout, resolver, dict(PROCESSES), now, checks)


async def _context(request: Request) -> Context:  # without a thread
    return cast("Context", request.app.state.context)


Here = Annotated[Context, Depends(_context)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        description="Repeated requests with the same key return the same job or upload.",
    ),
]

_bearer = HTTPBearer(bearerFormat="hc_<id>_<secret>", description="An API key.", auto_error=False)


def _owner(
    here: Here, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> str:
    if not here.settings.needs_keys:
        return LOCAL_OWNER
    owner = None if credentials is None else verify(here.store.keys, credentials.credentials)
    if owner is None:
        raise ProblemError(
            "unauthorized",
            "This request needs a valid API key.",
            hint="Send 'Authorization: Bearer hc_...', as the client does with the key in "
            "HALOCLINE_KEY; an operator makes keys with 'halocline-server key create'.",
            headers={"WWW-Authenticate": 'Bearer realm="halocline"'},
        )
    return owner


Owner = Annotated[str, Depends(_owner)]


def _own_job(job_id: str, here: Here, owner: Owner) -> Job:
    job = here.store.jobs.get(job_id, owner=owner)
    if job is None:
        raise ProblemError(
            "no-such-job", f"There is no job '{job_id}'.", hint="GET /jobs lists yours."
        )
    return job


def _own_upload(upload_id: str, here: Here, owner: Owner) -> Upload:
    upload = here.store.uploads.get(upload_id, owner=owner)
    if upload is None:
        raise ProblemError(
            "not-found", f"There is no upload '{upload_id}'.", hint="GET /uploads lists yours."
        )
    return upload


async def _process(process_id: str, here: Here) -> Process:
    process = here.processes.get(process_id)
    if process is None:
        raise ProblemError(
            "no-such-process",
            f"There is no process '{process_id}'.",
            hint=f"There are: {', '.join(here.processes)}.",
        )
    return process


OwnJob = Annotated[Job, Depends(_own_job)]
OwnUpload = Annotated[Upload, Depends(_own_upload)]
AskedProcess = Annotated[Process, Depends(_process)]


def base_url(request: Request) -> str:
    """Return the URL of the API for the user, without a trailing slash."""
    here = cast("Context", request.app.state.context)
    return (here.settings.public_url or str(request.base_url)).rstrip("/")
