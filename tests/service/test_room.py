"""A disk that runs short of room while a job computes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from deadlines import until
from tests.service.conftest import HELD
from tests.service.test_dispatcher import claimed, tools

from halocline_engine.errors import OutputError
from halocline_service.dispatcher.attempts.attempt import ROOM, InProcess, check_room
from halocline_service.dispatcher.lease_keeper import LeaseKeeper
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.store.base import StoreAway

if TYPE_CHECKING:
    from tests.service.conftest import Running

HEADROOM = 1000
_WHOLE = shutil.disk_usage("/")


class Disk:
    """What is free of the disk, as tests wish."""

    def __init__(self) -> None:
        self.free = 10 * HEADROOM
        self.is_away = False
        self.asked = 0

    def __call__(self, _path: Path) -> Any:
        self.asked += 1
        if self.is_away:
            raise OSError(5, "Input/output error")
        return _WHOLE._replace(free=self.free)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr("halocline_service.dispatcher.attempts.attempt.shutil.disk_usage", made)
    return made


@contextmanager
def dispatching(idle: Running, **changes: Any) -> Generator[None]:
    settings = idle.settings.model_copy(
        update={"heartbeat_seconds": 0.1, "disk_headroom_bytes": HEADROOM, **changes}
    )
    stop = threading.Event()
    used = tools(idle, cluster=None)
    thread = threading.Thread(
        target=Dispatcher(settings, idle.store, InProcess(used)).run, args=(stop,)
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_job_ends_when_the_disk_runs_short_of_room(idle: Running, disk: Disk) -> None:
    with dispatching(idle):
        first = idle.submit()
        assert idle.wait(first)["status"] == "successful"
        job = idle.submit(scalars=HELD)
        idle.wait(job, "running")
        disk.free = HEADROOM - 1
        done = idle.wait(job)
        assert (done["status"], done["attempt"]) == ("failed", 1)
        assert done["message"] == (
            "There is no room for a result: 999 bytes of the disk are free, and 1000 must stay "
            "free."
        )
        assert (done["exception"]["code"], done["exception"]["hint"]) == ("output", ROOM)
        assert idle.client.get(f"/jobs/{job}/results").status_code == 507
        folder = idle.settings.data_dir / "jobs" / job
        until(lambda: not list(folder.rglob("*")))
        kept = idle.client.get(f"/jobs/{first}/results/result.zarr/zarr.json")
        assert kept.status_code == 200
        disk.free = HEADROOM
        assert idle.wait(idle.submit())["status"] == "successful"


def test_the_disk_is_looked_at_with_each_heartbeat_and_no_more(
    idle: Running, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [1000.0], [0]

    def monotonic() -> float:
        asked[0] += 1
        return now[0]

    watch = SimpleNamespace(monotonic=monotonic)
    monkeypatch.setattr("halocline_service.dispatcher.lease_keeper.time", watch)

    def look_around() -> None:
        """Let the thread that keeps the lease see what time it is, more than once."""
        before = asked[0]
        until(lambda: asked[0] > before + 10)

    with dispatching(idle):
        job = idle.submit(scalars=HELD)
        until(lambda: idle.engine.calls)
        assert disk.asked == 1
        for beats in range(1, 6):
            look_around()
            assert disk.asked == beats
            now[0] += 0.11
        look_around()
        assert disk.asked == 6
        idle.engine.turns.release(4)
        assert idle.wait(job)["status"] == "successful"
    assert disk.asked == 6


def test_a_job_that_writes_no_files_goes_on(
    idle: Running, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Mock(side_effect=check_room)
    over = threading.Event()
    monkeypatch.setattr("halocline_service.dispatcher.loop.check_room", looks)

    def paused(_seconds: float, _cancelled: Callable[[], bool]) -> None:
        assert over.wait(20)

    monkeypatch.setattr("halocline_service.dispatcher.attempts.attempt._wait", paused)
    with dispatching(idle):
        job = idle.submit("echo", pause=1, string="x")
        idle.wait(job, "running")
        disk.free = 0
        before = looks.call_count
        until(lambda: looks.call_count > before + 1)
        over.set()
        assert idle.wait(job)["status"] == "successful"
    assert disk.asked == 0


def test_a_disk_that_does_not_answer_ends_no_job(
    idle: Running, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the thread that keeps its lease."""
    log = Mock()
    monkeypatch.setattr("halocline_service.dispatcher.lease_keeper._log", log)

    def beats() -> int:
        (held,) = idle.store.jobs.held()
        return held.beats

    with dispatching(idle, lease_seconds=0.5):
        job = idle.submit(scalars=HELD)
        until(lambda: idle.engine.calls)  # it has begun, and looked at the disk
        disk.is_away = True
        until(lambda: "disk not looked at" in [call.args[0] for call in log.warning.call_args_list])
        before = beats()
        until(lambda: beats() > before + 5)  # for longer than its lease
        idle.engine.turns.release(4)
        done = idle.wait(job)
    assert (done["status"], done["attempt"]) == ("successful", 1)


def test_a_job_that_is_dismissed_meanwhile_stays_dismissed(idle: Running, disk: Disk) -> None:
    with dispatching(idle):
        job = idle.submit(scalars=HELD)
        idle.wait(job, "running")
        idle.client.delete(f"/jobs/{job}")
        disk.free = 0
        assert idle.wait(job)["status"] == "dismissed"
    assert "no room" not in str(idle.store.jobs.events(job))


def test_the_disk_is_looked_at_while_the_database_is_away(idle: Running) -> None:
    short = OutputError("There is no room.")
    store = Mock(**dict.fromkeys(("renew.side_effect", "get.side_effect"), StoreAway("Gone.")))
    settings = idle.settings.model_copy(update={"heartbeat_seconds": 0.1})
    job = claimed(idle, "sst.zarr")
    with LeaseKeeper(store, job, settings, check_room=Mock(side_effect=short)) as keeper:
        keeper.wait(10)
        assert keeper.stopped()
    assert keeper.shortage is short
