"""Errors as RFC 9457 problems: the one table from codes to HTTP, and how they are written.

`STATUS_BY_CODE` is total over the engine's error classes; a test asserts it, and that the
client's table is its inverse. OGC API - Processes wants 400 and never 422 for bad input, and
plain `application/json` where the request accepts that only.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.status import HTTP_405_METHOD_NOT_ALLOWED as METHOD_NOT_ALLOWED

from halocline_engine.errors import HaloclineError
from halocline_engine.interface.words import Interface, reworded
from halocline_service.api.faults import plain, told
from halocline_service.api.near_routes import SEND, way_out
from halocline_service.datasets.references import FORBIDDEN, MISSING, DatasetRefused
from halocline_service.jobs.errors import error_fields
from halocline_service.processes.describe import resolved_schema
from halocline_service.store.base import StoreAway, StoreOutdated

__all__ = [
    "INTERFACE",
    "OGC_TYPES",
    "SECURITY",
    "STATUS_BY_CODE",
    "TITLES",
    "Problem",
    "ProblemError",
    "inputs_problem",
    "install",
    "interface_of",
    "media_type",
    "problem_body",
    "problem_of",
    "problem_response",
    "stored_problem",
]

_log = structlog.get_logger()
_ROOM = "Remove jobs and uploads that are no longer needed, or ask the operator for more room."
_AWAY_SECONDS = "2"
# What users are told of the database, and the way out.
_AWAY = (
    "The database does not answer.",
    "Send the request again later; what was accepted is not lost.",
)
_OUTDATED = (
    "The database was not migrated to this version of the service.",
    "An operator must run 'halocline-server migrate'; what was accepted is not lost.",
)

#: Header of requests that names the interface that somebody uses.
INTERFACE = "Halocline-Interface"

#: Headers of every response.
SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

STATUS_BY_CODE: Mapping[str, int] = {
    # the engine's tree
    "error": 500,
    "program": 400,
    "program-syntax": 400,
    "program-name": 400,
    "program-type": 400,
    "program-dependence": 400,
    "program-limit": 400,
    "program-source": 400,
    "request": 400,
    "argument": 400,
    "field": 400,
    "axis": 400,
    "boundary": 400,
    "dataset": 400,
    "output": 507,
    "capacity": 413,
    "divergence": 422,
    "cancelled": 410,
    "device": 503,
    "cluster": 503,
    "internal": 500,
    # the service's own
    "unauthorized": 401,
    "forbidden": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "idempotency": 409,
    "upload": 409,
    "in-use": 409,
    "gone": 410,
    "body-too-large": 413,
    "range": 416,
    "not-yet": 425,
    "unavailable": 503,
    "queue-full": 429,
    # OGC API - Processes
    "no-such-process": 404,
    "no-such-job": 404,
    "no-such-output": 400,
    "result-not-ready": 404,
}

OGC_TYPES: Mapping[str, str] = {
    code: f"http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/{code}"
    for code in ("no-such-process", "no-such-job", "result-not-ready", "no-such-output")
}

TITLES: Mapping[str, str] = {
    "error": "The operation failed",
    "program": "The program contains an error",
    "program-syntax": "The program breaks a rule of the language",
    "program-name": "A name in the program is unknown, reserved or used twice",
    "program-type": "Types in the program do not fit together",
    "program-dependence": "The program's order of reads and writes is not defined",
    "program-limit": "The program is too large or too deeply nested",
    "program-source": "There is no program text",
    "request": "The request contains an error",
    "argument": "An input is wrong",
    "field": "A field does not fit the program",
    "axis": "An axis is missing or ambiguous",
    "boundary": "A boundary condition is missing or invalid",
    "dataset": "The dataset cannot be read",
    "output": "The result cannot be written",
    "capacity": "The job is too large for the service",
    "divergence": "Values became infinite or NaN",
    "cancelled": "The job was dismissed",
    "device": "A device or worker failed",
    "cluster": "The workers are not connected",
    "internal": "Halocline failed",
    "unauthorized": "An API key is needed",
    "forbidden": "This is not allowed",
    "not-found": "Not found",
    "method-not-allowed": "This method is not allowed here",
    "idempotency": "The idempotency key was used for another request",
    "upload": "This change to the upload is not allowed",
    "in-use": "The dataset is in use",
    "gone": "The result is gone",
    "body-too-large": "The request is too large",
    "range": "The range is not satisfiable",
    "not-yet": "The result is not ready yet",
    "unavailable": "The service cannot answer now",
    "queue-full": "Too many jobs are waiting",
    "no-such-process": "There is no such process",
    "no-such-job": "There is no such job",
    "no-such-output": "There is no such output",
    "result-not-ready": "The result is not ready",
}


class Problem(BaseModel):
    """An error, as RFC 9457 has it, with what Halocline knows about it."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="A URI that names the kind of problem.")
    title: str
    status: int
    detail: str = ""
    code: str = Field(description="Halocline's stable name for the kind of problem.")
    hint: str = Field(default="", description="The way out.")
    line: int | None = Field(default=None, description="Line of the program, from 1.")
    column: int | None = Field(default=None, description="Column of the program, from 1.")
    excerpt: str | None = Field(default=None, description="The line with a caret under the place.")
    rule: str | None = Field(default=None, description="The rule of the language.")
    others: list[dict[str, Any]] | None = Field(
        default=None, description="Further errors of the same program: code, message, place."
    )
    needed: int | None = Field(default=None, description="Bytes.")
    available: int | None = Field(default=None, description="Bytes.")


