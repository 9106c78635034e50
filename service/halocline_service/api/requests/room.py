"""Reservation of disk space and of the size of uploads, for concurrent requests.

Bytes are reserved in steps shortly before they arrive, rather than when they are announced: a
client that announces many bytes and sends none takes no space from others.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from halocline_service.api.problems import ProblemError

__all__ = ["Held", "Room"]

_STEP = 2**20  # bytes that are reserved at a time


@dataclass(slots=True)
class _Promise:
    """Bytes reserved for an object, bytes announced, and bytes written to the disk."""

    size: int = 0
    announced: int = 0
    written: int = 0


class Room:
    """The free space of a disk and of uploads, less the reservations of this process."""

    def __init__(self, folder: Path, headroom: int, largest: int) -> None:
        self._folder = folder
        self._headroom = headroom
        self._largest = largest
        self._lock = Lock()
        self._unwritten = 0
        self._coming: Counter[str] = Counter()

    @contextmanager
    def hold(self, upload_id: str, stored: int) -> Generator[Held]:
        """Hold space for an object of an upload with `stored` bytes while the context lasts."""
        promise = _Promise()
        try:
            yield Held(self, upload_id, stored, promise)
        finally:
            with self._lock:
                self._unwritten -= promise.size - promise.written
                self._coming[upload_id] -= promise.size
                if not self._coming[upload_id]:
                    del self._coming[upload_id]

    def promise(self, upload_id: str, stored: int, promise: _Promise, size: int) -> None:
        """Extend a reservation to `size` bytes. Raises `ProblemError` without space for them."""
        more = size - promise.size
        with self._lock:
            self._check(upload_id, stored, more)
            self._unwritten += more
            self._coming[upload_id] += more
            promise.size = size

    def check(self, upload_id: str, stored: int, size: int) -> None:
        """Raise `ProblemError` without space for `size` bytes; reserve nothing."""
        with self._lock:
            self._check(upload_id, stored, size)

    def _check(self, upload_id: str, stored: int, more: int) -> None:
        if stored + self._coming[upload_id] + more > self._largest:
            raise ProblemError(
                "body-too-large",
                f"The upload has more than {self._largest} bytes.",
                hint="An operator may name a folder to read data from instead.",
            )
        free = shutil.disk_usage(self._folder).free
        if free - self._unwritten - more < self._headroom:
            raise ProblemError("output", "The object cannot be stored: the disk is full.")

    def wrote(self, promise: _Promise, size: int) -> None:
        """Record that bytes were written to the disk."""
        with self._lock:
            self._unwritten -= size
            promise.written += size


@dataclass(frozen=True, slots=True)
class Held:
    """Space for one object."""

    room: Room
    upload_id: str
    stored: int
    given: _Promise

    def needs_more(self, size: int) -> bool:
        """Return whether `size` bytes exceed the reservation."""
        return size > self.given.size

    def check(self, size: int) -> None:
        """Raise `ProblemError` without space for an object of `size` bytes."""
        self.room.check(self.upload_id, self.stored, size)
        self.given.announced = size

    def extend(self, size: int) -> None:
        """Reserve at least `size` bytes in all. Raises `ProblemError` without space for them."""
        ahead = -(-size // _STEP) * _STEP
        wanted = min(ahead, max(size, self.given.announced)) if self.given.announced else ahead
        self.room.promise(self.upload_id, self.stored, self.given, wanted)

    def wrote(self, size: int) -> None:
        """Record that `size` more bytes were written to the disk."""
        self.room.wrote(self.given, size)
