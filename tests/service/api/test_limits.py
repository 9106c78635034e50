"""Sizes of requests, and what else every response has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

URL = "/processes/echo/execution"


def test_a_body_that_says_it_is_too_large(idle: Running) -> None:
    answer = idle.client.post(URL, json={"inputs": {"string": "x" * 200_001}})
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    problem = answer.json()
    assert (problem["code"], problem["status"]) == ("body-too-large", 413)
    assert problem["detail"] == "The body of the request is larger than is allowed."
    assert problem["type"] == "http://testserver/problems/body-too-large"


def test_a_body_that_turns_out_too_large(idle: Running) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(300):
            yield b"x" * 1000

    answer = idle.client.post(URL, content=pieces(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


def test_errors_are_plain_json_where_only_that_is_accepted(idle: Running) -> None:
    for accept, kind in (
        ("application/json", "application/json"),
        ("application/json, application/problem+json", "application/problem+json"),
        ("*/*", "application/problem+json"),
        ("text/html", "application/problem+json"),
    ):
        answer = idle.client.get("/jobs/nothing", headers={"Accept": accept})
        assert answer.headers["content-type"] == kind


def test_other_methods_and_paths_are_problems(idle: Running) -> None:
    answer = idle.client.put("/jobs")
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    answer = idle.client.get("/nothing/at/all")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_an_unforeseen_error_tells_nothing(idle: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(idle.store.jobs, "list", fail)
    answer = idle.client.get("/jobs")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.json()["detail"] == (
        "The server met an error that it did not expect; its log has the details."
    )


def test_web_pages_of_others_are_not_let_in(idle: Running, client_of: ClientOf) -> None:
    origin = {"Origin": "https://page.example"}
    assert "access-control-allow-origin" not in idle.client.get("/", headers=origin).headers
    settings = idle.settings.model_copy(update={"cors_origins": ["https://page.example"]})
    answer = client_of(settings).get("/", headers=origin)
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
    assert "ETag" in answer.headers["access-control-expose-headers"]
    other = client_of(settings).get("/", headers={"Origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers
