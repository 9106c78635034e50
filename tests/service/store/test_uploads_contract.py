"""What a store promises of uploads, and of what was removed; run on every store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.stores import Clock, add, asked

from halocline_service.jobs.job import Removed, Upload, UploadRequest
from halocline_service.store.base import (
    Page,
    QueueFull,
    Store,
    UploadGone,
)


def reading_uploads(store: Store, *uploads: str, owner: str = "ann") -> str:
    """Add a job that reads uploads."""
    request = replace(asked(owner), uploads=uploads)
    return store.jobs.add(request, queue_limit=100).id


def opened(store: Store, owner: str = "ann", *, limit: int = 9, **asked: Any) -> Upload:
    return store.uploads.add(UploadRequest(owner=owner, **asked), limit=limit)


def sent(store: Store, owner: str = "ann", *, digest: str = "d", kept: bool = False) -> str:
    upload = opened(store, owner, digest=digest, kept=kept)
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


def test_an_upload_is_frozen_once(store: Store, clock: Clock) -> None:
    upload = opened(store, limit=1)
    with pytest.raises(QueueFull):
        opened(store, limit=1)
    assert not upload.is_complete
    done = store.uploads.complete(upload.id, owner="ann", keys=3, size=10)
    assert done is not None
    assert (done.completed, done.keys, done.bytes) == (clock.now, 3, 10)
    assert store.uploads.complete(upload.id, owner="ann", keys=4, size=11) is None
    assert store.uploads.get(upload.id, owner="ann") == done
    assert store.uploads.remove(upload.id, owner="ann") == done
    assert store.uploads.get(upload.id, owner="ann") is None


def test_an_idempotency_key_gives_the_same_upload(store: Store) -> None:
    upload = opened(store, idempotency_key="k", limit=1)
    assert opened(store, idempotency_key="k", limit=1) == upload
    with pytest.raises(QueueFull):
        opened(store, idempotency_key="other", limit=1)
    assert opened(store, "bob", idempotency_key="k", limit=1).id != upload.id
    done = store.uploads.complete(upload.id, owner="ann", keys=3, size=10)
    assert opened(store, idempotency_key="k", limit=1) == done
    store.uploads.remove(upload.id, owner="ann")
    assert opened(store, idempotency_key="k", limit=1).id != upload.id
    assert len({opened(store, "eve", limit=2).id for _ in range(2)}) == 2


def test_uploads_that_were_left_are_found(store: Store, clock: Clock) -> None:
    first, done, second = (opened(store, owner) for owner in ("ann", "ann", "bob"))
    store.uploads.complete(done.id, owner="ann", keys=1, size=1)
    clock.now += 10.0
    opened(store)
    assert list(store.uploads.unfinished(before=clock.now)) == [first, second]
    assert list(store.uploads.unfinished(before=first.created)) == []


def test_uploads_are_known_whoever_owns_them(store: Store) -> None:
    first, second, third = (opened(store, owner) for owner in ("ann", "bob", "ann"))
    store.uploads.complete(second.id, owner="bob", keys=1, size=1)
    store.uploads.remove(third.id, owner="ann")
    assert store.uploads.known() == {first.id, second.id}


def test_uploads_are_listed_in_pages(store: Store) -> None:
    first, second, third = (opened(store) for _ in range(3))
    opened(store, "bob")
    assert list(store.uploads.list("ann", Page())) == [third, second, first]
    assert list(store.uploads.list("ann", Page(limit=1, offset=1))) == [second]
    assert list(store.uploads.list("ann", Page(before=third.id, limit=1))) == [second]
    assert list(store.uploads.list("ann", Page(after=first.id, limit=1))) == [second]


def test_what_was_removed_is_remembered_until_it_is_gone(store: Store, clock: Clock) -> None:
    job, upload = add(store), opened(store).id
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
    first = opened(store, digest="d")
    still_open = opened(store, digest="d")
    assert still_open.id != first.id  # nothing is there yet
    done = store.uploads.complete(first.id, owner="ann", keys=1, size=1)
    assert done is not None
    assert done.digest == "d"
    assert opened(store, digest="d", idempotency_key="k", limit=0) == done
    assert opened(store, digest="e").id not in (
        first.id,
        still_open.id,
    )
    assert opened(store).id != first.id
    assert opened(store, "bob", digest="d").id != first.id


def test_an_upload_is_kept_once_that_is_asked_for(store: Store) -> None:
    upload = sent(store)
    assert not opened(store, digest="d", kept=False).kept
    assert opened(store, digest="d", kept=True).kept
    assert opened(store, digest="d", kept=False).kept
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
    still_open = opened(store).id
    store.uploads.release(upload)
    for name in (upload, other, still_open, "x"):
        with pytest.raises(UploadGone) as caught:
            reading_uploads(store, sent(store, digest="e", kept=True), name)
        assert caught.value.upload_id == name
    assert store.jobs.known() == set()


def test_uploads_for_jobs_that_never_came_are_found(store: Store, clock: Clock) -> None:
    upload, used, kept = sent(store), sent(store, digest="e"), sent(store, digest="f", kept=True)
    job = reading_uploads(store, used)
    still_open = opened(store, kept=False).id
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
