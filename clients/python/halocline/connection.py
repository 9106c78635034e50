"""One conversation with the service: keys, retries, and problems turned into exceptions."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from halocline.config import Settings
from halocline.errors import (
    ArgumentError,
    ConnectionFailed,
    HaloclineError,
    InternalError,
    from_problem,
)

__all__ = ["Connection"]

_RETRIED = frozenset({429, 502, 503, 504})
_ATTEMPTS = 6
_LONGEST_WAIT = 60.0
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)


class Connection:
    """HTTP with retries; every answer that is not a success raises a HaloclineError.

    Requests are repeated after 429, 502, 503, 504 and lost connections, with jitter and no sooner
    than `Retry-After` says. A POST carries an `Idempotency-Key`, the same one each time it is
    repeated, so that a repeated one does nothing twice.
    """

    def __init__(
        self,
        settings: Settings,
        transport: httpx2.BaseTransport | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self.sleep = sleep
        self._random = random.Random()
        local = urlsplit(settings.url).hostname in ("127.0.0.1", "localhost", "::1")
        self._http = httpx2.Client(
            base_url=settings.url,
            headers=self.headers,
            transport=transport,
            timeout=_TIMEOUT,
            trust_env=not local,
        )

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every request to this service carries."""
        key = self.settings.key
        return {"Authorization": f"Bearer {key}"} if key else {}

    def close(self) -> None:
        """Let go of the connections; the object can no longer be used."""
        self._http.close()

    def get(self, path: str, **parameters: str | int) -> Any:
        """Return the JSON document at a path of the service."""
        return _document(self.send("GET", path, params=parameters))

    def text(self, path: str) -> str:
        """Return the text at a path of the service."""
        return self.send("GET", path).text

    def post(self, path: str, document: object, headers: Mapping[str, str] | None = None) -> Any:
        """Send a JSON document and return the one that answers it."""
        try:
            content = json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"An argument cannot be written as JSON: {error}.",
                hint="Pass finite numbers, strings, lists and dictionaries.",
            ) from error
        key = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        both = {**key, **(headers or {})}
        return _document(self.send("POST", path, content=content, headers=both))

    def send(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        """Send a request, again where that can help, and return a successful response."""
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1
            try:
                response = self._http.request(method, path, **arguments)
            except httpx2.TransportError as error:
                if last:
                    raise self._unreachable(error) from error
                self.sleep(self._delay(attempt))
                continue
            if response.status_code not in _RETRIED or last:
                return _checked(response)
            self.sleep(self._delay(attempt, response.headers.get("Retry-After")))
        raise AssertionError("unreachable")

    @contextmanager
    def events(
        self, path: str, after: str, read_timeout: float
    ) -> Generator[httpx2.EventSource, None, None]:
        """Open a stream of server-sent events that follow the event with the id `after`."""
        headers = {"Last-Event-ID": after} if after else {}
        timeout = httpx2.Timeout(60.0, connect=10.0, read=read_timeout)
        with self._http.sse(path, headers=headers, timeout=timeout) as source:
            response = source.response
            if response.is_error:
                response.read()
                _checked(response)
            yield source

    def _delay(self, attempt: int, told: str | None = None) -> float:
        """Return seconds to wait: exponential with full jitter, but what the service asks for."""
        jitter = self._random.uniform(0.05, min(8.0, 0.25 * 2.0**attempt))
        asked = float(told) if told and told.isdigit() else 0.0
        return min(asked + jitter, _LONGEST_WAIT)

    def _unreachable(self, error: httpx2.TransportError) -> ConnectionFailed:
        return ConnectionFailed(
            f"No service answers at '{self.settings.url}' ({type(error).__name__}: {error}).",
            hint="Start one with 'halocline-server up', or name another with 'url' or "
            "HALOCLINE_URL.",
        )


def _document(response: httpx2.Response) -> Any:
    """Return the JSON of a response."""
    try:
        return response.json()
    except ValueError as error:
        request = response.request
        raise InternalError(
            f"The service's answer to '{request.method} {request.url.path}' is not JSON.",
            hint="Is there a Halocline service at this address?",
        ) from error


def _checked(response: httpx2.Response) -> httpx2.Response:
    """Return a successful response; raise what any other one tells of."""
    if response.is_success:
        return response
    raise _error(response)


def _error(response: httpx2.Response) -> HaloclineError:
    """Make an error of a response that is not a success."""
    try:
        document = response.json()
    except ValueError:
        document = {"detail": _plain(response)}
    problem = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    return from_problem(problem, response.status_code)


def _plain(response: httpx2.Response) -> str:
    """Say what an answer without a problem document holds, in a sentence."""
    first = response.text.strip().splitlines()[:1]
    told = f": {first[0][:200]}" if first and not first[0].startswith("<") else ""
    return f"The service answered '{response.status_code} {response.reason_phrase}'{told}."
