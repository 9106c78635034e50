"""One conversation with the service: keys, retries, and problems turned into exceptions."""

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
_PATIENCE = 120.0  # seconds after which a lost connection is not made again
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)


@functools.cache
def _tls(*, trust_env: bool) -> ssl.SSLContext:
    """Return what checks certificates: reading those of the system takes 30 ms each time."""
    return httpx2.create_ssl_context(trust_env=trust_env)


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
        """The headers that every request to this service carries."""
        key = self.settings.key
        words = {"Halocline-Interface": "python"}  # of errors
        return {"Authorization": f"Bearer {key}", **words} if key else words

    def close(self) -> None:
        """Let go of the connections; the object can no longer be used."""
        self._http.close()

    def get(self, path: str, needs: Sequence[str] = (), **parameters: str | int) -> dict[str, Any]:
        """Return the JSON object at a path; a ServiceError tells of one that lacks a member."""
        return self._document(self.send("GET", path, params=parameters), needs)

    def text(self, path: str) -> str:
        """Return the text at a path of the service."""
        return self.send("GET", path).text

    def post(
        self,
        path: str,
        document: object,
        headers: Mapping[str, str] | None = None,
        needs: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Send a JSON document and return the object that answers it, with the members needed."""
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
        """Send a request, again where that can help, and return a successful response."""
        if self._http.is_closed:
            raise ArgumentError(
                "This client is closed.",
                hint="Use it before 'close()', inside 'with', or create another Client.",
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
        """Open a stream of server-sent events that follow the event with the id `after`."""
        headers = {"Last-Event-ID": after} if after else {}
        timeout = httpx2.Timeout(60.0, connect=10.0, read=read_timeout)
        with self._http.sse(path, headers=headers, timeout=timeout) as source:
            response = source.response
            if response.is_error:
                response.read()
                self._checked(response)
            yield source

    def _delay(self, attempt: int, told: str | None = None) -> float:
        """Return seconds to wait: exponential with full jitter, but what the service asks for."""
        jitter = self._random.uniform(0.05, min(8.0, 0.25 * 2.0**attempt))
        return min(_seconds(told) + jitter, _LONGEST_WAIT)

    def _unreachable(self, error: httpx2.TransportError) -> ConnectionFailed:
        told = f"({type(error).__name__}: {error})"
        url = self.settings.url
        with suppress(RuntimeError):  # an error that knows no request
            if not str(error.request.url).startswith(f"{url}/"):  # where a link of the service led
                url = str(error.request.url.copy_with(path="/", query=None)).rstrip("/")
        if not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return ConnectionFailed(
                f"The service at '{url}' took the request and did not answer it {told}.",
                hint="Try again; if it comes again, look at the service's log, and whether the "
                "address is right.",
            )
        if "SSL" in str(error):
            return ConnectionFailed(
                f"No encrypted connection to '{url}' can be made {told}.",
                hint="A service without TLS has an address that begins with 'http://'; else the "
                "certificate must be one that this machine trusts.",
            )
        return ConnectionFailed(
            f"No service answers at '{url}' {told}.",
            hint="Start one with 'halocline-server up', or name another with 'url' or "
            "HALOCLINE_URL.",
        )

    def _document(self, response: httpx2.Response, needs: Sequence[str]) -> dict[str, Any]:
        """Return the JSON object of a response, if it is one of Halocline's."""
        try:
            document: object = response.json()
        except ValueError as error:
            kind = response.headers.get("Content-Type", "nothing").partition(";")[0]
            raise self._other(response, f"is '{kind}' and not JSON") from error
        if not isinstance(document, dict):
            raise self._other(response, "is no JSON object")
        members = cast("dict[str, Any]", document)
        for name in needs:
            if name not in members:
                raise self._other(response, f"has no member '{name}'")
        return members

    def _other(self, response: httpx2.Response, what: str) -> ServiceError:
        request = response.request
        return ServiceError(
            f"The answer to '{request.method} {request.url.path}' of '{self.settings.url}' {what}.",
            hint="Is there a Halocline service at this address?",
            status=response.status_code,
        )

    def _checked(self, response: httpx2.Response) -> httpx2.Response:
        """Return a successful response; raise what any other one tells of."""
        if response.is_success:
            return response
        if response.is_redirect:
            place = response.headers.get("Location", "")
            raise self._other(response, f"leads to '{place[:200]}'")
        raise _error(response)


def _seconds(told: str | None) -> float:
    """Return the seconds of a `Retry-After` header, which may also be a date."""
    if not told:
        return 0.0
    if told.isdigit():
        return float(told)
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _error(response: httpx2.Response) -> HaloclineError:
    """Make an error of a response that is not a success."""
    try:
        document = response.json()
    except ValueError:
        document = {"detail": _plain(response)}
        if response.status_code not in _RETRIED:
            document["hint"] = "Is there a Halocline service at this address?"
    problem = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    return from_problem(problem, response.status_code)


def _plain(response: httpx2.Response) -> str:
    """Say what an answer without a problem document holds, in a sentence."""
    first = response.text.strip().splitlines()[:1]
    told = f": {first[0][:200]}" if first and not first[0].startswith("<") else ""
    return f"The service answered '{response.status_code} {response.reason_phrase}'{told}."
