"""Who is lost: clocks that differ or jump, processes that end, observers that sleep."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deadlines import until
from tests.service.conftest import HELD
from tests.service.test_dispatcher import claimed, tools

from halocline_service.dispatcher.attempts.attempt import InProcess
from halocline_service.dispatcher.leases import LifeSign, Observer
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.jobs.job import Held, Lease
from halocline_service.jobs.states import State
from halocline_service.store.base import Store
from halocline_service.store.sql.store import open_store

if TYPE_CHECKING:
    from tests.service.conftest import Running

LEASE = Lease("job", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def observer(clock: Clock) -> Observer:
    return Observer(seconds=30, gap=10, is_gone=lambda name: name == "gone", clock=clock)


def watch(looks: Observer, clock: Clock, beats: list[int], *, step: float = 4) -> list[int]:
    """Say after how many looks the lease was lost, with these numbers of beats."""
    when: list[int] = []
    for number, beat in enumerate(beats):
        when += [number] if looks.lost([Held(LEASE, "w", beat)]) else []
        clock.now += step
    return when


def test_a_silent_holder_is_lost_after_its_lease(clock: Clock) -> None:
    assert watch(observer(clock), clock, [7] * 10) == [8, 9]
    assert watch(observer(clock), clock, [7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10, 10]) == []


def test_another_holder_of_a_job_is_another_lease(clock: Clock) -> None:
    looks = observer(clock)
    assert watch(looks, clock, [0] * 7) == []
    assert looks.lost([Held(Lease("job", 2), "w", 0)]) == []


def test_an_observer_that_slept_begins_anew(clock: Clock) -> None:
    """A laptop that was closed, a machine that was stopped, a database that was away."""
    looks = observer(clock)
    assert watch(looks, clock, [7] * 5) == []
    clock.now += 3600
    assert watch(looks, clock, [7] * 8) == []
    assert watch(looks, clock, [7]) == [0]


def test_a_holder_that_is_known_to_have_ended_is_lost_at_once(clock: Clock) -> None:
    seen = [Held(LEASE, "gone", 1), Held(Lease("other", 1), "w", 1)]
    assert observer(clock).lost(seen) == seen[:1]


def test_a_process_is_gone_once_it_has_ended_however_it_did(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; "
        "from halocline_service.dispatcher.leases import LifeSign\n"
        "with LifeSign(Path(sys.argv[1])) as sign: print(sign.name, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    with LifeSign(tmp_path) as sign:
        assert name
        assert [sign.is_gone(each) for each in (name, sign.name)] == [False, False]
        process.kill()
        process.communicate()
        assert [sign.is_gone(each) for each in (name, sign.name)] == [True, False]
        sign.tidy({name})
        assert sign.is_gone(name)
        sign.tidy(set())
        assert not sign.is_gone(name)  # nobody asks for one that holds nothing
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["", "w", "host:1:00000000", "a:../../etc/passwd", "\0"])
def test_a_process_that_is_not_known_is_not_gone(tmp_path: Path, name: str) -> None:
    with LifeSign(tmp_path) as sign:
        assert not sign.is_gone(name)


def test_a_process_of_another_kernel_is_not_judged_by_its_lock(tmp_path: Path) -> None:
    """On some file systems locks are seen on one machine only."""
    with LifeSign(tmp_path) as sign:
        (other,) = tmp_path.iterdir()
        token = sign.name.rpartition(":")[2]
        name = sign.name.replace(token, "0" * 8)
        (tmp_path / f"another-boot-{'0' * 8}.lock").touch()
        assert not sign.is_gone(name)
        sign.tidy(set())
        assert len(list(tmp_path.iterdir())) == 2
        (tmp_path / other.name.replace(token, "0" * 8)).touch()
        assert sign.is_gone(name)


@contextmanager
def dispatching(idle: Running, store: Store | None = None, **changes: Any) -> Generator[None]:
    settings = idle.settings.model_copy(update=changes)
    stop = threading.Event()
    made = Dispatcher(settings, store or idle.store, InProcess(tools(idle, cluster=None)))
    thread = threading.Thread(target=made.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_dispatcher_with_another_clock_takes_no_job(idle: Running) -> None:
    """Forty seconds ahead, an hour behind, or jumping to and fro, with leases of two seconds."""
    jumps = iter(range(1, 10**9))
    clocks: list[Any] = [
        lambda: time.time() + 40,
        lambda: time.time() - 3600,
        lambda: time.time() + 60 * (-1) ** next(jumps),
    ]
    stores = [open_store(idle.settings.database, clock=each) for each in clocks]
    beats = idle.settings.lease_seconds / idle.settings.heartbeat_seconds
    with (
        dispatching(idle),
        dispatching(idle, stores[0]),
        dispatching(idle, stores[1]),
        dispatching(idle, stores[2]),
    ):
        jobs = [idle.submit(scalars=HELD) for _ in range(4)]
        until(lambda: sum(each.beats > beats for each in idle.store.jobs.held()) == len(jobs))
        idle.engine.turns.release(4 * len(jobs))
        done = [idle.wait(job, seconds=30) for job in jobs]
    assert [(each["status"], each["attempt"]) for each in done] == [("successful", 1)] * 4
    for store in stores:
        store.close()


def test_a_holder_that_ends_without_a_word_is_replaced(idle: Running) -> None:
    job = claimed(idle, "sst.zarr")
    with dispatching(idle, lease_seconds=0.3, heartbeat_seconds=0.1):
        done = idle.wait(job.id)
    assert (done["status"], done["attempt"]) == ("successful", 2)


def test_jobs_of_a_process_that_was_killed_go_on_at_once(idle: Running) -> None:
    """Not after its lease, which is an hour here."""
    with LifeSign(idle.settings.data_dir / "dispatchers") as sign:
        name = sign.name
    job = claimed(idle, "sst.zarr", holder=name)
    with dispatching(idle, lease_seconds=3600.0):
        done = idle.wait(job.id)
    assert (done["status"], done["attempt"]) == ("successful", 2)
    assert idle.store.jobs.held() == []


def test_a_job_that_crashes_gives_its_slot_to_others(idle: Running) -> None:
    """While it waits for its next attempt; it used to wait in the slot."""
    with dispatching(idle, retry_seconds=60.0):
        crashing = idle.submit(scalars={"fail": 2})
        until(lambda: (kept := idle.store.jobs.get(crashing, owner=None)) and kept.crashes)
        assert idle.wait(idle.submit("echo", string="x"))["status"] == "successful"
        found = idle.client.get(f"/jobs/{crashing}").json()
    assert (found["status"], found["message"]) == (
        "accepted",
        "The device failed. Waiting for another attempt.",
    )
    kept = idle.store.jobs.get(crashing, owner=None)
    assert kept is not None
    assert (kept.state, kept.crashes) == (State.QUEUED, 1)
