"""One test of what a store promises, run on every store."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halocline_service.jobs.job import Held, Job, JobRequest, Lease, Removed, is_id
from halocline_service.jobs.setbacks import LONGEST_WAIT, Cause
from halocline_service.jobs.states import Event, State
from halocline_service.store.base import (
    IdempotencyConflict,
    JobQuery,
    Note,
    Page,
    QueueFull,
    Removal,
    Store,
    UploadGone,
    Wish,
)
from halocline_service.store.memory import memory_store
from halocline_service.store.migrate import upgrade
from halocline_service.store.sql import open_store


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    if request.param == "memory":
        made = memory_store(clock=clock)
    elif request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'test.sqlite3'}"
        upgrade(url)
        made = open_store(url, clock=clock)
    else:
        made = open_store(request.getfixturevalue("postgres"), clock=clock)
    yield made
    made.close()


def asked(
    owner: str = "ann",
    *,
    key: str | None = None,
    fingerprint: str = "f",
    process: str = "stencil",
) -> JobRequest:
    return JobRequest(
        owner=owner,
        process=process,
        request={"inputs": {"steps": 3}},
        fingerprint=fingerprint,
        idempotency_key=key,
        max_attempts=2,
    )


def add(store: Store, owner: str = "ann", process: str = "stencil") -> str:
    return store.jobs.add(asked(owner, process=process), queue_limit=100).id


def test_a_job_is_stored_as_asked(store: Store, clock: Clock) -> None:
    made = store.jobs.add(asked(), queue_limit=1)
    assert made == store.jobs.get(made.id, owner="ann") == store.jobs.get(made.id, owner=None)
    assert made.state is State.QUEUED
    assert made.request == {"inputs": {"steps": 3}}
    assert (made.created, made.started, made.finished, made.fence) == (clock.now, None, None, 0)
    assert [each.data["status"] for each in store.jobs.events(made.id)] == ["accepted"]


def test_other_owners_see_nothing(store: Store) -> None:
    job = add(store)
    assert store.jobs.get(job, owner="bob") is None
    assert store.jobs.cancel(job, owner="bob") is None
    assert store.jobs.remove(job, owner="bob") is None
    assert store.jobs.list(JobQuery(owner="bob")) == []
    upload = store.uploads.add("ann", limit=1)
    assert store.uploads.get(upload.id, owner="bob") is None
    assert store.uploads.complete(upload.id, owner="bob", keys=1, size=1) is None
    assert store.uploads.remove(upload.id, owner="bob") is None
    assert store.uploads.get(upload.id, owner=None) == upload


def test_an_idempotency_key_gives_the_same_job(store: Store) -> None:
    first = store.jobs.add(asked(key="k"), queue_limit=1)
    assert store.jobs.add(asked(key="k"), queue_limit=1) == first
    with pytest.raises(IdempotencyConflict):
        store.jobs.add(asked(key="k", fingerprint="other"), queue_limit=1)
    assert store.jobs.add(asked("bob", key="k"), queue_limit=1).id != first.id


def test_the_queue_of_an_owner_is_bounded(store: Store) -> None:
    job = store.jobs.add(asked(), queue_limit=1).id
    with pytest.raises(QueueFull):
        store.jobs.add(asked(), queue_limit=1)
    store.jobs.add(asked("bob"), queue_limit=1)
    store.jobs.cancel(job, owner="ann")
    store.jobs.add(asked(), queue_limit=1)


def test_claims_go_in_order_and_once(store: Store) -> None:
    first, second = add(store), add(store)
    claimed = [store.jobs.claim("w") for _ in range(3)]
    assert [each and each.id for each in claimed] == [first, second, None]
    assert claimed[0] is not None
    assert (claimed[0].state, claimed[0].attempt, claimed[0].fence) == (State.RUNNING, 1, 1)


def lose(store: Store) -> list[str]:
    """Have all leases taken, as if their holders were lost."""
    return list(store.jobs.recover(store.jobs.held()))


def job_of(store: Store, job_id: str) -> Job:
    found = store.jobs.get(job_id, owner=None)
    assert found is not None
    return found


def test_a_stale_fence_writes_nothing(store: Store) -> None:
    job = add(store)
    old = store.jobs.claim("w1")
    assert old is not None
    assert lose(store) == [job]
    new = store.jobs.claim("w2")
    assert new is not None
    assert (new.fence, new.attempt) == (2, 2)
    before = store.jobs.get(job, owner=None)
    events = store.jobs.events(job)
    assert not store.jobs.renew(old.lease)
    assert not store.jobs.record(old.lease, progress=0.9, message="x", notes=[Note("note")])
    for event in (Event.SUCCEED, Event.FAIL):
        assert not store.jobs.settle(old.lease, event, message="x", outputs={"a": 1})
    for cause in Cause:
        assert not store.jobs.give_back(old.lease, cause, message="x")
    store.jobs.drop(old.lease)
    assert store.jobs.get(job, owner=None) == before
    assert store.jobs.events(job) == events
    assert store.jobs.record(new.lease, progress=0.5, message="Half.", notes=[Note("note")])


def test_a_lease_that_was_renewed_is_not_taken(store: Store, clock: Clock) -> None:
    """Whatever clocks say: a lease is counted, and not timed."""
    add(store)
    job = store.jobs.claim("w")
    assert job is not None
    seen = store.jobs.held()
    assert seen == [Held(job.lease, "w", 0)]
    for step in (-3600, 3600, 86_400):
        clock.now += step
        assert store.jobs.renew(job.lease)
        assert store.jobs.recover(seen) == []
        seen = store.jobs.held()
    assert store.jobs.recover([]) == []
    assert store.jobs.recover(seen) == [job.id]
    assert store.jobs.recover(seen) == store.jobs.held() == []


def test_a_job_that_crashes_is_given_up_soon(store: Store) -> None:
    job = add(store)
    error = {"code": "device", "message": "It ended its worker.", "hint": ""}
    for times in (1, 2):
        held = store.jobs.claim("w")
        assert held is not None
        assert (held.attempt, held.crashes) == (times, times - 1)
        assert store.jobs.give_back(held.lease, Cause.CRASHED, message="Again.", error=error)
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
        assert store.jobs.give_back(held.lease, cause, message="x")
        return job_of(store, job)

    assert cut_off(0.5, Cause.LOST).losses == 1
    assert cut_off(0.505, Cause.CRASHED).crashes == 1
    further = cut_off(0.51, Cause.LOST)
    assert (further.crashes, further.losses, further.reached) == (0, 1, 0.51)
    # Each attempt ends where the one before ended: that is no progress.
    assert cut_off(0.51, Cause.CRASHED).state is State.QUEUED
    assert cut_off(0.3, Cause.CRASHED).state is State.FAILED


def test_a_job_waits_before_its_next_attempt(store: Store, clock: Clock) -> None:
    first, second = add(store), add(store)
    for wait in (2.0, 4.0, 8.0):
        held = store.jobs.claim("w")
        assert held is not None
        assert held.id == first
        assert store.jobs.give_back(held.lease, Cause.LOST, message="x", pause=2.0)
        other = store.jobs.claim("w")  # others have their turn meanwhile
        assert other is not None
        assert other.id == second
        assert store.jobs.claim("w") is None
        assert store.jobs.give_back(other.lease, Cause.STOPPED, message="x")
        clock.now += wait - 0.1
        assert [each.id for each in _claim_all(store)] == [second]
        clock.now += 0.2
    assert job_of(store, first).losses == 3


def _claim_all(store: Store) -> list[Job]:
    """Claim what there is, and give it back."""
    claimed: list[Job] = []
    while (job := store.jobs.claim("w")) is not None:
        claimed.append(job)
    for job in claimed:
        store.jobs.give_back(job.lease, Cause.STOPPED, message="x")
    return claimed


def test_no_wait_is_long(store: Store, clock: Clock) -> None:
    """Neither after many losses, nor where the clock was set back meanwhile."""
    add(store)
    for _ in range(12):
        held = store.jobs.claim("w")
        assert held is not None
        assert store.jobs.give_back(held.lease, Cause.LOST, message="x", pause=2.0)
        clock.now += LONGEST_WAIT
    held = store.jobs.claim("w")
    assert held is not None
    assert store.jobs.give_back(held.lease, Cause.LOST, message="x", pause=2.0)
    clock.now -= 3600
    assert store.jobs.claim("w")


def test_of_jobs_that_crashed_one_runs_at_a_time(store: Store) -> None:
    """Else those that run beside a job that ends its worker would be given up with it."""
    first, second, third = (add(store, owner) for owner in ("ann", "bob", "eve"))
    running = [store.jobs.claim("w") for _ in range(2)]
    for job in running:
        assert job is not None
        assert store.jobs.give_back(job.lease, Cause.CRASHED, message="x")
    assert [store.jobs.claim("w") for _ in range(3)][2] is None
    waiting = {each for each in (first, second, third) if job_of(store, each).state is State.QUEUED}
    assert len(waiting & {first, second}) == 1
    (crashed,) = {first, second} - waiting
    assert store.jobs.record(job_of(store, crashed).lease, progress=0.1, message="x", notes=[])
    assert store.jobs.claim("w")  # it got further, and is trusted again


def test_owners_take_turns(store: Store) -> None:
    for _ in range(4):
        add(store, "ann")
    add(store, "bob")
    add(store, "bob")
    add(store, "eve")

    def turns(*, done: bool) -> list[str]:
        owners: list[str] = []
        while (job := store.jobs.claim("w")) is not None:
            owners.append(job.owner)
            if done:
                store.jobs.settle(job.lease, Event.SUCCEED, message="x")
        return owners

    assert turns(done=True) == ["ann", "bob", "eve", "ann", "bob", "ann", "ann"]
    for owner in ("ann", "ann", "ann", "bob", "bob", "eve"):
        add(store, owner)
    # Those who have fewer jobs that run go first, and of these those who were served before.
    assert turns(done=False) == ["eve", "bob", "ann", "bob", "ann", "ann"]


def test_removing_finished_jobs_gains_no_turn(store: Store) -> None:
    for _ in range(2):
        job = add(store, "ann")
        held = store.jobs.claim("w")
        assert held is not None
        store.jobs.settle(held.lease, Event.SUCCEED, message="x")
        store.jobs.remove(job, owner="ann")
    add(store, "ann")
    add(store, "bob")
    assert [job and job.owner for job in (store.jobs.claim("w"), store.jobs.claim("w"))] == [
        "bob",
        "ann",
    ]


def test_an_owner_is_given_so_many_at_a_worker(store: Store) -> None:
    for owner in ("ann", "ann", "ann", "bob"):
        add(store, owner)
    wish = Wish(most=1)
    claimed = [store.jobs.claim("w", wish) for _ in range(3)]
    assert [job and job.owner for job in claimed] == ["ann", "bob", None]
    assert store.jobs.claim("other", wish)
    assert store.jobs.claim("other", wish) is None
    assert store.jobs.claim("w")


def test_a_worker_takes_jobs_of_the_processes_that_it_can_run(store: Store) -> None:
    add(store)
    echo = add(store, process="echo")
    claimed = store.jobs.claim("w", Wish(processes=frozenset({"echo"})))
    assert claimed is not None
    assert claimed.id == echo
    assert store.jobs.claim("w", Wish(processes=frozenset({"echo"}))) is None
    assert store.jobs.claim("w", Wish(processes=frozenset())) is None


def test_queued_jobs_are_told_why_they_wait(store: Store) -> None:
    running = add(store)
    store.jobs.claim("w")
    job, echo = add(store), add(store, process="echo")
    processes = frozenset({"stencil"})
    assert store.jobs.explain("No worker.", processes=processes) == 1
    assert store.jobs.explain("No worker.", processes=processes) == 0
    assert job_of(store, job).message == "No worker."
    assert job_of(store, echo).message == "Waiting for a dispatcher."
    assert job_of(store, running).message == "Started."
    (first, second) = store.jobs.events(job)
    assert (first.data["message"], second.data["message"]) == (
        "Waiting for a dispatcher.",
        "No worker.",
    )
    assert second.data["status"] == "accepted"
    assert store.jobs.explain("x", processes=frozenset()) == 0


def test_a_result_is_published_once(store: Store, clock: Clock) -> None:
    job = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    clock.now += 5
    assert store.jobs.settle(held.lease, Event.SUCCEED, message="Done.", outputs={"a": 1})
    done = store.jobs.get(job, owner="ann")
    assert done is not None
    assert (done.state, done.progress, done.outputs) == (State.SUCCEEDED, 1.0, {"a": 1})
    assert (done.finished, done.lease_owner, done.error) == (clock.now, None, None)
    assert not store.jobs.settle(held.lease, Event.FAIL, message="Late.", error={"code": "x"})
    assert store.jobs.cancel(job, owner="ann") is None
    assert store.jobs.get(job, owner="ann") == done


def test_a_soft_stop_gives_the_attempt_back(store: Store) -> None:
    job = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    assert store.jobs.give_back(held.lease, Cause.STOPPED, message="Stopped.", pause=9.0)
    waiting = job_of(store, job)
    assert (waiting.state, waiting.attempt, waiting.fence) == (State.QUEUED, 0, 1)
    assert (waiting.crashes, waiting.losses, waiting.retry_at) == (0, 0, None)
    again = store.jobs.claim("w")
    assert again is not None
    assert again.started == held.started


def test_who_writes_for_a_job_that_was_cancelled_is_known_until_they_are_lost(store: Store) -> None:
    job = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    store.jobs.cancel(job, owner="ann")
    seen = store.jobs.held()
    assert not store.jobs.renew(held.lease)
    assert store.jobs.recover(seen) == []
    assert lose(store) == [job]
    left = job_of(store, job)
    assert (left.state, left.lease_owner) == (State.CANCELLED, None)


def test_cancelling_voids_the_lease_and_keeps_who_writes(store: Store) -> None:
    job = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    ended = store.jobs.cancel(job, owner="ann")
    assert ended is not None
    assert (ended.state, ended.lease_owner) == (State.CANCELLED, "w")
    assert not store.jobs.renew(held.lease)
    store.jobs.drop(held.lease)
    left = store.jobs.get(job, owner=None)
    assert left is not None
    assert left.lease_owner is None
    assert store.jobs.remove(job, owner="ann") == Removal(left, ())
    assert store.jobs.get(job, owner=None) is None
    assert store.jobs.events(job) == []


def test_an_unfinished_job_is_not_removed(store: Store) -> None:
    job = add(store)
    assert store.jobs.remove(job, owner="ann") is None
    assert store.jobs.get(job, owner="ann") is not None


def test_events_are_numbered_in_order(store: Store) -> None:
    job, other = add(store), add(store)
    held = store.jobs.claim("w")
    assert held is not None
    notes = [Note("block", {"done": number}) for number in range(5)]
    store.jobs.record(held.lease, progress=0.5, message="Half.", notes=notes)
    events = store.jobs.events(job)
    assert [each.kind for each in events] == ["status", "status", *["block"] * 5]
    assert [each.seq for each in events] == sorted({each.seq for each in events})
    rest = store.jobs.events(job, after=events[3].seq, limit=2)
    assert [each.data["done"] for each in rest] == [2, 3]
    assert [each.kind for each in store.jobs.events(job, kind="status")] == ["status"] * 2
    assert len(store.jobs.events(other)) == 1


def test_listing_filters_and_pages(store: Store, clock: Clock) -> None:
    first = add(store)
    clock.now += 10
    second = add(store, process="echo")
    clock.now += 10
    third = add(store)
    held = store.jobs.claim("w")
    assert held is not None
    clock.now += 7

    def ids(**filters: Any) -> list[str]:
        return [each.id for each in store.jobs.list(JobQuery(owner="ann", **filters))]

    assert ids() == [third, second, first]
    assert ids(page=Page(limit=1)) == [third]
    assert ids(page=Page(limit=2, offset=1)) == [second, first]
    assert ids(page=Page(before=third)) == [second, first]
    assert ids(page=Page(before=third, limit=1)) == [second]
    assert ids(page=Page(after=first)) == [third, second]
    assert ids(page=Page(after=first, limit=1)) == [second]
    assert ids(page=Page(after=first, before=third)) == [second]
    assert ids(page=Page(after=third)) == ids(page=Page(before=first)) == []
    assert ids(processes=("echo",)) == [second]
    assert ids(states=(State.RUNNING,)) == [first]
    assert ids(created_from=held.created + 10, created_to=held.created + 10) == [second]
    assert ids(min_duration=7) == [first]
    assert ids(min_duration=8) == []
    assert ids(max_duration=7) == [first]
    assert ids(max_duration=6) == []


def test_counts_and_the_oldest(store: Store, clock: Clock) -> None:
    assert store.jobs.oldest_queued() is None
    first = add(store)
    made = clock.now
    clock.now += 3
    second = add(store)
    assert store.jobs.oldest_queued() == made
    store.jobs.claim("w")
    counts = store.jobs.counts()
    assert set(counts) == set(State)
    assert (counts[State.QUEUED], counts[State.RUNNING], counts[State.FAILED]) == (1, 1, 0)
    assert store.jobs.known() == {first, second}


def test_an_upload_is_frozen_once(store: Store, clock: Clock) -> None:
    upload = store.uploads.add("ann", limit=1)
    with pytest.raises(QueueFull):
        store.uploads.add("ann", limit=1)
    assert not upload.is_complete
    done = store.uploads.complete(upload.id, owner="ann", keys=3, size=10)
    assert done is not None
    assert (done.completed, done.keys, done.bytes) == (clock.now, 3, 10)
    assert store.uploads.complete(upload.id, owner="ann", keys=4, size=11) is None
    assert store.uploads.get(upload.id, owner="ann") == done
    assert store.uploads.remove(upload.id, owner="ann") == done
    assert store.uploads.get(upload.id, owner="ann") is None


def test_an_idempotency_key_gives_the_same_upload(store: Store) -> None:
    upload = store.uploads.add("ann", limit=1, idempotency_key="k")
    assert store.uploads.add("ann", limit=1, idempotency_key="k") == upload
    with pytest.raises(QueueFull):
        store.uploads.add("ann", limit=1, idempotency_key="other")
    assert store.uploads.add("bob", limit=1, idempotency_key="k").id != upload.id
    done = store.uploads.complete(upload.id, owner="ann", keys=3, size=10)
    assert store.uploads.add("ann", limit=1, idempotency_key="k") == done
    store.uploads.remove(upload.id, owner="ann")
    assert store.uploads.add("ann", limit=1, idempotency_key="k").id != upload.id
    assert len({store.uploads.add("eve", limit=2).id for _ in range(2)}) == 2


def test_uploads_that_were_left_are_found(store: Store, clock: Clock) -> None:
    first, done, second = (store.uploads.add(owner, limit=9) for owner in ("ann", "ann", "bob"))
    store.uploads.complete(done.id, owner="ann", keys=1, size=1)
    clock.now += 10.0
    store.uploads.add("ann", limit=9)
    assert list(store.uploads.unfinished(before=clock.now)) == [first, second]
    assert list(store.uploads.unfinished(before=first.created)) == []


def test_uploads_are_known_whoever_owns_them(store: Store) -> None:
    first, second, third = (store.uploads.add(owner, limit=9) for owner in ("ann", "bob", "ann"))
    store.uploads.complete(second.id, owner="bob", keys=1, size=1)
    store.uploads.remove(third.id, owner="ann")
    assert store.uploads.known() == {first.id, second.id}


def test_uploads_are_listed_in_pages(store: Store) -> None:
    first, second, third = (store.uploads.add("ann", limit=9) for _ in range(3))
    store.uploads.add("bob", limit=9)
    assert list(store.uploads.list("ann", Page())) == [third, second, first]
    assert list(store.uploads.list("ann", Page(limit=1, offset=1))) == [second]
    assert list(store.uploads.list("ann", Page(before=third.id, limit=1))) == [second]
    assert list(store.uploads.list("ann", Page(after=first.id, limit=1))) == [second]


def test_keys(store: Store) -> None:
    key = store.keys.add("k1", owner="ann", digest="d" * 64)
    assert store.keys.get("k1") == key
    assert store.keys.get("k2") is None
    assert list(store.keys.list()) == [key]
    assert store.keys.revoke("k1")
    assert not store.keys.revoke("k1")
    assert store.keys.get("k1") is None


def test_presence(store: Store, clock: Clock) -> None:
    store.presence.beat("d1", {"pid": 1})
    clock.now += 20
    store.presence.beat("d2", {"pid": 2})
    store.presence.beat("d2", {"pid": 3})
    assert list(store.presence.alive(within=30)) == [{"pid": 1}, {"pid": 3}]
    assert list(store.presence.alive(within=10)) == [{"pid": 3}]


def test_a_lease_on_nothing(store: Store) -> None:
    assert not store.jobs.renew(Lease("nothing", 1))
    store.jobs.drop(Lease("nothing", 1))
    store.check()


def reading_uploads(store: Store, *uploads: str, owner: str = "ann") -> str:
    """Add a job that reads uploads."""
    request = replace(asked(owner), uploads=uploads)
    return store.jobs.add(request, queue_limit=100).id


def sent(store: Store, owner: str = "ann", *, digest: str = "d", kept: bool = False) -> str:
    upload = store.uploads.add(owner, limit=9, digest=digest, kept=kept)
    store.uploads.complete(upload.id, owner=owner, keys=1, size=1)
    return upload.id


def remove(store: Store, job: str, owner: str = "ann") -> list[str]:
    """Remove a job; give the uploads that went with it."""
    store.jobs.cancel(job, owner=owner)
    removal = store.jobs.remove(job, owner=owner)
    assert removal is not None
    return [each.id for each in removal.uploads]


def gone(store: Store) -> set[tuple[str, str]]:
    return {(each.kind, each.id) for each in store.removed.list(before=float("inf"))}


def test_a_database_has_one_identity(store: Store) -> None:
    assert store.identity() == store.identity()
    assert is_id(store.identity())
    assert store.identity() != memory_store().identity()


def test_what_was_removed_is_remembered_until_it_is_gone(store: Store, clock: Clock) -> None:
    job, upload = add(store), store.uploads.add("ann", limit=9).id
    store.jobs.cancel(job, owner="ann")
    assert gone(store) == set()
    assert store.jobs.remove(job, owner="bob") is None
    assert store.uploads.remove(upload, owner="bob") is None
    assert gone(store) == set()
    store.jobs.remove(job, owner="ann")
    clock.now += 10
    store.uploads.remove(upload, owner="ann")
    assert gone(store) == {("job", job), ("upload", upload)}
    (first,) = store.removed.list(before=clock.now)
    assert first == Removed("job", job, clock.now - 10)
    store.removed.forget(first)
    store.removed.forget(first)
    assert gone(store) == {("upload", upload)}


def test_the_same_content_is_sent_once(store: Store) -> None:
    first = store.uploads.add("ann", limit=9, digest="d")
    still_open = store.uploads.add("ann", limit=9, digest="d")
    assert still_open.id != first.id  # nothing is there yet
    done = store.uploads.complete(first.id, owner="ann", keys=1, size=1)
    assert done is not None
    assert done.digest == "d"
    assert store.uploads.add("ann", limit=0, digest="d", idempotency_key="k") == done
    assert store.uploads.add("ann", limit=9, digest="e").id not in (first.id, still_open.id)
    assert store.uploads.add("ann", limit=9).id != first.id
    assert store.uploads.add("bob", limit=9, digest="d").id != first.id


def test_an_upload_is_kept_once_that_is_asked_for(store: Store) -> None:
    upload = sent(store)
    assert not store.uploads.add("ann", limit=9, digest="d", kept=False).kept
    assert store.uploads.add("ann", limit=9, digest="d", kept=True).kept
    assert store.uploads.add("ann", limit=9, digest="d", kept=False).kept
    found = store.uploads.get(upload, owner="ann")
    assert found is not None
    assert found.kept


def test_an_upload_goes_with_the_last_job_that_reads_it(store: Store) -> None:
    upload, kept = sent(store), sent(store, digest="e", kept=True)
    first, second = (reading_uploads(store, upload, kept) for _ in range(2))
    assert remove(store, first) == []
    assert remove(store, second) == [upload]
    assert store.uploads.get(upload, owner=None) is None
    assert store.uploads.get(kept, owner=None) is not None
    assert gone(store) == {("job", first), ("job", second), ("upload", upload)}


def test_a_job_reads_what_is_there_complete_and_its_owners(store: Store) -> None:
    upload, other = sent(store), sent(store, "bob")
    still_open = store.uploads.add("ann", limit=9).id
    store.uploads.release(upload)
    for name in (upload, other, still_open, "x"):
        with pytest.raises(UploadGone) as caught:
            reading_uploads(store, sent(store, digest="e", kept=True), name)
        assert caught.value.upload_id == name
    assert store.jobs.known() == set()


def test_uploads_for_jobs_that_never_came_are_found(store: Store, clock: Clock) -> None:
    upload, used, kept = sent(store), sent(store, digest="e"), sent(store, digest="f", kept=True)
    job = reading_uploads(store, used)
    still_open = store.uploads.add("ann", limit=9, kept=False).id
    assert list(store.uploads.unused(before=clock.now)) == []
    clock.now += 1
    assert [each.id for each in store.uploads.unused(before=clock.now)] == [upload]
    for name in (used, kept, still_open, "x"):
        assert store.uploads.release(name) is None
    released = store.uploads.release(upload)
    assert released is not None
    assert gone(store) == {("upload", upload)}
    assert store.uploads.known() == {used, kept, still_open}
    assert remove(store, job) == [used]


def test_an_upload_that_a_job_has_read_may_be_removed(store: Store) -> None:
    upload = sent(store, kept=True)
    job = reading_uploads(store, upload)
    assert store.uploads.remove(upload, owner="ann") is not None
    assert remove(store, job) == []
