"""Middleware of all requests and responses.

Security headers and figures; hosts that are known; HEAD as GET without a body; a body for 413.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from halocline_service.api.problems import SECURITY, ProblemError, media_type, problem_body
from halocline_service.api.responses.metrics import Metrics

__all__ = [
    "HeadAsGet",
    "KnownHosts",
    "Observed",
    "TooLargeAsProblem",
    "origin",
    "send_problem",
]

#: A name or an address, and a port.
_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})


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
        begun = False

        async def send_observed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(raw=message["headers"])
                for name, value in SECURITY.items():
                    headers.setdefault(name, value)
                message["headers"] = headers.raw
                seconds = time.perf_counter() - start
                self.metrics.count(_method(scope), _route(scope), message["status"], seconds)
            await send(message)

        try:
            await self.app(scope, receive, send_observed)
        except Exception:
            if not begun:  # the framework answers by 500 around all else
                self.metrics.count(_method(scope), _route(scope), 500, time.perf_counter() - start)
            raise


def _method(scope: Scope) -> str:
    """Name a method; those that there are not have one name, or figures would grow without end."""
    return scope["method"] if scope["method"] in _METHODS else "other"


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", None) or "unknown"


class KnownHosts:
    """Answers requests for this service only: by its hosts' names, or the address that was reached.

    Links are made from the Host header where no public URL is set.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], public_url: str | None) -> None:
        self.app = app
        self.names = frozenset(name.lower() for name in names)
        self.public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        host = Headers(scope=scope).get("host", "localhost") if scope["type"] == "http" else ""
        if scope["type"] != "http" or self._is_known(host, scope):
            await self.app(scope, receive, send)
            return
        error = ProblemError(
            "request",
            f"This service is not known as '{host[:200]}'.",
            hint="An operator names its hosts in HALOCLINE_PUBLIC_URL or HALOCLINE_ALLOWED_HOSTS.",
        )
        await send_problem(scope, send, self.public_url or "http://localhost", error)

    def _is_known(self, host: str, scope: Scope) -> bool:
        match = _HOST.fullmatch(host)
        address, _ = scope.get("server") or ("", None)
        known = {*self.names, address, f"[{address}]"}
        return match is not None and match[1].lower() in known


class HeadAsGet:
    """Answers HEAD wherever there is GET: the same headers, and no body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] != b"range"]  # of GET only
        told = False

        async def send_head(message: Message) -> None:
            nonlocal told
            if message["type"] != "http.response.body":
                await send(message)
                return
            if not told:
                told = True
                await send({"type": "http.response.body", "body": b""})
            if message.get("more_body", False):
                raise _Told  # a stream of events would go on for as long as its job

        try:
            await self.app({**scope, "method": "GET", "headers": headers}, receive, send_head)
        except Exception:
            if not told:
                raise


class _Told(Exception):
    """All that a HEAD request asks for was answered."""


class TooLargeAsProblem:
    """Gives the framework's plain 413 the form that every other error has."""

    def __init__(self, app: ASGIApp, public_url: str | None) -> None:
        self.app = app
        self.public_url = public_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        replaced = False

        async def send_instead(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and _is_plain_413(message):
                replaced = True
                await self._send(scope, send)
            elif not replaced:
                await send(message)

        await self.app(scope, receive, send_instead)

    async def _send(self, scope: Scope, send: Send) -> None:
        detail = "The body of the request is larger than is allowed."
        hint = "Upload datasets by POST /uploads, a key at a time."
        error = ProblemError("body-too-large", detail, hint=hint)
        await send_problem(scope, send, self.public_url or origin(scope), error)


async def send_problem(scope: Scope, send: Send, base: str, error: ProblemError) -> None:
    """Answer by a problem from outside of the framework."""
    body = json.dumps(problem_body(base, error)).encode()
    kind = media_type(Headers(scope=scope).get("accept", ""))
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        *(
            (name.lower().encode(), value.encode())
            for name, value in {**SECURITY, **error.headers}.items()
        ),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_plain_413(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 413 and kind.startswith("text/plain")


def origin(scope: Scope) -> str:
    """Give the URL under which a request reached the API, without its path."""
    host = Headers(scope=scope).get("host", "localhost")
    return f"{scope.get('scheme', 'http')}://{host}"
