"""HTTP requests to the service: keys, retries, and problems turned into exceptions."""

from __future__ import annotations

import functools
import json
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpx2

from halocline.config import Settings
from halocline.errors import (
    ArgumentError,
    ConnectionFailed,
    HaloclineError,
    ServiceError,
    from_problem,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["Connection"]

_RETRIED = frozenset({429, 502, 503, 504})
_ATTEMPTS = 6
_LONGEST_WAIT = 60.0
_PATIENCE = 120.0  # seconds after which a lost connection is not retried
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)


@functools.cache
def _tls(*, trust_env: bool) -> ssl.SSLContext:
    """Return an SSL context; cached, as reading the system's certificates takes 30 ms."""
    return httpx2.create_ssl_context(trust_env=trust_env)


class Connection:
    """HTTP with retries; an unsuccessful response raises a HaloclineError.

    Requests are repeated after 429, 502, 503, 504 and lost connections, with jitter and not before
    `Retry-After`. All repetitions of a POST carry the same `Idempotency-Key`, so that it has its
    effect once.
    """

    def __init__(
        self,
        settings: Settings,
        transport: httpx2.BaseTransport | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.sleep = sleep
        self._now = now
        self._random = random.Random()
        local = urlsplit(settings.url).hostname in ("127.0.0.1", "localhost", "::1")
        self._http = httpx2.Client(
            base_url=settings.url,
            headers=self.headers,
            transport=transport,
            timeout=_TIMEOUT,
            trust_env=not local,
            verify=_tls(trust_env=not local),
        )

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request to this service."""
        key = self.settings.key
        words = {"Halocline-Interface": "python"}  # errors name arguments as in Python
        return {"Authorization": f"Bearer {key}", **words} if key else words

    def close(self) -> None:
        """Close the connections; later requests raise ArgumentError."""
        self._http.close()

    def get(self, path: str, needs: Sequence[str] = (), **parameters: str | int) -> dict[str, Any]:
        """Return the JSON object at a path; raises ServiceError if a member is missing."""
        return self._document(self.send("GET", path, params=parameters), needs)

    def text(self, path: str) -> str:
        """Return the text at a path."""
        return self.send("GET", path).text

    def post(
        self,
        path: str,
        document: object,
        headers: Mapping[str, str] | None = None,
        needs: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Send a JSON document and return the JSON object of the response."""
        try:
            content = json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"An argument cannot be written as JSON: {error}.",
                hint="Pass finite numbers, strings, lists and dictionaries.",
            ) from error
        key = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        both = {**key, **(headers or {})}
        return self._document(self.send("POST", path, content=content, headers=both), needs)

    def send(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        """Send a request, with retries, and return the successful response."""
        if self._http.is_closed:
            raise ArgumentError(
                "This client is closed.",
                hint="Use it before 'close()' and inside 'with', or create another Client.",
            )
        given_up = self._now() + _PATIENCE
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1
            try:
                response = self._http.request(method, path, **arguments)
            except httpx2.TransportError as error:
                if last or self._now() > given_up:
                    raise self._unreachable(error) from error
                self.sleep(self._delay(attempt))
                continue
            if response.status_code not in _RETRIED or last:
                return self._checked(response)
            self.sleep(self._delay(attempt, response.headers.get("Retry-After")))
        raise AssertionError("unreachable")

    @contextmanager
    def events(
        self, path: str, after: str, read_timeout: float
    ) -> Generator[httpx2.EventSource, None, None]:
        """Open the stream of server-sent events after the event with the id `after`."""
        headers = {"Last-Event-ID": after} if after else {}
        timeout = httpx2.Timeout(60.0, connect=10.0, read=read_timeout)
        with self._http.sse(path, headers=headers, timeout=timeout) as source:
            response = source.response
            if response.is_error:
                response.read()
                self._checked(response)
            yield source

    def _delay(self, attempt: int, retry_after: str | None = None) -> float:
        """Return seconds to wait: `Retry-After`, and exponential backoff with full jitter."""
        jitter = self._random.uniform(0.05, min(8.0, 0.25 * 2.0**attempt))
        return min(_seconds(retry_after) + jitter, _LONGEST_WAIT)

    def _unreachable(self, error: httpx2.TransportError) -> ConnectionFailed:
        reason = f"({type(error).__name__}: {error})"
        url = self.settings.url
        with suppress(RuntimeError):  # the error has no request
            if not str(error.request.url).startswith(f"{url}/"):  # a link of the service
                url = str(error.request.url.copy_with(path="/", query=None)).rstrip("/")
        if not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return ConnectionFailed(
                f"The service at '{url}' accepted the connection, but did not answer {reason}.",
                hint="Try again. If the error persists, check the address and the service's log.",
            )
        if "SSL" in str(error):
            return ConnectionFailed(
                f"No encrypted connection to '{url}' can be made {reason}.",
                hint="The address of a service without TLS begins with 'http://'. Otherwise this "
                "machine must trust the certificate of the service.",
            )
        return ConnectionFailed(
            f"No service answers at '{url}' {reason}.",
            hint="Start one with 'halocline-server up', or set its address with 'url' or "
            "HALOCLINE_URL.",
        )

    def _document(self, response: httpx2.Response, needs: Sequence[str]) -> dict[str, Any]:
        """Return the JSON object of a response; raises ServiceError if it is not Halocline's."""
        try:
            document: object = response.json()
        except ValueError as error:
            kind = response.headers.get("Content-Type", "nothing").partition(";")[0]
            raise self._foreign(response, f"is '{kind}' and not JSON") from error
        if not isinstance(document, dict):
            raise self._foreign(response, "is no JSON object")
        members = cast("dict[str, Any]", document)
        for name in needs:
            if name not in members:
                raise self._foreign(response, f"has no member '{name}'")
        return members

    def _foreign(self, response: httpx2.Response, reason: str) -> ServiceError:
        """Return the error for a response that does not come from Halocline."""
        asked = f"{response.request.method} {response.request.url.path}"
        return ServiceError(
            f"The answer to '{asked}' of '{self.settings.url}' {reason}.",
            hint="Check that a Halocline service is at this address.",
            status=response.status_code,
        )

    def _checked(self, response: httpx2.Response) -> httpx2.Response:
        """Return a successful response; raise the error of any other."""
        if response.is_success:
            return response
        if response.is_redirect:
            place = response.headers.get("Location", "")
            raise self._foreign(response, f"leads to '{place[:200]}'")
        raise _error(response)


def _seconds(retry_after: str | None) -> float:
    """Return the seconds of a `Retry-After` header: a number or a date."""
    if not retry_after:
        return 0.0
    if retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _error(response: httpx2.Response) -> HaloclineError:
    """Return the error of an unsuccessful response."""
    try:
        document = response.json()
    except ValueError:
        document = {"detail": _plain(response)}
        if response.status_code not in _RETRIED:
            document["hint"] = "Check that a Halocline service is at this address."
    problem = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    return from_problem(problem, response.status_code)


def _plain(response: httpx2.Response) -> str:
    """Return a sentence about a response without a problem document."""
    first = response.text.strip().splitlines()[:1]
    excerpt = f": {first[0][:200]}" if first and not first[0].startswith("<") else ""
    return f"The service answered '{response.status_code} {response.reason_phrase}'{excerpt}."
