"""What becomes of a job whose attempt was cut off, on every store."""

from __future__ import annotations

from tests.support.stores import Clock, add, job_of, lose

from halocline_service.jobs.job import Job
from halocline_service.jobs.setbacks import LONGEST_WAIT, Cause, Interruption
from halocline_service.jobs.states import State
from halocline_service.store.base import (
    Store,
)


def test_a_job_that_crashes_is_given_up_soon(store: Store) -> None:
    job = add(store)
    error = {"code": "device", "message": "It ended its worker.", "hint": ""}
    for times in (1, 2):
        held = store.jobs.claim("w")
        assert held is not None
        assert (held.attempt, held.crashes) == (times, times - 1)
        assert store.jobs.give_back(held.lease, Interruption(Cause.CRASHED, "Again.", error=error))
    failed = job_of(store, job)
    assert (failed.state, failed.message, failed.error) == (
        State.FAILED,
        "It ended its worker.",
        error,
    )
    assert failed.finished is not None


def test_a_job_whose_workers_are_lost_is_not_given_up_soon(store: Store) -> None:
    job = add(store)
    for _ in range(19):
        assert store.jobs.claim("w")
        assert lose(store) == [job]
        assert job_of(store, job).state is State.QUEUED
    assert job_of(store, job).message == "Its dispatcher was lost; waiting for another."
    assert store.jobs.claim("w")
    assert lose(store) == [job]
    lost = job_of(store, job)
    assert lost.state is State.FAILED
    assert lost.error is not None
    assert lost.error["code"] == "device"
    assert lost.message == "The job was given up: 20 times it was cut off and had got no further."


def test_progress_forgives_what_happened(store: Store) -> None:
    job = add(store)

    def cut_off(progress: float, cause: Cause) -> Job:
        held = store.jobs.claim("w")
        assert held is not None
        assert store.jobs.record(held.lease, progress=progress, message="x", notes=[])
        assert store.jobs.give_back(held.lease, Interruption(cause, "x"))
        return job_of(store, job)

    assert cut_off(0.5, Cause.LOST).losses == 1
    assert cut_off(0.505, Cause.CRASHED).crashes == 1
    further = cut_off(0.51, Cause.LOST)
    assert (further.crashes, further.losses, further.reached) == (0, 1, 0.51)
    # Each attempt ends where the one before ended: that is no progress.
    assert cut_off(0.51, Cause.CRASHED).state is State.QUEUED
    assert cut_off(0.3, Cause.CRASHED).state is State.FAILED


def test_a_job_waits_before_its_next_attempt(store: Store, ticks: Clock) -> None:
    first, second = add(store), add(store)
    for wait in (2.0, 4.0, 8.0):
        held = store.jobs.claim("w")
        assert held is not None
        assert held.id == first
        assert store.jobs.give_back(held.lease, Interruption(Cause.LOST, "x", pause=2.0))
        other = store.jobs.claim("w")  # others have their turn meanwhile
        assert other is not None
        assert other.id == second
        assert store.jobs.claim("w") is None
        assert store.jobs.give_back(other.lease, Interruption(Cause.STOPPED, "x"))
        ticks.now += wait - 0.1
        assert [each.id for each in _claim_all(store)] == [second]
        ticks.now += 0.2
    assert job_of(store, first).losses == 3


def _claim_all(store: Store) -> list[Job]:
    """Claim what there is, and give it back."""
    claimed: list[Job] = []
    while (job := store.jobs.claim("w")) is not None:
        claimed.append(job)
    for job in claimed:
        store.jobs.give_back(job.lease, Interruption(Cause.STOPPED, "x"))
    return claimed


def test_no_wait_is_long(store: Store, clock: Clock, ticks: Clock) -> None:
    """Neither after many losses, nor where the clock was set back meanwhile."""
    add(store)
    for _ in range(12):
        held = store.jobs.claim("w")
        assert held is not None
        assert store.jobs.give_back(held.lease, Interruption(Cause.LOST, "x", pause=2.0))
        ticks.now += LONGEST_WAIT
    held = store.jobs.claim("w")
    assert held is not None
    assert store.jobs.give_back(held.lease, Interruption(Cause.LOST, "x", pause=2.0))
    clock.now -= 3600
    ticks.now += LONGEST_WAIT
    assert store.jobs.claim("w")


def test_of_jobs_that_crashed_one_runs_at_a_time(store: Store) -> None:
    """Else those that run beside a job that ends its worker would be given up with it."""
    first, second, third = (add(store, owner) for owner in ("ann", "bob", "eve"))
    running = [store.jobs.claim("w") for _ in range(2)]
    for job in running:
        assert job is not None
        assert store.jobs.give_back(job.lease, Interruption(Cause.CRASHED, "x"))
    assert [store.jobs.claim("w") for _ in range(3)][2] is None
    waiting = {each for each in (first, second, third) if job_of(store, each).state is State.QUEUED}
    assert len(waiting & {first, second}) == 1
    (crashed,) = {first, second} - waiting
    assert store.jobs.record(job_of(store, crashed).lease, progress=0.1, message="x", notes=[])
    assert store.jobs.claim("w")  # it got further, and is trusted again


def test_a_soft_stop_gives_the_attempt_back(store: Store) -> None:
    job = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    assert store.jobs.give_back(held.lease, Interruption(Cause.STOPPED, "Stopped.", pause=9.0))
    waiting = job_of(store, job)
    assert (waiting.state, waiting.attempt, waiting.fence) == (State.QUEUED, 0, 1)
    assert (waiting.crashes, waiting.losses, waiting.retry_wait) == (0, 0, None)
    again = store.jobs.claim("w")
    assert again is not None
    assert again.started == held.started
