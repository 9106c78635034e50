"""Deletes files that nothing needs: of this database's own jobs and uploads, and nothing else.

What is deleted is what the database says was removed, by its identifier. What else lies in the data
folder is not looked at: its owner is unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import is_ours
from halocline_service.datasets.turns import BusyError, alone, last_touched
from halocline_service.jobs.job import Upload, is_id
from halocline_service.store.base import Store, StoreAway

__all__ = ["REMAINS_SECONDS", "Sweep", "Sweeper"]

_log = structlog.get_logger()

#: How long what was removed is remembered. Its files are deleted with it; those that a process
#: left that was killed meanwhile, or wrote when it was late, go then.
REMAINS_SECONDS = 86_400.0
_DOWNLOAD_SECONDS = 86_400.0  # how long a file that was made of a result is kept
_SWEEP_SECONDS = 600.0  # between the beginnings of two sweeps


@dataclass(frozen=True, slots=True)
class Sweep:
    """Deletions that nobody asks for; any number of processes may do it at once.

    An entry that cannot be deleted, for whatever reason, is logged, and the others are.
    """

    store: Store
    layout: Layout
    open_seconds: float  # how long an upload stays that is not completed, or not used
    now: Callable[[], float] = time.time

    def run(self) -> None:
        """Delete all that nothing needs, in a data folder that is this database's."""
        if not is_ours(self.layout, self.store):
            _log.error("not swept: the data folder is not this database's", at=self.layout.root)
            return
        self._clear()
        for name in sorted(self.layout.named()[0]):
            with _isolated(name):
                if is_id(name):
                    self._prune(name)
        self._expire()
        self._release()
        self._drop_parts()

    def tidy(self, job_id: str) -> None:
        """Delete what a job that has ended no longer needs, unless another still writes.

        It must be one of this database's jobs; where it was removed, all of it goes.
        """
        with _isolated(job_id):
            if self.store.jobs.get(job_id, owner=None) is None:
                self.layout.forget_job(job_id)
            else:
                self._prune(job_id)

    def _prune(self, job_id: str) -> None:
        job = self.store.jobs.get(job_id, owner=None)
        ended = job is not None and job.is_final and job.lease_owner is None
        if job is not None and ended and self.layout.prune(job).gone:
            _log.info("workspace deleted", job_id=job_id)
        if self.layout.forget_downloads(job_id, before=self.now() - _DOWNLOAD_SECONDS):
            _log.info("files made of results deleted", job_id=job_id)

    def _clear(self) -> None:
        """Delete what is left of what was removed, and forget that it was there."""
        for gone in self.store.removed.list(before=self.now() - REMAINS_SECONDS):
            told = {"kind": gone.kind, "id": gone.id, "removed": gone.at}
            with _isolated(gone.id):
                removal = self.layout.forget(gone)
                if removal.gone:
                    _log.info("files of what was removed deleted", **told)
                if removal.left:
                    _log.warning("files of what was removed cannot be deleted", **told)
                else:
                    self.store.removed.forget(gone)

    def _expire(self) -> None:
        """Forget uploads that were opened and left."""
        before = self.now() - self.open_seconds
        for upload in self.store.uploads.unfinished(before=before):
            parts = self.layout.upload_parts(upload.id)
            with _isolated(upload.id), alone(parts, seconds=0.0):
                if self._is_left(upload, before):
                    self.store.uploads.remove(upload.id, owner=upload.owner)
                    self.layout.forget_upload(upload.id)
                    _log.info("upload expired", upload_id=upload.id, owner=upload.owner)

    def _is_left(self, upload: Upload, before: float) -> bool:
        found = self.store.uploads.get(upload.id, owner=None)
        is_open = found is not None and not found.is_complete
        return is_open and last_touched(self.layout.upload_parts(upload.id)) < before

    def _release(self) -> None:
        """Forget uploads for jobs that were never submitted."""
        for upload in self.store.uploads.unused(before=self.now() - self.open_seconds):
            with _isolated(upload.id):
                if self.store.uploads.release(upload.id) is not None:
                    self.layout.forget_upload(upload.id)
                    _log.info("unused upload deleted", upload_id=upload.id, owner=upload.owner)

    def _drop_parts(self) -> None:
        """Delete parts that their process left: it was killed before they were whole."""
        for upload_id in self.layout.with_parts():
            parts = self.layout.upload_parts(upload_id)
            with _isolated(upload_id), alone(parts, seconds=0.0):
                if self._drop_parts_of(upload_id):
                    _log.info("unfinished parts deleted", upload_id=upload_id)

    def _drop_parts_of(self, upload_id: str) -> int:
        """Delete those that nothing comes for; of complete uploads all, and of removed ones none.

        Files of removed uploads go a day after their rows.
        """
        found = self.store.uploads.get(upload_id, owner=None)
        if found is None:
            return 0
        if found.is_complete:
            return self.layout.forget_parts(upload_id).gone
        return self.layout.forget_old_parts(upload_id, before=self.now() - REMAINS_SECONDS)


class Sweeper:
    """Sweeps in a thread of its own, now and then: it may take long, and no job waits for it."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._thread = threading.Thread()
        self._begun = float("-inf")

    def look(self) -> bool:
        """Begin another sweep if it is time, and the one before has ended; say whether it began."""
        if time.monotonic() - self._begun < _SWEEP_SECONDS or self._thread.is_alive():
            return False
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()
        return True

    def close(self, seconds: float) -> None:
        """Wait for the end of a sweep; one that takes longer ends with the process."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._sweep.run()
        except Exception:
            _log.exception("files not swept")


@contextmanager
def _isolated(entry: str) -> Generator[None]:
    """Log what goes wrong with one entry, so that the others are looked at; a later sweep retries.

    What another process is at work on is left to it. Raises `StoreAway`, which all others meet too.
    """
    try:
        yield
    except BusyError:
        pass
    except StoreAway:
        raise
    except Exception:
        _log.exception("entry not swept", id=entry)
