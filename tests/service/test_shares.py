"""Owners share a dispatcher: nobody's jobs keep another's from starting."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deadlines import until
from sqlalchemy import Engine, event
from sqlalchemy.dialects import postgresql, sqlite
from tests.service.conftest import HELD
from tests.service.test_dispatcher import tools

from halocline_service.dispatcher.attempts.attempt import InProcess
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.jobs.job import Job, JobRequest
from halocline_service.jobs.states import FINAL, State
from halocline_service.store.base import Wish
from halocline_service.store.sql.claims import next_job, waiting_jobs
from halocline_service.store.sql.database import connect, writing
from halocline_service.store.sql.store import open_store

if TYPE_CHECKING:
    from tests.service.conftest import Running

PROGRAM = "x"
STATEMENTS = 10  # of a claim, at most


@contextmanager
def dispatching(idle: Running, **changes: Any) -> Generator[None]:
    settings = idle.settings.model_copy(update=changes)
    stop = threading.Event()
    made = Dispatcher(settings, idle.store, InProcess(tools(idle, cluster=None)))
    thread = threading.Thread(target=made.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def submit(idle: Running, owner: str, **scalars: float) -> str:
    inputs = {"program": PROGRAM, "dataset": "sst.zarr", "scalars": scalars}
    request = {"inputs": inputs, "outputs": ["result"]}
    asked = JobRequest(owner=owner, process="stencil", request=request, fingerprint="f")
    return idle.store.jobs.add(asked, queue_limit=100).id


def job_of(idle: Running, job_id: str) -> Job:
    found = idle.store.jobs.get(job_id, owner=None)
    assert found is not None
    return found


def ended(idle: Running, job_id: str) -> Job:
    until(lambda: job_of(idle, job_id).state in FINAL)
    return job_of(idle, job_id)


@pytest.mark.parametrize("concurrency", [2, 3])
def test_an_owner_leaves_a_slot_to_others(idle: Running, concurrency: int) -> None:
    with dispatching(idle, concurrency=concurrency):
        many = [submit(idle, "ann", **HELD) for _ in range(25)]
        until(lambda: len(idle.engine.calls) == concurrency - 1)
        running = [job for job in many if job_of(idle, job).state is State.RUNNING]
        assert len(running) == concurrency - 1
        for _ in range(3):
            assert ended(idle, submit(idle, "bob")).state is State.SUCCEEDED
        assert [job for job in many if job_of(idle, job).state is State.RUNNING] == running
        for job in many:
            idle.store.jobs.cancel(job, owner="ann")


def test_with_one_slot_owners_take_turns(idle: Running) -> None:
    many = [submit(idle, "ann", **HELD) for _ in range(6)]
    with dispatching(idle, concurrency=1):
        until(lambda: idle.engine.calls)
        waits = submit(idle, "bob")
        idle.engine.turns.release(4 * len(many))
        bob = ended(idle, waits)
        assert bob.started is not None
        before = [job_of(idle, job).started for job in many]
        assert sum(each is not None and each < bob.started for each in before) <= 3
        for job in many:
            ended(idle, job)


@pytest.fixture(params=["sqlite", "postgres"])
def crowded(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> str:
    """Make a database of 5,000 jobs that wait, of 200 owners, and many more that have ended."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
    else:
        url = f"sqlite:///{shutil.copy(empty_database, tmp_path)}"
    engine = connect(url)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
    with writing(engine) as db:
        db.exec_driver_sql(
            "INSERT INTO job (id, owner, process, request, fingerprint, state, progress, message, "
            "attempt, max_attempts, crashes, losses, reached, fence, beats, created, updated) "
            f"{numbers} SELECT 'j' || i, 'o' || (i / 20 %% 200), 'stencil', '{{}}', 'f', "
            "CASE i %% 20 WHEN 0 THEN 'queued' ELSE 'failed' END, 0, '', "
            "0, 3, 0, 0, 0, 0, 0, 0, 0 FROM n".replace(
                "%%", "%%" if request.param == "postgres" else "%"
            )
        )
    if request.param == "postgres":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            db.exec_driver_sql("VACUUM ANALYZE job")
    engine.dispose()
    return url


def plan_of(url: str, statement: Any) -> str:
    """Return how a database would answer a statement."""
    engine = connect(url)
    postgres = engine.dialect.name == "postgresql"
    engine.dispose()
    dialect = postgresql.dialect() if postgres else sqlite.dialect()
    text = str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    return explained(url, text.replace("%", "%%" if postgres else "%"))


def explained(url: str, text: str, parameters: Any = None) -> str:
    """Return how a database would answer a statement in its own words."""
    engine = connect(url)
    explain = "EXPLAIN " if engine.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with engine.connect() as db:
        rows = db.exec_driver_sql(explain + text, parameters)
        plan = "\n".join(" ".join(map(str, row)) for row in rows)
    engine.dispose()
    return plan


@pytest.mark.parametrize("waited", [[], ["x"]])
def test_a_claim_reads_the_index_of_unfinished_jobs_alone(crowded: str, waited: list[str]) -> None:
    wish = Wish(most=1, processes=frozenset({"stencil"}))
    plan = plan_of(crowded, next_job("w", wish, waited))
    assert "ix_job_unfinished" in plan
    assert "Seq Scan on job" not in plan
    assert "SCAN job" not in plan
    if crowded.startswith("sqlite"):
        assert plan.count("COVERING INDEX ix_job_unfinished") >= 2, plan


def test_a_claim_reads_of_jobs_that_wait_their_index_alone(crowded: str) -> None:
    plan = plan_of(crowded, waiting_jobs())
    assert "ix_job_waiting" in plan
    assert "Seq Scan on job" not in plan


def test_a_claim_takes_few_statements_in_a_long_queue(crowded: str) -> None:
    """None of which reads all jobs."""
    made: list[tuple[str, Any]] = []
    here = threading.get_ident()

    def note(_db: Any, _cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if threading.get_ident() == here:  # other stores of this process may be looked at
            made.append((statement, parameters))

    store = open_store(crowded)
    event.listen(Engine, "before_cursor_execute", note)
    try:
        claimed = [store.jobs.claim("w") for _ in range(20)]
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        store.close()
    assert len({job.owner for job in claimed if job is not None}) == 20
    assert len(made) <= 20 * STATEMENTS
    asked = {statement: given for statement, given in made if statement != "BEGIN"}
    for statement, parameters in asked.items():
        plan = explained(crowded, statement, parameters)
        assert not re.search(r"Seq Scan on job\b|SCAN job$", plan, re.MULTILINE), plan
