"""A PostgreSQL server that goes away and comes back: requests are told so, and no job is lost."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import httpx2
import pytest
from deadlines import until
from postgres import Server
from tests.service.conftest import HELD
from tests.service.test_dispatcher import claimed, tools

from halocline_service.dispatcher.attempts.attempt import InProcess
from halocline_service.dispatcher.lease_keeper import LeaseKeeper
from halocline_service.dispatcher.leases import Observer
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.dispatcher.outcome import Away, outcome_of
from halocline_service.jobs.setbacks import Cause, Interruption
from halocline_service.jobs.states import State
from halocline_service.store.base import Store, StoreAway
from halocline_service.store.sql.store import open_store

if TYPE_CHECKING:
    from tests.service.conftest import Running


@pytest.fixture
def store(postgres: str) -> Generator[Store]:
    made = open_store(postgres)
    yield made
    made.close()


@contextmanager
def away(server: Server) -> Generator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


def test_requests_are_told_to_come_again(idle: Running, postgres_server: Server) -> None:
    client = idle.client
    execute = {"inputs": {"program": "x", "dataset": "sst.zarr"}}
    assert client.get("/jobs").status_code == 200
    with away(postgres_server):
        asked: list[tuple[str, str, Any]] = [
            ("GET", "/jobs", None),
            ("GET", "/jobs/x", None),
            ("DELETE", "/jobs/x", None),
            ("GET", "/jobs/x/results/result.zarr/zarr.json", None),
            ("POST", "/uploads", None),
            ("PUT", "/uploads/x.zarr/zarr.json", {}),
            ("GET", "/metrics", None),
        ]
        for method, path, body in asked:
            answer = client.request(method, path, json=body)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2"), path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json() | {"type": "", "title": ""} == {
                "type": "",
                "title": "",
                "status": 503,
                "code": "unavailable",
                "detail": "The database does not answer.",
                "hint": "Send the request again later; what was accepted is not lost.",
            }
        assert client.post("/processes/stencil/execution", json=execute).status_code == 400
        assert client.get("/livez").status_code == 200
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "does not answer")
    assert client.get("/jobs").status_code == 200


class Clock:
    """The time by which dispatchers judge leases, and how often they have asked for it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    observer = functools.partial(Observer, clock=made)
    monkeypatch.setattr("halocline_service.dispatcher.loop.Observer", observer)
    return made


