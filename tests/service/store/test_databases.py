"""What SQLite and PostgreSQL do differently, and a store must not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from postgres import Server
from sqlalchemy import create_engine, inspect, make_url, text

from halocline_service.jobs.job import JobRequest, UploadRequest
from halocline_service.jobs.states import State
from halocline_service.store.base import (
    IdempotencyConflict,
    JobQuery,
    Note,
    Page,
    QueueFull,
    Store,
    StoreOutdated,
    UploadGone,
)
from halocline_service.store.sql.database import connect, reading, writing
from halocline_service.store.sql.migrate import upgrade
from halocline_service.store.sql.store import open_store
from halocline_service.store.sql.tables import metadata

_AT_ONCE = 8


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return f"sqlite:///{shutil.copy(empty_database, tmp_path)}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = open_store(url)
    yield made
    made.close()


def asked(**given: Any) -> JobRequest:
    fields: dict[str, Any] = {"owner": "ann", "process": "stencil", "request": {}, **given}
    fields.setdefault("fingerprint", "f")
    return JobRequest(**fields)


def together(work: Callable[[int], Any]) -> list[Any]:
    """Do something in many threads at the same moment; give what came back or was raised."""
    barrier = Barrier(_AT_ONCE)

    def one(number: int) -> Any:
        barrier.wait()
        try:
            return work(number)
        except (IdempotencyConflict, QueueFull) as error:
            return type(error)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(one, range(_AT_ONCE)))


def test_the_migrations_make_the_tables(url: str) -> None:
    engine = connect(url)
    with reading(engine) as db:
        context = MigrationContext.configure(db, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_an_older_database_is_brought_up_to_date(postgres_server: Server) -> None:
    name = postgres_server.create()
    try:
        old = postgres_server.url(name)
        upgrade(old, "0001")
        upgrade(old)
        engine = connect(old)
        with reading(engine) as db:
            kinds = {each["name"]: str(each["type"]) for each in inspect(db).get_columns("upload")}
            assert (kinds["keys"], kinds["bytes"]) == ("BIGINT", "BIGINT")
        engine.dispose()
    finally:
        postgres_server.drop(name)


def test_uploads_of_an_older_database_have_no_key(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.sqlite3'}"
    upgrade(url, "0002")
    engine = connect(url)
    with writing(engine) as db:
        for number in (1, 2):
            row = {"id": number, "now": 1.0}
            statement = "INSERT INTO upload VALUES (:id, 'ann', :now, NULL, 0, 0)"
            db.execute(text(statement), row)
    engine.dispose()
    upgrade(url)
    store = open_store(url)
    kept = store.uploads.list("ann", Page())
    assert [(each.id, each.idempotency_key) for each in kept] == [("2", None), ("1", None)]
    store.close()


def test_what_is_there_when_owners_come_is_kept(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Each database gets an identity of its own, and older uploads stay until they are deleted."""
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create()
    try:
        identities: set[str] = set()
        for old in (server.url(name), f"sqlite:///{tmp_path / 'old.sqlite3'}"):
            upgrade(old, "0003")
            engine = connect(old)
            with writing(engine) as db:
                row = "INSERT INTO upload VALUES ('u', 'ann', 1.0, 2.0, 1, 1, NULL)"
                db.execute(text(row))
            engine.dispose()
            upgrade(old)
            store = open_store(old)
            identities.add(store.identity())
            (kept,) = store.uploads.list("ann", Page())
            assert (kept.kept, kept.digest) == (True, None)
            assert store.uploads.unused(before=9e9) == []
            store.close()
        assert len(identities) == 2
    finally:
        server.drop(name)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_jobs_of_an_older_database_have_no_name(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    server: Server | None = None
    url, name = f"sqlite:///{tmp_path / 'old.sqlite3'}", ""
    if kind == "postgres":
        running: Server = request.getfixturevalue("postgres_server")
        server, name = running, running.create()
        url = running.url(name)
    try:
        upgrade(url, "0006")
        engine = connect(url)
        with writing(engine) as db:
            db.execute(text(_OLD_JOB))
        engine.dispose()
        upgrade(url)
        store = open_store(url)
        (kept,) = store.jobs.list(JobQuery(owner="ann"))
        assert (kept.id, kept.name, kept.labels) == ("j", None, ())
        store.close()
    finally:
        if server is not None:
            server.drop(name)


_OLD_JOB = (
    "INSERT INTO job (id, owner, process, request, fingerprint, state, progress, message, attempt,"
    " max_attempts, crashes, losses, reached, fence, beats, created, updated)"
    " VALUES ('j', 'ann', 'echo', '{}', 'f', 'failed', 0, '', 0, 1, 0, 0, 0, 0, 0, 1, 1)"
)


def test_a_database_without_an_identity_says_so(url: str, store: Store) -> None:
    engine = connect(url)
    with writing(engine) as db:
        db.exec_driver_sql("DELETE FROM installation")
    engine.dispose()
    with pytest.raises(StoreOutdated) as caught:
        store.identity()
    assert str(caught.value) == ("The database has no identity: its table 'installation' is empty.")


def test_an_upload_is_read_by_a_job_or_gone(store: Store) -> None:
    """One goes with its last job at the moment when another job is added; never half of it."""
    for number in range(10):
        upload = store.uploads.add(
            UploadRequest(owner="ann", digest=f"{number}", kept=False), limit=999
        )
        store.uploads.complete(upload.id, owner="ann", keys=1, size=1)
        wanted = asked(uploads=(upload.id,))
        last = store.jobs.add(wanted, queue_limit=9999)
        store.jobs.cancel(last.id, owner="ann")

        def work(turn: int, last: Any = last, wanted: JobRequest = wanted) -> Any:
            if turn == 0:
                return store.jobs.remove(last.id, owner="ann")
            try:
                return store.jobs.add(wanted, queue_limit=9999)
            except UploadGone:
                return None

        removal, *added = together(work)
        assert removal is not None
        is_there = store.uploads.get(upload.id, owner=None) is not None
        assert is_there == any(job is not None for job in added)
        assert is_there == (removal.uploads == ())


def test_processes_that_start_together_migrate_once(postgres_server: Server) -> None:
    name = postgres_server.create()
    try:
        program = (
            "import sys\n"
            "from halocline_service.store.sql.migrate import upgrade\n"
            "upgrade(sys.argv[1])"
        )
        command = [sys.executable, "-c", program, postgres_server.url(name)]
        started = [subprocess.Popen(command) for _ in range(3)]
        assert [process.wait(60) for process in started] == [0, 0, 0]
    finally:
        postgres_server.drop(name)


def test_uploads_may_be_larger_than_two_gibibytes(store: Store) -> None:
    upload = store.uploads.add(UploadRequest(owner="ann"), limit=1)
    done = store.uploads.complete(upload.id, owner="ann", keys=2**33, size=2**40)
    assert done is not None
    assert (done.keys, done.bytes) == (2**33, 2**40)
    assert store.uploads.get(upload.id, owner="ann") == done


def test_events_are_counted_beyond_32_bits(store: Store, url: str) -> None:
    first = store.jobs.add(asked(), queue_limit=9)
    (before,) = store.jobs.events(first.id)
    engine = connect(url)
    with writing(engine) as db:
        db.exec_driver_sql(f"UPDATE job_event SET seq = {2**40}")
        if engine.dialect.name == "postgresql":
            db.exec_driver_sql(f"SELECT setval('job_event_seq_seq', {2**40})")
    engine.dispose()
    second = store.jobs.add(asked(), queue_limit=9)
    (after,) = store.jobs.events(second.id, after=before.seq)
    assert after.seq == 2**40 + 1
    assert store.jobs.events(second.id, after=2**63 - 1) == []


def test_what_was_accepted_outlives_a_crash_of_a_server_that_confirms_early(postgres: str) -> None:
    def confirmed() -> str:
        engine = connect(postgres)
        with engine.connect() as db:
            db.rollback()
            mode = str(db.exec_driver_sql("SHOW synchronous_commit").scalar())
        engine.dispose()
        return mode

    assert confirmed() == "on"
    plain = create_engine(make_url(postgres).set(drivername="postgresql+psycopg"))
    with plain.connect() as db:
        assert db.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
    plain.dispose()


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
def test_text_that_a_database_refuses_is_looked_for_in_vain(store: Store, text: str) -> None:
    assert store.jobs.get(text, owner="ann") is None
    assert store.jobs.get("x", owner=text) is None
    assert store.uploads.get(text, owner="ann") is None
    assert store.keys.get(text) is None
    assert store.jobs.list(JobQuery(owner="ann", processes=(text,))) == []


def test_text_that_a_database_refuses_is_replaced(store: Store) -> None:
    made = store.jobs.add(asked(request={"inputs": {"program": "a\0\ud800"}}), queue_limit=1)
    assert made.request == {"inputs": {"program": "a\0\ud800"}}
    held = store.jobs.claim("w\0")
    assert held is not None
    note = Note("told", {"text": "\0"})
    assert store.jobs.record(held.lease, progress=0.1, message="a\0b\ud800", notes=[note])
    found = store.jobs.get(made.id, owner="ann")
    assert found is not None
    assert found.message == "a\ufffdb?"
    assert store.jobs.events(made.id, kind="told")[0].data == {"text": "\0"}


def test_numbers_that_json_does_not_know_become_null(store: Store) -> None:
    store.jobs.add(asked(), queue_limit=1)
    held = store.jobs.claim("w")
    assert held is not None
    told = {"norms": [1.0, float("nan")], "last": {"most": float("-inf")}}
    assert store.jobs.record(held.lease, progress=0.1, message="x", notes=[Note("told", told)])
    (event,) = store.jobs.events(held.id, kind="told")
    assert event.data == {"norms": [1.0, None], "last": {"most": None}}


def test_an_idempotency_key_makes_one_job_of_many_requests_at_once(store: Store) -> None:
    jobs = together(lambda _: store.jobs.add(asked(idempotency_key="k"), queue_limit=9))
    assert len({job.id for job in jobs}) == 1


def test_an_idempotency_key_opens_one_upload_of_many_requests_at_once(store: Store) -> None:
    uploads = together(
        lambda _: store.uploads.add(UploadRequest(owner="ann", idempotency_key="k"), limit=9)
    )
    assert len({upload.id for upload in uploads}) == 1
    assert list(store.uploads.list("ann", Page())) == [uploads[0]]


def test_the_queue_is_bounded_for_many_requests_at_once(store: Store) -> None:
    jobs = together(lambda _: store.jobs.add(asked(), queue_limit=3))
    assert jobs.count(QueueFull) == _AT_ONCE - 3
    uploads = together(lambda _: store.uploads.add(UploadRequest(owner="ann"), limit=3))
    assert uploads.count(QueueFull) == _AT_ONCE - 3


def test_dispatchers_that_claim_at_once_all_get_a_job(store: Store) -> None:
    made = {store.jobs.add(asked(), queue_limit=99).id for _ in range(_AT_ONCE)}
    claimed = together(lambda number: store.jobs.claim(f"w{number}"))
    assert {job.id for job in claimed if job is not None} == made


def test_a_lease_is_either_renewed_or_recovered(url: str) -> None:
    """Both at the same moment, again and again; never both."""
    store = open_store(url)
    for _ in range(20):
        store.jobs.add(asked(max_attempts=99), queue_limit=99)
        held = store.jobs.claim("w")
        assert held is not None
        lease, seen = held.lease, store.jobs.held()
        done = together(
            lambda number, lease=lease, seen=seen: (
                store.jobs.renew(lease) if number else list(store.jobs.recover(seen))
            )
        )
        after = store.jobs.get(held.id, owner=None)
        assert after is not None
        recovered = after.state is State.QUEUED
        assert (done[0] == [held.id]) is recovered
        assert store.jobs.cancel(held.id, owner="ann")
        store.jobs.drop(lease)
    store.close()


def test_a_finished_job_is_removed_by_one_of_many(store: Store) -> None:
    job = store.jobs.add(asked(), queue_limit=1)
    store.jobs.cancel(job.id, owner="ann")
    removed = together(lambda _: store.jobs.remove(job.id, owner="ann"))
    assert sum(each is not None for each in removed) == 1


def test_jobs_stored_before_arguments_were_renamed_have_the_new_names(store: Store) -> None:
    old = {"program": "text", "name": "smooth", "every": 2, "until": {"every": 3}}
    new = {
        "program": "text",
        "stencil_name": "smooth",
        "snapshot_every": 2,
        "until": {"check_every": 3},
    }
    stored = [
        ("stencil", old, new),
        ("plan", {"process": "stencil", "inputs": old}, {"process": "stencil", "inputs": new}),
        ("regrid", {"missing": "renormalise", "least": 0.3}, {"skipna": True, "na_thres": 0.7}),
        ("gather", {"name": "taken"}, {"name": "taken"}),
    ]
    for process, before, after in stored:
        request = {"inputs": before, "outputs": ["result"]}
        job = store.jobs.add(asked(process=process, request=request), queue_limit=9)
        found = store.jobs.get(job.id, owner="ann")
        assert found is not None
        assert found.request == {"inputs": after, "outputs": ["result"]}
