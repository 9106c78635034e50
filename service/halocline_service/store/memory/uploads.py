"""The uploads of a store in one process, which jobs read them, and what was removed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TypeVar

from halocline_service.jobs.job import Job, JobRequest, Kind, Removed, Upload, UploadRequest, new_id
from halocline_service.store.base import Clock, Page, QueueFull, UploadGone, same_upload

__all__ = ["MemoryRemoved", "MemoryUploads", "in_page"]

_Listed = TypeVar("_Listed", Job, Upload)


def in_page(items: list[_Listed], page: Page) -> list[_Listed]:
    """Give the items of a page, the highest identifier first."""
    fitting = [
        each
        for each in sorted(items, key=lambda each: each.id, reverse=not page.is_backward)
        if (page.before is None or each.id < page.before)
        and (page.after is None or each.id > page.after)
    ][page.offset : page.offset + page.limit]
    return fitting[::-1] if page.is_backward else fitting


class MemoryRemoved:
    """`RemovedStore` in a list."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock
        self._gone: list[Removed] = []

    def note(self, kind: Kind, name: str) -> None:
        """Say that something was removed."""
        self._gone.append(Removed(kind, name, self._now()))

    def list(self, *, before: float) -> Sequence[Removed]:
        """Give what was removed before a time, oldest first."""
        return [each for each in self._gone if each.at < before]

    def forget(self, gone: Removed) -> None:
        """Say that nothing is left of it."""
        self._gone = [each for each in self._gone if each != gone]


class MemoryUploads:
    """`UploadStore` in a dictionary."""

    def __init__(self, clock: Clock, removed: MemoryRemoved) -> None:
        self._now = clock
        self._removed = removed
        self._lock = threading.RLock()
        self._uploads: dict[str, Upload] = {}
        self._uses: dict[str, set[str]] = {}  # identifiers of uploads by that of the job

    def add(self, request: UploadRequest, *, limit: int) -> Upload:
        """Open an upload; see `UploadStore`."""
        with self._lock:
            mine = [each for each in self._uploads.values() if each.owner == request.owner]
            key, digest = request.idempotency_key, request.digest
            for each in mine:
                if key is not None and each.idempotency_key == key:
                    return same_upload(each, request)
            for each in mine:
                if digest is not None and each.digest == digest and each.is_complete:
                    return self._put(replace(each, kept=each.kept or request.kept))
            if len(mine) >= limit:
                raise QueueFull
            made = Upload(
                id=new_id(),
                created=self._now(),
                completed=None,
                keys=0,
                bytes=0,
                **asdict(request),
            )
            return self._put(made)

    def _put(self, changed: Upload) -> Upload:
        self._uploads[changed.id] = changed
        return changed

    def get(self, upload_id: str, *, owner: str | None) -> Upload | None:
        """Give an upload; see `UploadStore`."""
        with self._lock:
            found = self._uploads.get(upload_id)
            return found if found is not None and owner in (None, found.owner) else None

    def list(self, owner: str, page: Page) -> Sequence[Upload]:
        """Give an owner's uploads, newest first."""
        with self._lock:
            mine = [each for each in self._uploads.values() if each.owner == owner]
        return in_page(mine, page)

    def unfinished(self, *, before: float) -> Sequence[Upload]:
        """Give everyone's open uploads that were opened before a time; see `UploadStore`."""
        with self._lock:
            left = [each for each in self._uploads.values() if not each.is_complete]
        return sorted((each for each in left if each.created < before), key=lambda each: each.id)

    def unused(self, *, before: float) -> Sequence[Upload]:
        """Give complete uploads that are not kept and that no job reads; see `UploadStore`."""
        with self._lock:
            found = [each for each in self._uploads.values() if self._is_unused(each)]
        old = (each for each in found if (each.completed or each.created) < before)
        return sorted(old, key=lambda each: each.id)

    def _is_unused(self, upload: Upload) -> bool:
        read = any(upload.id in used for used in self._uses.values())
        return upload.is_complete and not upload.kept and not read

    def complete(self, upload_id: str, *, owner: str, keys: int, size: int) -> Upload | None:
        """Freeze an open upload; see `UploadStore`."""
        with self._lock:
            found = self.get(upload_id, owner=owner)
            if found is None or found.is_complete:
                return None
            return self._put(replace(found, completed=self._now(), keys=keys, bytes=size))

    def release(self, upload_id: str) -> Upload | None:
        """Forget an unused upload; see `UploadStore`."""
        with self._lock:
            found = self.get(upload_id, owner=None)
            if found is None or not self._is_unused(found):
                return None
            return self.remove(upload_id, owner=found.owner)

    def remove(self, upload_id: str, *, owner: str) -> Upload | None:
        """Forget an upload; see `UploadStore`."""
        with self._lock:
            found = self.get(upload_id, owner=owner)
            if found is not None:
                del self._uploads[upload_id]
                self._removed.note("upload", upload_id)
                for used in self._uses.values():
                    used.discard(upload_id)
            return found

    def known(self) -> frozenset[str]:
        """Give the identifiers of all uploads."""
        with self._lock:
            return frozenset(self._uploads)

    def use(self, job_id: str, asked: JobRequest) -> None:
        """Say that a job reads its uploads. Raises `UploadGone`."""
        with self._lock:
            for upload_id in asked.uploads:
                found = self.get(upload_id, owner=asked.owner)
                if found is None or not found.is_complete:
                    raise UploadGone(upload_id)
            self._uses[job_id] = set(asked.uploads)

    def leave(self, job_id: str) -> tuple[Upload, ...]:
        """Forget and return what a job read and nothing else needs."""
        with self._lock:
            read = sorted(self._uses.pop(job_id, set()))
            gone = [self.release(each) for each in read]
        return tuple(each for each in gone if each is not None)
