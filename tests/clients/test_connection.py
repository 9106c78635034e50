"""Retries, keys, and answers that are no success."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from email.utils import formatdate

import httpx2
import pytest

from halocline.config import Settings
from halocline.connection import Connection
from halocline.errors import (
    ArgumentError,
    AuthenticationError,
    BusyError,
    ConnectionFailed,
    NotFoundError,
    ServiceError,
)

Answer = httpx2.Response | Exception


class Service:
    """Gives prepared answers, one after the other, the last one again; keeps the requests."""

    def __init__(
        self, answers: Sequence[Answer | Callable[[httpx2.Request], httpx2.Response]]
    ) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx2.Response) else answer(request)

    def connection(self, key: str | None = None) -> Connection:
        transport = httpx2.MockTransport(self)
        return Connection(Settings("http://service", key), transport, sleep=self.slept.append)


def good(document: object = None) -> httpx2.Response:
    return httpx2.Response(200, json=document or {"fine": True})


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_service_is_asked_again(status: int) -> None:
    service = Service([httpx2.Response(status), httpx2.Response(status), good()])
    assert service.connection().get("/jobs") == {"fine": True}
    assert len(service.requests) == 3
    assert all(0 < seconds < 1 for seconds in service.slept)


def test_a_lost_connection_is_made_again() -> None:
    service = Service([httpx2.ConnectError("no"), httpx2.ReadError("cut"), good()])
    assert service.connection().get("/jobs") == {"fine": True}


def test_retry_after_is_kept() -> None:
    service = Service([httpx2.Response(429, headers={"Retry-After": "7"}), good()])
    service.connection().get("/jobs")
    assert 7 < service.slept[0] < 8


def test_a_very_long_retry_after_is_cut() -> None:
    service = Service([httpx2.Response(503, headers={"Retry-After": "86400"}), good()])
    service.connection().get("/jobs")
    assert service.slept == [60.0]


def test_a_service_that_stays_busy_is_an_error_in_the_end() -> None:
    service = Service([httpx2.Response(503, json={"detail": "No room.", "code": "queue-full"})])
    with pytest.raises(BusyError, match=r"^No room\.$"):
        service.connection().get("/jobs")
    assert len(service.requests) == 6


def test_nobody_there_is_an_error_with_a_way_out() -> None:
    service = Service([httpx2.ConnectError("refused")])
    with pytest.raises(ConnectionFailed) as caught:
        service.connection().get("/jobs")
    assert str(caught.value) == (
        "No service answers at 'http://service' (ConnectError: refused). Start one with "
        "'halocline-server up', or set its address with 'url' or HALOCLINE_URL."
    )
    assert len(service.requests) == 6


def test_a_service_without_tls_at_an_https_address_is_said() -> None:
    service = Service([httpx2.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number")])
    with pytest.raises(ConnectionFailed) as caught:
        service.connection().get("/jobs")
    assert str(caught.value) == (
        "No encrypted connection to 'http://service' can be made (ConnectError: [SSL: "
        "WRONG_VERSION_NUMBER] wrong version number). The address of a service without TLS begins "
        "with 'http://'. Otherwise this machine must trust the certificate of the service."
    )


@pytest.mark.parametrize("status", [400, 401, 404, 409, 413, 500, 507])
def test_other_answers_are_not_asked_for_again(status: int) -> None:
    service = Service([httpx2.Response(status), good()])
    with pytest.raises(Exception, match=f"The service answered '{status} "):
        service.connection().get("/jobs")
    assert len(service.requests) == 1


def test_a_post_has_one_idempotency_key_however_often_it_is_sent() -> None:
    service = Service([httpx2.ReadError("cut"), httpx2.Response(502), good(), good()])
    connection = service.connection()
    connection.post("/uploads", {})
    connection.post("/uploads", {})
    keys = [request.headers["Idempotency-Key"] for request in service.requests]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert len(keys[0]) == 36


def test_the_key_goes_with_every_request_and_is_not_there_without_one() -> None:
    service = Service([good()])
    service.connection("hc_1").get("/jobs")
    service.connection().get("/jobs")
    assert service.requests[0].headers["Authorization"] == "Bearer hc_1"
    assert "Authorization" not in service.requests[1].headers


def test_a_problem_is_raised_as_its_class() -> None:
    problem = {"code": "unauthorized", "detail": "This request needs a key.", "hint": "Send one."}
    service = Service([httpx2.Response(401, json=problem)])
    with pytest.raises(AuthenticationError, match=r"^This request needs a key\. Send one\.$"):
        service.connection().get("/jobs")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (
            httpx2.Response(404, text="Not here\nmore"),
            "The service answered '404 Not Found': Not here. "
            "Check that a Halocline service is at this address.",
        ),
        (
            httpx2.Response(404, html="<html>"),
            "The service answered '404 Not Found'. Check that a Halocline service is at this "
            "address.",
        ),
        (httpx2.Response(404, json=["x"]), "The service answered with status 404."),
    ],
)
def test_an_answer_that_is_no_problem_is_told(response: httpx2.Response, text: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        Service([response]).connection().get("/jobs")
    assert str(caught.value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_does_not_know_is_refused_before_it_is_sent(value: object) -> None:
    service = Service([good()])
    with pytest.raises(ArgumentError, match=r"^An argument cannot be written as JSON: .*\. Pass "):
        service.connection().post("/processes/stencil/execution", {"inputs": value})
    assert service.requests == []


@pytest.mark.parametrize(
    ("response", "what"),
    [
        (httpx2.Response(200, text="hello"), "is 'text/plain' and not JSON"),
        (httpx2.Response(200, html="<h1>Welcome</h1>"), "is 'text/html' and not JSON"),
        (httpx2.Response(200), "is 'nothing' and not JSON"),
        (httpx2.Response(200, json=[1]), "is no JSON object"),
        (httpx2.Response(200, content=b"null"), "is no JSON object"),
        (httpx2.Response(200, json={"hello": 1}), "has no member 'jobs'"),
        (httpx2.Response(302, headers={"Location": "/login"}), "leads to '/login'"),
    ],
)
def test_a_server_that_is_not_halocline_is_told_so(response: httpx2.Response, what: str) -> None:
    with pytest.raises(ServiceError) as caught:
        Service([response]).connection().get("/jobs", needs=("jobs",))
    assert type(caught.value) is ServiceError
    assert str(caught.value) == (
        f"The answer to 'GET /jobs' of 'http://service' {what}. "
        "Check that a Halocline service is at this address."
    )


@pytest.mark.parametrize("lost", [httpx2.ReadError, httpx2.RemoteProtocolError, httpx2.ReadTimeout])
def test_a_connection_that_is_lost_each_time(lost: type[httpx2.TransportError]) -> None:
    with pytest.raises(ConnectionFailed) as caught:
        Service([lost("cut")]).connection().get("/jobs")
    assert str(caught.value) == (
        "The service at 'http://service' accepted the connection, but did not answer "
        f"({lost.__name__}: cut). Try again. If the error persists, check the address and the "
        "service's log."
    )


def test_a_link_to_where_nobody_is_names_that_address() -> None:
    """As a service gives that does not know under which address it is reached."""

    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with pytest.raises(ConnectionFailed, match=r"^No service answers at 'http://inner:8000' "):
        Service([refuse]).connection().send("PUT", "http://inner:8000/uploads/1.zarr/zarr.json")


def test_a_server_that_hangs_is_not_waited_for_again_and_again() -> None:
    """Six times a minute would be too long."""
    service = Service([httpx2.ReadTimeout("timed out")])
    clock = iter(range(0, 10_000, 60))
    transport = httpx2.MockTransport(service)
    connection = Connection(
        Settings("http://service", None),
        transport,
        sleep=service.slept.append,
        now=lambda: next(clock),
    )
    with pytest.raises(ConnectionFailed):
        connection.get("/jobs")
    assert len(service.requests) == 3


def test_retry_after_may_be_a_date() -> None:
    later = formatdate(time.time() + 20, usegmt=True)
    service = Service(
        [
            httpx2.Response(503, headers={"Retry-After": later}),
            httpx2.Response(503, headers={"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}),
            httpx2.Response(503, headers={"Retry-After": "soon"}),
            good(),
        ]
    )
    service.connection().get("/jobs")
    assert 15 < service.slept[0] < 21
    assert all(seconds < 2 for seconds in service.slept[1:])
