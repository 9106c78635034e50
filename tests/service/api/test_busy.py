"""A database that is locked, and requests without number: others are answered meanwhile."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from deadlines import until
from fastapi.testclient import TestClient
from tests.service.conftest import HELD

from halocline_service import app as application
from halocline_service.api.requests import writers
from halocline_service.app import create_app
from halocline_service.auth.keys import create
from halocline_service.settings import Settings
from halocline_service.store.base import Store

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Pauses, Running

ECHO = "/processes/echo/execution"


@contextmanager
def locked(settings: Settings) -> Generator[None]:
    path = settings.database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_requests_do_not_wait_for_a_locked_database(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dispatcher that began to wait before them waits still when they are answered."""
    monkeypatch.setattr(application, "_BUSY_SECONDS", 0.2)
    began = threading.Event()

    def beat() -> None:
        began.set()
        store.presence.beat("w", {})

    with ThreadPoolExecutor(1) as pool, TestClient(create_app(settings)) as client:
        with locked(settings):
            waiting = pool.submit(beat)
            assert began.wait(20)
            for _ in range(2):
                answer = client.post("/uploads")
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert client.get("/jobs").status_code == 200
            assert not waiting.done()
        waiting.result()


def test_who_writes_leaves_threads_to_others(
    service: Running, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 that write while the database is locked, no one keeps those who read from theirs."""
    monkeypatch.setattr("halocline_service.api.requests.writers._SECONDS", 20.0)
    asked, at_work = list[str](), list[str]()
    module: Any = writers
    take, add = module._WriteLocks.take, service.store.uploads.add

    def taken(locks: Any, asker: str) -> Any:
        asked.append(asker)
        return take(locks, asker)

    def added(*given: Any, **named: Any) -> Any:
        at_work.append("")
        return add(*given, **named)

    monkeypatch.setattr(module._WriteLocks, "take", taken)
    monkeypatch.setattr(service.store.uploads, "add", added)
    with (
        httpx2.Client(timeout=60, limits=httpx2.Limits()) as http,
        ThreadPoolExecutor(60) as pool,
        locked(service.settings),
    ):
        writing = [pool.submit(http.post, f"{live}/uploads") for _ in range(60)]
        until(lambda: (len(asked), len(at_work)) == (60, 4))
        assert http.get(f"{live}/livez").status_code == 200
        assert http.get(f"{live}/jobs").status_code == 200
        refused = [answer for answer in writing if answer.done()]
        assert not refused
    statuses = {answer.result().status_code for answer in writing}
    assert statuses <= {201, 429, 503}
    told = [each.result().json() for each in writing if each.result().status_code == 503]
    assert {each["detail"] for each in told} <= {
        "Too many requests are being worked on.",
        "The database does not answer.",
    }


def test_an_answer_that_takes_long_holds_no_turn(
    service: Running, live: str, pauses: Pauses
) -> None:
    with httpx2.Client(timeout=60) as http, ThreadPoolExecutor(4) as pool:
        slow = {"inputs": {"pause": 4}}
        waiting = [pool.submit(http.post, f"{live}{ECHO}", json=slow) for _ in range(4)]
        until(lambda: pauses.asked == [4.0] * 4)
        assert http.post(f"{live}/uploads").status_code == 201
        assert not any(each.done() for each in waiting)
        pauses.end()
        assert {each.result().status_code for each in waiting} == {200}


WIDE: list[tuple[str, Any]] = [
    ("inputs", {"boundary": {str(number): [0] for number in range(15_000)}}),
    ("inputs", dict.fromkeys(map(str, range(15_000)), 0)),
    ("inputs", {"array": [[]] * 30_000}),
    ("outputs", dict.fromkeys(map(str, range(15_000)), 0)),
    ("outputs", {str(number): {"a": 0} for number in range(10_000)}),
]


@pytest.mark.parametrize(("name", "value"), WIDE)
def test_faults_without_number_are_one(idle: Running, name: str, value: Any) -> None:
    body = json.dumps({"inputs": {}} | {name: value})
    answer = idle.client.post(ECHO, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "The body of the request is wrong: it has more than 5000 values. "
        "Put large data into the dataset."
    )


def test_an_owner_has_some_streams_of_events_at_a_time(service: Running, live: str) -> None:
    job = service.submit(scalars=HELD)
    with httpx2.Client(timeout=30) as http, ExitStack() as opened:
        for _ in range(20):
            answer = opened.enter_context(http.stream("GET", f"{live}/jobs/{job}/events"))
            assert answer.status_code == 200
        refused = http.get(f"{live}/jobs/{job}/events")
        assert (refused.status_code, refused.json()["detail"]) == (
            429,
            "You have 20 streams of events open, and no more are allowed.",
        )
        assert refused.json()["hint"] == "Close one, or poll GET /jobs/{id}."
    with httpx2.Client(timeout=30) as http:

        def is_open() -> bool:
            with http.stream("GET", f"{live}/jobs/{job}/events") as answer:
                return answer.status_code == 200

        until(is_open)  # streams that were closed do not count
    service.client.delete(f"/jobs/{job}")


def test_who_pauses_keeps_nobody_from_an_answer(live: str, pauses: Pauses) -> None:
    """There are four slots for what is computed at once; waiting takes none of them."""
    with httpx2.Client(timeout=30, limits=httpx2.Limits()) as http, ThreadPoolExecutor(20) as pool:
        paused = [pool.submit(_paused, http, live, 3) for _ in range(20)]
        until(lambda: len(pauses.asked) == 20)
        refused = http.post(f"{live}{ECHO}", json={"inputs": {"string": "a"}})
        assert (refused.status_code, refused.json()["detail"]) == (
            429,
            "You have 20 requests answered at once, and no more are allowed.",
        )
        assert refused.json()["hint"] == (
            "Wait for one, or ask with the header 'Prefer: respond-async'."
        )
        pauses.end()
        assert [answer.result() for answer in paused] == [200] * 20
        assert _paused(http, live, 0) == 200


def test_pauses_of_one_owner_are_not_those_of_another(
    settings: Settings, client_of: ClientOf, store: Store, pauses: Pauses
) -> None:
    mine, other = (f"Bearer {create(store.keys, owner).text}" for owner in "ab")
    client = client_of(settings.model_copy(update={"auth": "keys"}))

    def paused(key: str, seconds: int) -> int:
        body = {"inputs": {"pause": seconds}}
        return client.post(ECHO, json=body, headers={"Authorization": key}).status_code

    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(paused, mine, 5) for _ in range(20)]
        until(lambda: len(pauses.asked) == 20)
        assert paused(mine, 0) == 429
        assert paused(other, 0) == 200
        assert not any(each.done() for each in waiting)
        pauses.end()
        assert {each.result() for each in waiting} == {200}


def _paused(http: httpx2.Client, url: str, seconds: int) -> int:
    return http.post(f"{url}{ECHO}", json={"inputs": {"pause": seconds}}).status_code


def test_methods_that_there_are_not_count_as_one(idle: Running) -> None:
    for number in range(3):
        idle.client.request(f"X{number}", "/livez")
    figures = idle.client.get("/metrics").text
    assert 'method="other"' in figures
    assert "X1" not in figures
