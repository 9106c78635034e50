"""Clocks that step, and that differ between machines: nobody waits longer, or is lost, for that."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.support.stores import Clock, add, job_of

from halocline_service.jobs.setbacks import LONGEST_WAIT, Cause, Interruption
from halocline_service.store.base import Store
from halocline_service.store.sql.migrate import upgrade
from halocline_service.store.sql.store import open_store

STEPS = pytest.mark.parametrize("step", [-86_400, -3600, -60, -30, 30, 60, 3600, 86_400])
Open = Callable[..., Store]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open one database in several processes, as it were: each has its own clocks."""
    url = f"sqlite:///{tmp_path / 'test.sqlite3'}"
    upgrade(url)
    with ExitStack() as stack:

        def make(clock: Clock, ticks: Clock) -> Store:
            made = open_store(url, clock=clock, ticks=ticks)
            stack.callback(made.close)
            return made

        yield make


def given_back(store: Store, *, pause: float) -> str:
    job = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    assert store.jobs.give_back(held.lease, Interruption(Cause.LOST, "x", pause=pause))
    return job


@STEPS
def test_a_step_neither_ends_a_wait_nor_prolongs_it(
    store: Store, clock: Clock, ticks: Clock, step: float
) -> None:
    given_back(store, pause=10.0)
    clock.now += step
    assert store.jobs.claim("w") is None
    ticks.now += 9.9
    assert store.jobs.claim("w") is None
    ticks.now += 0.2
    assert store.jobs.claim("w")


@STEPS
def test_another_process_waits_as_long_by_its_own_clock(opened: Open, step: float) -> None:
    """Losses are borne for as long as if all clocks were one."""
    here, there, ticks = Clock(), Clock(step), Clock()
    first, second = opened(here, ticks), opened(there, ticks)
    job = given_back(first, pause=10.0)
    assert second.jobs.claim("v") is None  # it begins to count
    ticks.now += 9.9
    assert second.jobs.claim("v") is None
    ticks.now += 0.2
    held = second.jobs.claim("v")
    assert held is not None
    assert (held.id, held.retry_wait) == (job, None)


def test_a_wait_begins_anew_with_a_process_and_each_attempt(opened: Open) -> None:
    ticks = Clock()
    job = given_back(opened(Clock(), ticks), pause=10.0)
    ticks.now += 9.9
    later = opened(Clock(), ticks)
    assert later.jobs.claim("v") is None
    ticks.now += 9.9
    assert later.jobs.claim("v") is None
    ticks.now += 0.2
    held = later.jobs.claim("v")
    assert held is not None
    assert later.jobs.give_back(held.lease, Interruption(Cause.LOST, "x", pause=10.0))
    assert job_of(later, job).retry_wait == 20.0
    ticks.now += 19.9
    assert later.jobs.claim("v") is None
    ticks.now += 0.2
    assert later.jobs.claim("v")


def test_a_job_that_was_dismissed_while_it_waited_stays_so(store: Store, ticks: Clock) -> None:
    job = given_back(store, pause=10.0)
    assert store.jobs.cancel(job, owner="ann")
    ticks.now += LONGEST_WAIT
    assert store.jobs.claim("w") is None


def test_presence(store: Store, clock: Clock, ticks: Clock) -> None:
    store.presence.beat("d1", {"pid": 1})
    clock.now += 20
    ticks.now += 20
    store.presence.beat("d2", {"pid": 2})
    store.presence.beat("d2", {"pid": 3})
    assert list(store.presence.alive(within=30)) == [{"pid": 1}, {"pid": 3}]
    assert list(store.presence.alive(within=10)) == [{"pid": 3}]


@STEPS
def test_a_step_makes_nobody_absent_or_present(
    store: Store, clock: Clock, ticks: Clock, step: float
) -> None:
    store.presence.beat("d", {"pid": 1})
    assert store.presence.alive(within=30)
    clock.now += step
    assert store.presence.alive(within=30)
    ticks.now += 29
    assert store.presence.alive(within=30)
    ticks.now += 2
    assert not store.presence.alive(within=30)
    store.presence.beat("d", {"pid": 1})
    assert store.presence.alive(within=30)


@STEPS
def test_a_dispatcher_whose_clock_differs_is_heard_of_with_its_next_beat(
    opened: Open, step: float
) -> None:
    here, there, ticks = Clock(), Clock(step), Clock()
    asks, beats = opened(here, ticks), opened(there, ticks)
    for _ in range(3):
        beats.presence.beat("d", {})
        asks.presence.alive(within=30)
        for clock in (here, there, ticks):
            clock.now += 10
    assert asks.presence.alive(within=30)
    ticks.now += 25
    assert not asks.presence.alive(within=30)


def test_what_was_there_before_is_as_old_as_the_clocks_say(opened: Open) -> None:
    """Else a dispatcher that ended an hour ago would be present to whoever asks first."""
    clock, ticks = Clock(), Clock()
    opened(clock, ticks).presence.beat("d", {})
    clock.now += 20
    ticks.now += 20
    asks = opened(clock, ticks)
    assert asks.presence.alive(within=30)
    ticks.now += 11
    assert not asks.presence.alive(within=30)
    clock.now += 3600
    assert not opened(clock, ticks).presence.alive(within=30)


def test_who_asks_seldom_is_not_told_of_those_long_gone(opened: Open) -> None:
    """What was written since the last look may have been written long ago."""
    clock, ticks = Clock(), Clock()
    asks, beats = opened(clock, ticks), opened(clock, ticks)
    beats.presence.beat("d", {})
    assert asks.presence.alive(within=30)
    clock.now += 1
    beats.presence.beat("d", {})
    clock.now += 3599
    ticks.now += 3600
    assert not asks.presence.alive(within=30)


def test_waits_of_an_earlier_version_are_over_soon(tmp_path: Path) -> None:
    path, ticks = tmp_path / "test.sqlite3", Clock()
    upgrade(f"sqlite:///{path}", "0005")
    row = {
        **dict.fromkeys(("id", "owner", "process", "fingerprint", "message"), "x"),
        **dict.fromkeys(("attempt", "crashes", "losses", "reached", "fence", "beats"), 0),
        "request": "{}",
        "state": "queued",
        "progress": 0,
        "max_attempts": 3,
        "created": 1,
        "updated": 1,
        "retry_at": 1e12,
    }
    with closing(sqlite3.connect(path)) as db, db:
        names = ", ".join(row), ", ".join("?" * len(row))
        db.execute("INSERT INTO job (%s) VALUES (%s)" % names, list(row.values()))  # noqa: UP031
    upgrade(f"sqlite:///{path}")
    with closing(open_store(f"sqlite:///{path}", ticks=ticks)) as made:
        assert made.jobs.claim("w") is None
        ticks.now += 1.0
        assert made.jobs.claim("w")
