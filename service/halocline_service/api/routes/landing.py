"""The landing page, the conformance declaration, and the documents of the API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from halocline_service.api.problems import STATUS_BY_CODE, TITLES, ProblemError
from halocline_service.api.requests.context import Here, base_url
from halocline_service.api.responses.openapi import OPENAPI_30, OPENAPI_31, downgrade
from halocline_service.api.routes.ui import answer_page
from halocline_service.api.schemas import Conformance, Landing, Link
from halocline_service.api.ui.home import home_main
from halocline_service.api.ui.reference import reference_main
from halocline_service.api.ui.shell import View

__all__ = ["router"]

router = APIRouter(tags=["API"])

_REL = "http://www.opengis.net/def/rel/ogc/1.0"
_CONF = "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf"
_CLASSES = ("core", "ogc-process-description", "json", "oas30", "job-list", "dismiss")
_TITLE = "Halocline"
_ABOUT = "Stencils on xarray datasets, block by block with halos."


@router.get("/", response_model=Landing, summary="The landing page")
async def landing(request: Request) -> Any:
    """Return links to all parts of the API, as a page if the client accepts HTML."""
    page = Landing(title=_TITLE, description=_ABOUT, links=_links(base_url(request)))
    if _wants_html(request.headers.get("accept", "")):
        main = home_main(_TITLE, _ABOUT, base_url(request))
        return answer_page(request, View(_TITLE, "home", "home", depth=-1), main)
    return page


@router.get("/docs", include_in_schema=False)
async def reference(request: Request, here: Here) -> Response:
    """Show the API reference."""
    main = reference_main(request.app.openapi(), tuple(here.processes.values()))
    return answer_page(request, View("API reference", "home", "../docs", depth=-1), main)


@router.get("/openapi.json", include_in_schema=False)
async def openapi_json() -> Response:
    """Redirect to the document from its customary name."""
    return RedirectResponse("api", status_code=308)


def _links(base: str) -> list[Link]:
    return [
        Link(href=f"{base}/", rel="self", type="application/json", title="This page"),
        Link(href=f"{base}/", rel="alternate", type="text/html", title="This page as HTML"),
        Link(href=f"{base}/api/3.0", rel="service-desc", type=OPENAPI_30, title="The API, 3.0"),
        Link(href=f"{base}/api", rel="service-desc", type=OPENAPI_31, title="The API, 3.1"),
        Link(href=f"{base}/docs", rel="service-doc", type="text/html", title="The API reference"),
        Link(href=f"{base}/ui/", rel="related", type="text/html", title="Jobs in the browser"),
        *(
            Link(href=f"{base}/{path}", rel=rel, type="application/json", title=title)
            for path, rel, title in (
                ("conformance", f"{_REL}/conformance", "Conformance"),
                ("conformance", "conformance", "Conformance"),
                ("processes", f"{_REL}/processes", "Processes"),
                ("jobs", f"{_REL}/job-list", "Jobs"),
            )
        ),
    ]


def _wants_html(accept: str) -> bool:
    wanted = [part.partition(";")[0].strip() for part in accept.split(",")]
    return "text/html" in wanted and "application/json" not in wanted


@router.get("/conformance", response_model=Conformance, summary="Conformance of the API")
async def conformance() -> Conformance:
    """List the conformance classes of OGC API - Processes."""
    return Conformance(conformsTo=[f"{_CONF}/{name}" for name in _CLASSES])


@router.get(
    "/api",
    summary="This document",
    response_class=Response,
    responses={200: {"content": {OPENAPI_31: {"schema": {"type": "object"}}}}},
)
async def document(request: Request) -> Response:
    """Return the API's description in OpenAPI 3.1."""
    return JSONResponse(request.app.openapi(), media_type=OPENAPI_31)


@router.get(
    "/api/3.0",
    summary="This document in OpenAPI 3.0",
    response_class=Response,
    responses={200: {"content": {OPENAPI_30: {"schema": {"type": "object"}}}}},
)
async def document_30(request: Request) -> Response:
    """Return the API's description in OpenAPI 3.0, for older tools."""
    return JSONResponse(downgrade(request.app.openapi()), media_type=OPENAPI_30)


@router.get("/problems/{code}", summary="Meaning of a kind of problem")
def problem_kind(code: str) -> dict[str, str | int]:
    """Describe a kind of problem; the `type` of a problem is this address."""
    if code not in STATUS_BY_CODE:
        raise ProblemError("not-found", f"There is no kind of problem '{code}'.")
    return {"code": code, "title": TITLES[code], "status": STATUS_BY_CODE[code]}
