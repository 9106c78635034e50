"""What a store promises of jobs and their leases; run on every store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.stores import Clock, add, asked, job_of, lose

from halocline_service.jobs.job import Ending, Held, Lease, UploadRequest, is_id
from halocline_service.jobs.setbacks import Cause, Interruption
from halocline_service.jobs.states import Event, State
from halocline_service.store.base import (
    IdempotencyConflict,
    JobQuery,
    Note,
    Page,
    QueueFull,
    Removal,
    Store,
    Wish,
)
from halocline_service.store.memory.store import memory_store


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
    upload = store.uploads.add(UploadRequest(owner="ann"), limit=1)
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
        assert not store.jobs.settle(old.lease, Ending(event, "x", outputs={"a": 1}))
    for cause in Cause:
        assert not store.jobs.give_back(old.lease, Interruption(cause, "x"))
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
                store.jobs.settle(job.lease, Ending(Event.SUCCEED, "x"))
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
        store.jobs.settle(held.lease, Ending(Event.SUCCEED, "x"))
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
    assert store.jobs.settle(held.lease, Ending(Event.SUCCEED, "Done.", outputs={"a": 1}))
    done = store.jobs.get(job, owner="ann")
    assert done is not None
    assert (done.state, done.progress, done.outputs) == (State.SUCCEEDED, 1.0, {"a": 1})
    assert (done.finished, done.lease_owner, done.error) == (clock.now, None, None)
    assert not store.jobs.settle(held.lease, Ending(Event.FAIL, "Late.", error={"code": "x"}))
    assert store.jobs.cancel(job, owner="ann") is None
    assert store.jobs.get(job, owner="ann") == done


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


def test_jobs_are_found_by_name_and_labels(store: Store) -> None:
    def made(name: str | None, *labels: str) -> str:
        return store.jobs.add(asked(name=name, labels=labels), queue_limit=100).id

    def ids(**filters: Any) -> list[str]:
        return [each.id for each in store.jobs.list(JobQuery(owner="ann", **filters))]

    plain = made(None)
    night = made("Diffusion, night 1", "nightly", "sst")
    day = made("diffusion", "night", "sst", "100%_\\")
    assert [(each.name, each.labels) for each in store.jobs.list(JobQuery(owner="ann"))] == [
        ("diffusion", ("night", "sst", "100%_\\")),
        ("Diffusion, night 1", ("nightly", "sst")),
        (None, ()),
    ]
    assert ids(name="diffusion") == [day]
    assert ids(name="iffusion") == [day, night]
    assert ids() == [day, night, plain]
    assert ids(labels=("night",)) == [day]
    assert ids(labels=("sst", "nightly")) == [night]
    assert ids(labels=("SST",)) == ids(labels=("nigh",)) == ids(labels=("ss%",)) == []
    assert ids(labels=("100%_\\",)) == [day]
    assert ids(name="\0") == ids(labels=("\0",)) == []


def test_counts_and_the_oldest(store: Store, clock: Clock) -> None:
    assert store.jobs.oldest_queued(owner=None) is None
    first = add(store)
    made = clock.now
    clock.now += 3
    second = add(store)
    assert store.jobs.oldest_queued(owner=None) == made
    assert store.jobs.oldest_queued(owner="ann") == made
    assert store.jobs.oldest_queued(owner="bob") is None
    assert set(store.jobs.counts(owner="bob").values()) == {0}
    store.jobs.claim("w")
    counts = store.jobs.counts(owner=None)
    assert store.jobs.counts(owner="ann") == counts
    assert set(counts) == set(State)
    assert (counts[State.QUEUED], counts[State.RUNNING], counts[State.FAILED]) == (1, 1, 0)
    assert store.jobs.known() == {first, second}


def test_keys(store: Store) -> None:
    key = store.keys.add("k1", owner="ann", digest="d" * 64)
    assert store.keys.get("k1") == key
    assert store.keys.get("k2") is None
    assert list(store.keys.list()) == [key]
    assert store.keys.revoke("k1")
    assert not store.keys.revoke("k1")
    assert store.keys.get("k1") is None


def test_a_lease_on_nothing(store: Store) -> None:
    assert not store.jobs.renew(Lease("nothing", 1))
    store.jobs.drop(Lease("nothing", 1))
    store.check()


def test_a_database_has_one_identity(store: Store) -> None:
    assert store.identity() == store.identity()
    assert is_id(store.identity())
    assert store.identity() != memory_store().identity()
