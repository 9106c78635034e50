"""Health and metrics of the service."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from halocline_service.api.requests.context import Context, Here, Owner
from halocline_service.api.responses.metrics import CONTENT_TYPE, Metrics
from halocline_service.api.schemas import Presence
from halocline_service.store.base import StoreAway, StoreOutdated

__all__ = ["DISPATCHER_SECONDS", "outcomes", "router"]

router = APIRouter(tags=["Health"])

#: A dispatcher is alive if its last heartbeat is at most so many seconds ago.
DISPATCHER_SECONDS = 30.0


@router.get("/livez", summary="Liveness of this process")
async def livez() -> dict[str, str]:  # without a thread, as all may wait for the database
    """Return the status 'alive'."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    response_model=Presence,
    responses={503: {"model": Presence, "description": "Not ready; see the checks."}},
    summary="Readiness for jobs",
)
def readyz(here: Here) -> Response:
    """Check the database, the data folder, the disk, dispatchers and workers."""
    checks = outcomes(here)
    ready = all(outcome == "ok" for outcome in checks.values())
    body = Presence(status="ready" if ready else "not ready", checks=checks)
    return JSONResponse(body.model_dump(), status_code=200 if ready else 503)


def outcomes(here: Context) -> dict[str, str]:
    """Return the outcome of each check, 'ok' or a reason."""
    return {name: _outcome(check, here) for name, check in _CHECKS.items()}


def _outcome(check: Callable[[Context], str], here: Context) -> str:
    try:
        return check(here)
    except StoreOutdated:
        return "not migrated: run 'halocline-server migrate'"
    except StoreAway:
        return "does not answer"
    except (OSError, SQLAlchemyError) as error:
        return type(error).__name__


def _database(here: Context) -> str:
    here.store.check()
    return "ok"


def _files(here: Context) -> str:
    return "ok" if os.access(here.layout.jobs, os.W_OK | os.X_OK) else "not writable"


def _disk(here: Context) -> str:
    return here.layout.shortage(here.settings.disk_headroom_bytes) or "ok"


def _dispatcher(here: Context) -> str:
    return "ok" if here.store.presence.alive(within=DISPATCHER_SECONDS) else "none was heard of"


def _workers(here: Context) -> str:
    """Return the requirement that dispatchers lack, or 'ok' if one lacks nothing."""
    reports = here.store.presence.alive(within=DISPATCHER_SECONDS)
    return min((str(each.get("lacks", "")) for each in reports), default="not known") or "ok"


_CHECKS: dict[str, Callable[[Context], str]] = {
    "database": _database,
    "files": _files,
    "disk": _disk,
    "dispatcher": _dispatcher,
    "workers": _workers,
}


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
def metrics(request: Request, here: Here, owner: Owner) -> Response:
    """Return metrics of this process and of the queue; users get those of their own jobs."""
    kept = cast("Metrics", request.app.state.metrics)
    if here.may_see_all(owner):
        figures = kept.expose(here.store, here.now())
    else:
        figures = kept.expose_own(here.store, here.now(), owner)
    return Response(figures, media_type=CONTENT_TYPE)
