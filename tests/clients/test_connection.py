"""Retries, keys, and answers that are no success."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httpx2
import pytest

from halocline.config import Settings
from halocline.connection import Connection
from halocline.errors import (
    ArgumentError,
    AuthenticationError,
    BusyError,
    ConnectionFailed,
    InternalError,
    NotFoundError,
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
        "'halocline-server up', or name another with 'url' or HALOCLINE_URL."
    )
    assert len(service.requests) == 6


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
            "The service answered '404 Not Found': Not here.",
        ),
        (httpx2.Response(404, html="<html>"), "The service answered '404 Not Found'."),
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


def test_a_success_that_is_no_json_is_a_fault() -> None:
    with pytest.raises(InternalError, match=r"^The service's answer to 'GET /jobs' is not JSON\."):
        Service([httpx2.Response(200, text="hello")]).connection().get("/jobs")
