"""The API as one application: the only place that knows all its parts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from anyio import CapacityLimiter
from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from halocline_service.api.checking.base import CheckHere, Checks
from halocline_service.api.problems import Problem, install
from halocline_service.api.requests.context import make_context
from halocline_service.api.requests.middleware import (
    HeadAsGet,
    KnownHosts,
    Observed,
    TooLargeAsProblem,
)
from halocline_service.api.requests.query import refuse_unknown_parameters
from halocline_service.api.requests.room import Room
from halocline_service.api.requests.writers import Writers
from halocline_service.api.responses.downloads import FileProcesses
from halocline_service.api.responses.files import Digests
from halocline_service.api.responses.metrics import Metrics
from halocline_service.api.routes import (
    checks,
    datasets,
    events,
    files,
    health,
    jobs,
    landing,
    objects,
    processes,
    results,
    ui,
    uploads,
)
from halocline_service.api.ui.assets import read_assets
from halocline_service.settings import Settings
from halocline_service.store.base import Store
from halocline_service.store.sql.store import open_store

__all__ = ["Service", "create_app"]

_INLINE_AT_ONCE = 4
_BUSY_SECONDS = 5.0  # users are told to come again, and do not wait for the database
_EXPOSED = ["Link", "Location", "Preference-Applied", "ETag", "Content-Range", "Accept-Ranges"]
_PROBLEM: dict[str, Any] = {
    "description": "A problem.",
    "content": {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        "application/json": {"schema": {"$ref": "#/components/schemas/Problem"}},
    },
}


class Service(FastAPI):
    """FastAPI, whose errors are problems everywhere, in the documents too."""

    public_url: str | None = None

    def build_middleware_stack(self) -> ASGIApp:
        """Wrap even what FastAPI puts around all else."""
        return HeadAsGet(TooLargeAsProblem(super().build_middleware_stack(), self.public_url))

    def openapi(self) -> dict[str, Any]:
        """Make the API's document; bad input is 400 here and never 422."""
        if self.openapi_schema is None:
            document = super().openapi()
            _describe_problems(document)
            self.openapi_schema = document
        return self.openapi_schema


def _describe_problems(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"] |= {"4XX": _PROBLEM, "5XX": _PROBLEM}


def create_app(
    settings: Settings,
    *,
    store: Store | None = None,
    checks: Checks | None = None,
    now: Callable[[], float] = time.time,
) -> Service:
    """Make the application; the database must exist already (see `store.sql.migrate`).

    A store that is given is not closed. `checks` are made in this process where left out.
    """
    used = store or open_store(settings.database, wait=_BUSY_SECONDS)
    checker = checks or CheckHere()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        async with checker:
            yield
        if store is None:
            used.close()

    app = Service(
        title="Halocline",
        version="0.1.0",
        description="Stencils on xarray datasets: OGC API - Processes and more.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would not know how the user reaches the API
        lifespan=lifespan,
        max_body_size=settings.body_bytes,
    )
    context = make_context(settings, used, now, checker)
    context.layout.make()
    app.state.context = context
    app.public_url = app.state.public_url = settings.public_url
    app.state.metrics = Metrics()
    app.state.digests = Digests()
    app.state.files = FileProcesses(settings)
    app.state.assets = read_assets()
    app.state.meter = objects.Meter()
    app.state.room = Room(context.layout.root, settings.disk_headroom_bytes, settings.upload_bytes)
    app.state.streams = Counter[str]()
    app.state.answers = Counter[str]()
    app.state.inline_limiter = CapacityLimiter(_INLINE_AT_ONCE)
    install(app)
    _add_middleware(app, settings)
    _add_routes(app, settings)
    return app


def _add_middleware(app: Service, settings: Settings) -> None:
    # Links are made of the Host header; and without keys, a web page must not reach the API by a
    # name that resolves to this machine.
    names = _own_names(settings)
    app.add_middleware(KnownHosts, names=names, public_url=settings.public_url)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "Prefer",
                "Range",
                "Halocline-Interface",
            ],
            expose_headers=_EXPOSED,
        )
    app.add_middleware(Writers, largest=settings.body_bytes, public_url=settings.public_url)
    app.add_middleware(Observed, metrics=app.state.metrics)


def _own_names(settings: Settings) -> list[str]:
    public = urlsplit(settings.public_url or "").hostname
    names = ["localhost", "127.0.0.1", "[::1]", "testserver", settings.host]
    names += settings.allowed_hosts
    return [*names, public] if public else names


def _add_routes(app: Service, settings: Settings) -> None:
    plain = (landing, processes, checks, jobs, events, results, uploads, datasets, health, ui)
    # Before '/uploads/{upload_id}', which '/uploads/{upload_id}.nc' would match as well.
    app.include_router(files.router, max_body_size=settings.upload_bytes)
    for module in plain:
        known = [] if module is ui else [Depends(refuse_unknown_parameters)]
        app.include_router(module.router, dependencies=known)
    app.include_router(objects.router, max_body_size=settings.upload_key_bytes)
    routers = [*(module.router for module in plain), objects.router, files.router]
    app.state.routes = [route for router in routers for route in router.routes]
