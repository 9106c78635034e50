"""One test of what a store promises, run on every store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from halocline_service.jobs.job import JobRequest, Lease
from halocline_service.jobs.states import Event, State
from halocline_service.store.base import IdempotencyConflict, JobQuery, Note, Page, QueueFull, Store
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
    claimed = [store.jobs.claim("w", seconds=30) for _ in range(3)]
    assert [each and each.id for each in claimed] == [first, second, None]
    assert claimed[0] is not None
    assert (claimed[0].state, claimed[0].attempt, claimed[0].fence) == (State.RUNNING, 1, 1)


def test_a_stale_fence_writes_nothing(store: Store, clock: Clock) -> None:
    job = add(store)
    old = store.jobs.claim("w1", seconds=30)
    assert old is not None
    assert store.jobs.recover() == []
    clock.now += 31
    assert store.jobs.recover() == [job]
    new = store.jobs.claim("w2", seconds=30)
    assert new is not None
    assert (new.fence, new.attempt) == (2, 2)
    before = store.jobs.get(job, owner=None)
    events = store.jobs.events(job)
    assert not store.jobs.renew(old.lease, seconds=30)
    assert not store.jobs.record(old.lease, progress=0.9, message="x", notes=[Note("note")])
    for event in (Event.SUCCEED, Event.FAIL, Event.GIVE_BACK):
        assert not store.jobs.settle(old.lease, event, message="x", outputs={"a": 1})
    store.jobs.drop(old.lease)
    assert store.jobs.get(job, owner=None) == before
    assert store.jobs.events(job) == events
    assert store.jobs.record(new.lease, progress=0.5, message="Half.", notes=[Note("note")])


def test_attempts_are_bounded(store: Store, clock: Clock) -> None:
    job = add(store)
    for _ in range(2):
        assert store.jobs.claim("w", seconds=30)
        clock.now += 31
        assert store.jobs.recover() == [job]
    lost = store.jobs.get(job, owner=None)
    assert lost is not None
    assert lost.state is State.FAILED
    assert lost.error is not None
    assert lost.error["code"] == "device"
    assert lost.message == "The job was given up after 2 attempts: its workers were lost."


def test_a_renewed_lease_does_not_run_out(store: Store, clock: Clock) -> None:
    add(store)
    held = store.jobs.claim("w", seconds=30)
    assert held is not None
    clock.now += 20
    assert store.jobs.renew(held.lease, seconds=30)
    clock.now += 20
    assert store.jobs.recover() == []


def test_a_result_is_published_once(store: Store, clock: Clock) -> None:
    job = add(store)
    held = store.jobs.claim("w", seconds=30)
    assert held is not None
    clock.now += 5
    assert store.jobs.settle(held.lease, Event.SUCCEED, message="Done.", outputs={"a": 1})
    done = store.jobs.get(job, owner="ann")
    assert done is not None
    assert (done.state, done.progress, done.outputs) == (State.SUCCEEDED, 1.0, {"a": 1})
    assert (done.finished, done.lease_until, done.error) == (clock.now, None, None)
    assert not store.jobs.settle(held.lease, Event.FAIL, message="Late.", error={"code": "x"})
    assert store.jobs.cancel(job, owner="ann") is None
    assert store.jobs.get(job, owner="ann") == done


def test_a_soft_stop_gives_the_attempt_back(store: Store) -> None:
    job = add(store)
    held = store.jobs.claim("w", seconds=30)
    assert held is not None
    assert store.jobs.settle(held.lease, Event.GIVE_BACK, message="Stopped.", refund=True)
    waiting = store.jobs.get(job, owner=None)
    assert waiting is not None
    assert (waiting.state, waiting.attempt, waiting.fence) == (State.QUEUED, 0, 1)
    again = store.jobs.claim("w", seconds=30)
    assert again is not None
    assert again.started == held.started


def test_cancelling_voids_the_lease_and_keeps_who_writes(store: Store) -> None:
    job = add(store)
    held = store.jobs.claim("w", seconds=30)
    assert held is not None
    ended = store.jobs.cancel(job, owner="ann")
    assert ended is not None
    assert (ended.state, ended.lease_owner) == (State.CANCELLED, "w")
    assert not store.jobs.renew(held.lease, seconds=30)
    store.jobs.drop(held.lease)
    left = store.jobs.get(job, owner=None)
    assert left is not None
    assert left.lease_owner is None
    assert store.jobs.remove(job, owner="ann") == left
    assert store.jobs.get(job, owner=None) is None
    assert store.jobs.events(job) == []


def test_an_unfinished_job_is_not_removed(store: Store) -> None:
    job = add(store)
    assert store.jobs.remove(job, owner="ann") is None
    assert store.jobs.get(job, owner="ann") is not None


def test_events_are_numbered_in_order(store: Store) -> None:
    job, other = add(store), add(store)
    held = store.jobs.claim("w", seconds=30)
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
    held = store.jobs.claim("w", seconds=300)
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
    store.jobs.claim("w", seconds=30)
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
    assert not store.jobs.renew(Lease("nothing", 1), seconds=1)
    store.jobs.drop(Lease("nothing", 1))
    store.check()
