"""What is done to every response: security headers, figures, and a body for 413."""

from __future__ import annotations

import json
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from halocline_service.api.metrics import Metrics
from halocline_service.api.problems import ProblemError, problem_body

__all__ = ["Observed", "TooLargeAsProblem"]

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Observed:
    """Adds security headers and counts requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                message["headers"] = headers.raw
                seconds = time.perf_counter() - start
                self.metrics.count(scope["method"], _route(scope), message["status"], seconds)
            await send(message)

        await self.app(scope, receive, send_observed)


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", None) or "unknown"


class TooLargeAsProblem:
    """Gives the framework's plain 413 the form that every other error has."""

    def __init__(self, app: ASGIApp, public_url: str | None) -> None:
        self.app = app
        self.public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        replaced = False

        async def send_problem(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and _is_plain_413(message):
                replaced = True
                await self._send(scope, send)
            elif not replaced:
                await send(message)

        await self.app(scope, receive, send_problem)

    async def _send(self, scope: Scope, send: Send) -> None:
        detail = "The body of the request is larger than is allowed."
        hint = "Upload datasets by POST /uploads, a key at a time."
        base = self.public_url or _origin(scope)
        body = json.dumps(
            problem_body(base, ProblemError("body-too-large", detail, hint=hint))
        ).encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            *((name.lower().encode(), value.encode()) for name, value in _HEADERS.items()),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _is_plain_413(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 413 and kind.startswith("text/plain")


def _origin(scope: Scope) -> str:
    host = Headers(scope=scope).get("host", "localhost")
    return f"{scope.get('scheme', 'http')}://{host}"
