"""Those who wait are woken, in any process; looking from time to time is only there in case."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from deadlines import until
from postgres import Server
from tests.service.conftest import HELD, answering
from tests.service.test_dispatcher import tools

from halocline_service.dispatcher.attempts.attempt import InProcess
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.jobs.job import Ending, JobRequest
from halocline_service.jobs.states import Event
from halocline_service.store.base import Change, Note, Store
from halocline_service.store.memory.store import memory_store
from halocline_service.store.sql.migrate import upgrade
from halocline_service.store.sql.store import open_store

if TYPE_CHECKING:
    from tests.service.conftest import Running

RARELY = 100.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[Store, Store]]:
    """Two stores of one database, as two processes have them."""
    if request.param == "memory":
        made = memory_store()
        yield made, made
        return
    url = f"sqlite:///{tmp_path / 'test.sqlite3'}"
    if request.param == "sqlite":
        upgrade(url)
    else:
        url = request.getfixturevalue("postgres")
    pair = open_store(url), open_store(url)
    yield pair
    for store in pair:
        store.close()


def asked() -> JobRequest:
    return JobRequest(owner="ann", process="echo", request={}, fingerprint="f")


def test_what_happens_to_jobs_is_told(stores: tuple[Store, Store]) -> None:
    here, there = stores
    heard: list[Change | None] = []
    with there.changes.listen(heard.append), there.changes.listen(lambda _: None):
        until(lambda: heard == [None] or here is there)
        job = here.jobs.add(asked(), queue_limit=9)
        held = here.jobs.claim("w")
        assert held is not None
        here.jobs.record(held.lease, progress=0.5, message="Half.", notes=[Note("block")])
        here.jobs.settle(held.lease, Ending(Event.SUCCEED, "Done."))
        wanted = [Change(job.id, each) for each in ("accepted", "running", None, "successful")]
        until(lambda: [each for each in heard if each] == wanted)
        # Many at once are told one by one.
        for _ in range(50):
            here.jobs.add(asked(), queue_limit=99)
        until(lambda: sum(each is not None for each in heard) == 54)
    here.jobs.add(asked(), queue_limit=99)
    later: list[Change | None] = []
    with there.changes.listen(later.append):
        last = here.jobs.add(asked(), queue_limit=99)
        until(lambda: Change(last.id, "accepted") in later)
    assert sum(each is not None for each in heard) == 54


def test_a_database_that_was_away_is_listened_to_again(
    postgres: str, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halocline_service.store.changes._AWAY_SECONDS", 0.1)
    store = open_store(postgres)
    heard: list[Change | None] = []
    with store.changes.listen(heard.append):
        until(lambda: heard == [None])
        postgres_server.stop()
        postgres_server.start()
        until(lambda: heard == [None, None])  # something may have been missed
        job = store.jobs.add(asked(), queue_limit=9)
        until(lambda: heard[-1] == Change(job.id, "accepted"))
    store.close()


def test_nobody_watches_for_nobody(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halocline_service.store.changes._LINGER_SECONDS", 0.0)
    monkeypatch.setattr("halocline_service.store.changes._AROUND_SECONDS", 0.05)

    others = set(threading.enumerate())  # of services that other tests have in this process

    def watching() -> bool:
        own = set(threading.enumerate()) - others
        return any(thread.name == "changes" for thread in own)

    for _ in range(3):
        with stores[0].changes.listen(lambda _: None):
            assert watching() is (stores[0] is not stores[1])
        until(lambda: not watching())


@pytest.fixture
def rare(idle: Running) -> Generator[Running]:
    """Run a dispatcher that looks for itself once in a hundred seconds, one job at a time."""
    changes = {"poll_seconds": RARELY, "concurrency": 1, "heartbeat_seconds": RARELY}
    settings = idle.settings.model_copy(update=changes)
    stop = threading.Event()
    made = Dispatcher(settings, idle.store, InProcess(tools(idle, cluster=None)))
    thread = threading.Thread(target=made.run, args=(stop,))
    thread.start()
    yield idle
    stop.set()
    idle.submit("echo", string="the last one")  # wakes it
    thread.join()


def test_a_dispatcher_is_woken_by_jobs_and_by_free_slots(rare: Running) -> None:
    jobs = [rare.submit("echo", string="x") for _ in range(5)]
    assert [rare.wait(job)["status"] for job in jobs] == ["successful"] * 5


def test_a_job_that_is_dismissed_is_stopped_at_once(rare: Running) -> None:
    job = rare.submit(scalars=HELD)
    rare.wait(job, "running")
    rare.client.delete(f"/jobs/{job}")
    assert rare.wait(rare.submit("echo", string="x"))["status"] == "successful"


def test_a_stream_is_woken(rare: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the next line does not come before those who read have lost their patience."""
    monkeypatch.setattr("halocline_service.api.routes.events._POLL_SECONDS", RARELY)
    job = rare.submit(scalars=HELD)
    with (
        answering(rare) as url,
        httpx2.stream("GET", f"{url}/jobs/{job}/events", timeout=RARELY / 2) as stream,
    ):
        lines = stream.iter_lines()
        assert any('"running"' in line for line in lines)
        rare.engine.turns.release(4)
        assert any('"successful"' in line for line in lines)