# Clients and proxies send a request again that is answered so.
_WAITED_FOR = frozenset({408, 425, 429, 502, 503, 504})


class ProblemError(Exception):
    """A request that is answered by a problem."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        hint: str = "",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.status = STATUS_BY_CODE.get(code, 500) if status is None else status
        self.headers = dict(headers or {})
        self.fields = dict(fields or {})


def stored_problem(error: Mapping[str, Any]) -> ProblemError:
    """Make the problem of an error that a job keeps: a final answer, which no wait changes."""
    rest = {name: value for name, value in error.items() if name not in ("code", "message", "hint")}
    code = str(error.get("code", "internal"))
    return ProblemError(
        code,
        str(error.get("message", "")),
        hint=str(error.get("hint", "")),
        status=500 if STATUS_BY_CODE.get(code) in _WAITED_FOR else None,
        fields=rest,
    )


_PLACES = {"query": "Parameter", "header": "Header", "path": "Part of the path", "body": "Member"}


def inputs_problem(
    errors: Sequence[Any],
    given: object,
    *,
    what: str,
    model: type[BaseModel] | None = None,
    below: Collection[str] = (),
) -> ProblemError:
    """Make the problem of what its model refuses; the first input that is wrong is its detail.

    Names in `below` belong below 'inputs'.
    """
    schema = resolved_schema(model) if model is not None else {}
    found = told(errors, given, what=what, schema=schema, below=below)
    listed = [
        {"location": [plain(str(part)) for part in one.place], "message": one.message}
        for one in found
    ]
    first = found[0]
    return ProblemError("argument", first.message, hint=first.hint, fields={"errors": listed})


def _request_problem(request: Request, error: RequestValidationError) -> ProblemError:
    """Make the problem of a request whose first faulty place is its body, or beside that."""
    errors = error.errors()
    where = str(errors[0]["loc"][0])
    here = [{**one, "loc": one["loc"][1:]} for one in errors if one["loc"][0] == where]
    if where != "body":
        given = {one["loc"][0]: one["input"] for one in here if one["type"] != "missing"}
        return inputs_problem(here, given, what=_PLACES.get(where, "Part"))
    if here[0]["type"] == "json_invalid":
        return _json_problem(str(error.body), here[0]["loc"][0], here[0]["ctx"]["error"])
    if not here[0]["loc"] and here[0]["type"] == "missing":
        hint = "Send it as JSON, with 'Content-Type: application/json'."
        return ProblemError("argument", "The body of the request is missing.", hint=hint)
    if isinstance(error.body, bytes):
        kind = request.headers.get("content-type", "nothing")
        detail = f"The body of the request must be JSON, and its Content-Type say so, got '{kind}'."
        to_uploads = request.url.path.rstrip("/").endswith("/uploads")
        hint = SEND if to_uploads else "Send 'Content-Type: application/json'."
        return ProblemError("argument", detail, hint=hint)
    field = getattr(request.scope.get("route"), "body_field", None)
    model = getattr(getattr(field, "field_info", None), "annotation", None)
    known = model if isinstance(model, type) and issubclass(model, BaseModel) else None
    below = _inputs_of(request) if "inputs" in getattr(known, "model_fields", ()) else ()
    return inputs_problem(here, error.body, what=_PLACES[where], model=known, below=below)


def _inputs_of(request: Request) -> Collection[str]:
    """Return the names of the inputs of the process that a path names."""
    processes: Mapping[str, Any] = request.app.state.context.processes
    process = processes.get(request.path_params.get("process_id", ""))
    return () if process is None else process.inputs.model_fields


def _json_problem(text: str, at: int, reason: str) -> ProblemError:
    """Make the problem of a body that is no JSON from a character on."""
    before, rest = text[:at], text[at:].lstrip()
    line, column = before.count("\n") + 1, at - before.rfind("\n")
    detail = f"The body of the request must be JSON, got {reason[:1].lower()}{reason[1:]}"
    # Python tells of a comma at its own place, or behind it.
    comma = before.rstrip() if before.rstrip().endswith(",") else ""
    after = rest.removeprefix(",").lstrip()[:1]
    match after:
        case "}" | "]" if comma or rest.startswith(","):
            hint = f"Leave out the comma in front of '{after}'."
        case "'":
            hint = 'Write names and text in double quotes: "name".'
        case "":
            hint = "Something is not closed: a bracket, a brace or a quote."
        case _:
            hint = f"Look at: {plain(text[max(0, at - 20) : at + 20])}"
    return ProblemError("argument", f"{detail} at line {line}, column {column}.", hint=hint)


def problem_response(request: Request, error: ProblemError) -> Response:
    """Write a problem in the media type that the request accepts."""
    base = getattr(request.app.state, "public_url", None) or str(request.base_url)
    body = problem_body(base, error, interface_of(request))
    return JSONResponse(
        body,
        status_code=error.status,
        headers=error.headers,
        media_type=media_type(request.headers.get("accept", "")),
    )


def interface_of(request: Request) -> Interface:
    """Return the interface of a request, whose words its errors are in: by default JSON."""
    named = request.headers.get(INTERFACE, "")
    return Interface(named) if named in tuple(Interface) else Interface.JSON


def problem_body(
    base: str, error: ProblemError, interface: Interface = Interface.JSON
) -> dict[str, Any]:
    """Give the members of a problem document, in the words of an interface."""
    known = OGC_TYPES.get(error.code, f"{base.rstrip('/')}/problems/{error.code}")
    body: dict[str, Any] = {
        "type": known,
        "title": TITLES.get(error.code, error.code),
        "status": error.status,
        "detail": error.detail,
        "code": error.code,
        "hint": error.hint,
    }
    return reworded(interface, body | error.fields)


def media_type(accept: str) -> str:
    """Give the media type of a problem that a request with this `Accept` header is sent."""
    wanted = [part.partition(";")[0].strip() for part in accept.split(",")]
    plain = "application/json" in wanted and "application/problem+json" not in wanted
    return "application/json" if plain else "application/problem+json"


def install(app: FastAPI) -> None:
    """Make every error of an application a problem."""

    def of_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return problem_response(request, error)

    def of_engine(request: Request, error: Exception) -> Response:
        assert isinstance(error, HaloclineError)
        return problem_response(request, problem_of(error))

    def of_body(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_response(request, _request_problem(request, error))

    def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = _http_problem(request, error)
        if problem.status == METHOD_NOT_ALLOWED:
            problem.headers["Allow"] = ", ".join(_allowed(request))
        return problem_response(request, problem)

    def of_store(request: Request, error: Exception) -> Response:
        _log.warning("database not reached", error=str(error))
        detail, hint = _OUTDATED if isinstance(error, StoreOutdated) else _AWAY
        headers = {"Retry-After": _AWAY_SECONDS}
        problem = ProblemError("unavailable", detail, hint=hint, headers=headers)
        return problem_response(request, problem)

    def of_disconnect(request: Request, _error: Exception) -> Response:
        detail = "The connection was closed before the end of the body."
        return problem_response(request, ProblemError("request", detail))  # for the figures only

    def of_system(request: Request, error: Exception) -> Response:
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise error
        detail = "The request cannot be answered: the disk is full."
        return problem_response(request, ProblemError("output", detail, hint=_ROOM))

    def of_fault(request: Request, _error: Exception) -> Response:
        detail = "The server met an error that it did not expect; its log has the details."
        # It is written around all that adds headers to other responses.
        return problem_response(request, ProblemError("internal", detail, headers=SECURITY))

    app.add_exception_handler(ProblemError, of_problem)
    app.add_exception_handler(HaloclineError, of_engine)
    app.add_exception_handler(RequestValidationError, of_body)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(StoreAway, of_store)
    app.add_exception_handler(ClientDisconnect, of_disconnect)
    app.add_exception_handler(OSError, of_system)
    app.add_exception_handler(Exception, of_fault)


def problem_of(error: HaloclineError) -> ProblemError:
    """Make the problem of an error of the engine."""
    fields = error_fields(error)
    problem = stored_problem(fields)
    if isinstance(error, DatasetRefused):
        problem.status = {FORBIDDEN: 403, MISSING: 404}.get(error.reason, problem.status)
        problem.fields |= {"missing": error.missing} if error.missing else {}
    return problem


def _allowed(request: Request) -> list[str]:
    """Name the methods of a path; each of its routes knows its own only."""
    methods: set[str] = set()
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


#: Statuses of requests for which there is no route.
_OF_PATHS = (404, 405)
_CODES_OF_STATUS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "body-too-large",
}


def _http_problem(request: Request, error: HTTPException) -> ProblemError:
    code = _CODES_OF_STATUS.get(error.status_code, "request")
    detail, hint = f"{error.detail}.".replace("..", "."), ""
    if error.status_code in _OF_PATHS:
        detail = f"{request.method} '{plain(request.url.path)}': {detail}"
        allowed = _allowed(request) if error.status_code == METHOD_NOT_ALLOWED else ()
        hint = way_out(request.method, request.url.path, allowed, request.app.state.routes)
    return ProblemError(code, detail, hint=hint, status=error.status_code, headers=error.headers)
