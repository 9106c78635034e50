"""Jobs wait for what is lost under them (workers, a scheduler, a disk), say so, and do not fail."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from deadlines import until
from tests.service.test_dispatcher import tools

from halocline_engine.errors import ClusterError, DatasetError, OutputError
from halocline_service.dispatcher.attempts.attempt import InProcess
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.dispatcher.outcome import Lost, outcome_of
from halocline_service.dispatcher.workers import ClusterLook, Look

if TYPE_CHECKING:
    from tests.service.conftest import Running


class Cluster:
    """Workers that come and go as tests wish; None for a scheduler that does not answer."""

    def __init__(self, workers: int | None) -> None:
        self.workers = workers
        self.closed = False

    def __call__(self) -> list[dict[str, Any]]:
        if self.workers is None:
            raise ClusterError("The scheduler does not answer.")
        return [{"name": f"worker {number}"} for number in range(self.workers)]

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halocline_service.dispatcher.workers._LOOK_SECONDS", 0.02)


@contextmanager
def dispatching(idle: Running, look: Look | None = None, **changes: Any) -> Generator[None]:
    stop = threading.Event()
    used = tools(idle, cluster=None, **changes)
    made = Dispatcher(idle.settings, idle.store, InProcess(used), look=look)
    thread = threading.Thread(target=made.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def told(idle: Running, job: str) -> tuple[str, str]:
    found = idle.client.get(f"/jobs/{job}").json()
    return found["status"], found["message"]


@pytest.mark.parametrize(
    ("workers", "why"), [(0, "none is connected"), (None, "the scheduler does not answer")]
)
def test_jobs_wait_for_workers_and_say_so(idle: Running, workers: int | None, why: str) -> None:
    cluster = Cluster(workers)
    first = idle.submit()
    waits = ("accepted", f"Waiting for workers: {why}.")
    with dispatching(idle, cluster):
        until(lambda: told(idle, first) == waits)
        later = idle.submit()
        until(lambda: told(idle, later) == waits)
        ready = idle.client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["workers"]) == (503, why)
        # What needs no worker is done meanwhile.
        assert idle.wait(idle.submit("echo", string="x"))["status"] == "successful"
        assert idle.engine.calls == []
        cluster.workers = 1
        done = [idle.wait(job) for job in (first, later)]
        assert [(each["status"], each["attempt"]) for each in done] == [("successful", 1)] * 2
        assert idle.client.get("/readyz").status_code == 200
    until(lambda: cluster.closed)


def test_a_job_whose_workers_go_waits_until_they_are_back(idle: Running) -> None:
    cluster = Cluster(1)

    def runner(*given: Any, **named: Any) -> Any:
        if len(idle.engine.calls) < 5:
            idle.engine.calls.append({})
            cluster.workers = 0
            raise ClusterError("The cluster has no worker that can be used.")
        return idle.engine(*given, **named)

    with dispatching(idle, cluster, runner=runner):
        job = idle.submit()
        for times in range(5):
            until(lambda times=times: len(idle.engine.calls) > times)
            until(lambda: told(idle, job)[1] == "Waiting for workers: none is connected.")
            cluster.workers = 1
        done = idle.wait(job)
    assert (done["status"], done["attempt"]) == ("successful", 1)


def test_a_scheduler_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halocline_engine.distribute.executors.dask._CONNECT_SECONDS", 0.3)
    look = ClusterLook("tcp://127.0.0.1:1")
    with pytest.raises(ClusterError):
        look()
    look.close()
    look.close()


def test_what_a_scheduler_knows_of_workers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "nthreads": 2,
        "memory_limit": 64,
        "metrics": {"memory": 16, "cpu": 37.5},
        "resources": {},
    }
    workers = {
        "tls://a:1": told,
        "tls://b:1": told | {"resources": {"GPU": 1.0}},
        "tls://c:1": told | {"resources": {"GPU": 1.0}, "gpu": {"name": "NVIDIA H100"}},
    }

    def ask(*_: object, **__: object) -> dict[str, Any]:
        return {"workers": workers}

    def connect(_: str) -> Any:
        return nullcontext(SimpleNamespace(client=None))

    engine = "halocline_engine.distribute.executors"
    monkeypatch.setattr(f"{engine}.dask.connect", connect)
    monkeypatch.setattr(f"{engine}.workers.ask_scheduler", ask)
    found = ClusterLook("tcp://127.0.0.1:1")()
    assert [(each["name"], each["device"]) for each in found] == [
        ("tls://a:1", ""),
        ("tls://b:1", "GPU"),
        ("tls://c:1", "NVIDIA H100"),
    ]
    first = {"name": "tls://a:1", "threads": 2, "device": "", "memory": 16, "memory_limit": 64}
    assert found[0] == {**first, "cpu": 37.5}


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.ESTALE])
def test_a_disk_that_does_not_answer_when_a_job_starts_is_waited_for(
    idle: Running, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    away = threading.Event()
    away.set()
    usage = shutil.disk_usage

    def disk(path: Path) -> Any:
        if away.is_set():
            raise OSError(code, os.strerror(code), str(path))
        return usage(path)

    monkeypatch.setattr("halocline_service.dispatcher.attempts.attempt.shutil.disk_usage", disk)
    with dispatching(idle):
        job = idle.submit()
        message = (
            f"A disk of the service does not answer: {os.strerror(code)}. "
            "Waiting for another attempt."
        )
        until(lambda: told(idle, job) == ("accepted", message))
        assert idle.wait(idle.submit("echo", string="x"))["status"] == "successful"
        away.clear()
        done = idle.wait(job)
    assert (done["status"], done["attempt"]) == ("successful", 1)


def test_a_disk_that_does_not_answer_ends_no_dispatcher(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be swept then, and what a job that ended left cannot be deleted."""
    listed = os.listdir
    asked: list[Any] = []
    back = threading.Event()

    def away(path: Any = ".") -> list[str]:
        if "jobs" in str(path) and not back.is_set():
            asked.append(path)
            raise OSError(errno.EIO, "Input/output error", str(path))
        return cast("list[str]", listed(path))

    monkeypatch.setattr("halocline_service.dispatcher.loop.os.listdir", away)
    monkeypatch.setattr("halocline_service.datasets.layout.os.listdir", away)
    with dispatching(idle):
        until(lambda: asked)
        assert idle.wait(idle.submit("echo", string="x"))["status"] == "successful"
        job = idle.submit()
        until(lambda: "does not answer" in told(idle, job)[1])
        back.set()
        done = idle.wait(job)
    assert (done["status"], done["attempt"]) == ("successful", 1)


def test_an_error_that_came_of_a_disk_is_one_of_the_disk() -> None:
    for kind in (DatasetError, OutputError):
        error = kind("It cannot be read.")
        error.__cause__ = OSError(errno.EIO, "Input/output error")
        assert isinstance(outcome_of(error), Lost)


def test_an_attempt_that_a_database_forgot_is_made_again(idle: Running) -> None:
    """As when it confirmed too early what it lost in a crash, or was restored from a backup."""
    job = idle.submit()
    forgotten = Path(idle.settings.data_dir) / "jobs" / job / "attempt-1"
    forgotten.mkdir(parents=True)
    (forgotten / "result.zarr").mkdir()
    with dispatching(idle):
        until(lambda: told(idle, job)[0] == "successful")
    done = idle.store.jobs.get(job, owner="local")
    assert done is not None
    assert done.fence == 2