def test_a_job_outlives_the_loss_of_the_database(
    clock: Clock, service: Running, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than its lease, while it computes; it is not run again."""
    log = Mock()
    monkeypatch.setattr("halocline_service.dispatcher.lease_keeper._log", log)
    engine = service.engine
    job = service.submit(scalars=HELD | {"blocks": 60})
    service.wait(job, "running")
    until(lambda: clock.asked > 1)  # the lease was seen
    with away(postgres_server):
        engine.turns.release(30)
        until(lambda: engine.blocks == 30)
        until(lambda: "lease not renewed" in [call.args[0] for call in log.warning.call_args_list])
        clock.now += 2 * service.settings.lease_seconds
        asked = clock.asked
    until(lambda: clock.asked > asked + 1)  # the lease was judged
    engine.turns.release(30)
    done = service.wait(job, seconds=30)
    assert (done["status"], done["attempt"]) == ("successful", 1)
    assert len(service.engine.calls) == 1


def test_a_job_that_ends_meanwhile_is_settled_afterwards(
    service: Running, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver, tries = LeaseKeeper.deliver, list[LeaseKeeper]()

    def delivered(self: LeaseKeeper) -> None:
        tries.append(self)
        deliver(self)

    monkeypatch.setattr(LeaseKeeper, "deliver", delivered)
    job = service.submit(scalars=HELD | {"blocks": 6})
    service.wait(job, "running")
    with away(postgres_server):
        service.engine.turns.release(6)
        until(lambda: len(tries) > 1)  # it has ended, and could not be settled
    done = service.wait(job, seconds=30)
    assert (done["status"], done["attempt"]) == ("successful", 1)
    assert len(service.engine.calls) == 1
    kinds = [event.kind for event in service.store.jobs.events(job)]
    assert kinds.count("planned") == kinds.count("finished") == 1


def test_a_job_that_needs_the_database_meanwhile_is_given_back(
    idle: Running, postgres_server: Server
) -> None:
    """Without spending an attempt: it is not the job's fault."""
    job = claimed(idle, "sst.zarr")
    idle.store.jobs.give_back(job.lease, Interruption(Cause.STOPPED, "x"))
    asked: list[str] = []

    class Resolver:
        roots = (idle.data,)

        def resolve(self, reference: str, *, owner: str) -> Path:
            asked.append(reference)
            if len(asked) == 1:
                raise StoreAway("The database does not answer: gone.")
            return idle.data / "sst.zarr"

        def described(self, reference: str, *, owner: str) -> dict[str, str]:
            return {"reference": reference}

    stop = threading.Event()
    jobs = Dispatcher(idle.settings, idle.store, InProcess(tools(idle, resolver=Resolver())))
    thread = threading.Thread(target=jobs.run, args=(stop,))
    thread.start()
    done = idle.wait(job.id)
    stop.set()
    thread.join()
    assert (done["status"], done["attempt"]) == ("successful", 1)
    assert len(idle.engine.calls) == 1


def test_a_database_that_is_away_is_no_failure() -> None:
    assert outcome_of(StoreAway("The database does not answer.")) == Away()


def test_a_dispatcher_that_is_stopped_meanwhile_ends(
    idle: Running, postgres_server: Server
) -> None:
    job = claimed(idle, "sst.zarr")
    idle.store.jobs.give_back(job.lease, Interruption(Cause.STOPPED, "x"))
    stop = threading.Event()
    thread = threading.Thread(
        target=Dispatcher(idle.settings, idle.store, InProcess(tools(idle))).run, args=(stop,)
    )
    idle.engine.calls.clear()
    thread.start()
    until(lambda: idle.engine.calls)
    with away(postgres_server):
        stop.set()
        thread.join(15)
        assert not thread.is_alive()
    found = idle.store.jobs.get(job.id, owner=None)
    assert found is not None
    assert found.state in (State.RUNNING, State.SUCCEEDED, State.QUEUED)


def test_a_stream_of_events_ends_and_goes_on_where_it_was(
    live: str, service: Running, postgres_server: Server
) -> None:
    job = service.submit(scalars=HELD | {"blocks": 40})
    service.wait(job, "running")
    with httpx2.Client(base_url=live, timeout=30) as client:
        with client.stream("GET", f"/jobs/{job}/events") as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("id:"))
            seen = [next(lines)]
            with away(postgres_server):
                seen += lines  # ends without an error
        last = seen[-1].partition(":")[2].strip()
        service.engine.turns.release(40)
        service.wait(job, seconds=30)
        with client.stream("GET", f"/jobs/{job}/events", headers={"Last-Event-ID": last}) as stream:
            rest = [line for line in stream.iter_lines() if line.startswith("id:")]
    assert rest
    assert int(rest[0].partition(":")[2]) > int(last)


def test_a_command_waits_for_the_database(
    postgres_server: Server, postgres: str, tmp_path: Path
) -> None:
    environment = {"HALOCLINE_DATABASE_URL": postgres, "HALOCLINE_DATA_DIR": str(tmp_path)}
    with away(postgres_server):
        started = _command("migrate", environment)
        assert started.stderr is not None
        told = started.stderr.readline()
    assert told.startswith("The database does not answer: ")
    assert told.endswith(". Waiting for it.\n")
    out, _ = started.communicate(timeout=60)
    assert (started.returncode, out) == (0, "The database is up to date.\n")


def test_a_command_says_that_the_database_is_away(tmp_path: Path) -> None:
    url = f"postgresql://me:secret@/db?host={tmp_path}"
    environment = {"HALOCLINE_DATABASE_URL": url, "HALOCLINE_DATA_DIR": str(tmp_path)}
    command = _command("key list", environment)
    out, told = command.communicate(timeout=60)
    assert (command.returncode, out) == (1, "")
    assert told.startswith("The database does not answer: ")
    assert told.endswith(" Is HALOCLINE_DATABASE_URL right, and the server running?\n")
    assert len(told.splitlines()) == 1
    assert "secret" not in told


def _command(words: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "halocline_service.cli", *words.split()],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
