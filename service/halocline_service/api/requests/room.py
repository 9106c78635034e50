"""Room for what is on its way: bytes are promised before they are taken.

A disk that has room for one object has not room for a hundred that come at once, and an upload
that may have one more has not room for two. Bytes are promised a step ahead of those that came: who
announces many and sends none takes no room from others.
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

_STEP = 2**20  # bytes that are promised at a time


@dataclass(slots=True)
class _Promise:
    """Bytes that are promised to an object, how many were announced, and are on the disk."""

    size: int = 0
    announced: int = 0
    written: int = 0


class Room:
    """The free space of a disk and of uploads, less what was promised by this process."""

    def __init__(self, folder: Path, headroom: int, largest: int) -> None:
        self._folder = folder
        self._headroom = headroom
        self._largest = largest
        self._lock = Lock()
        self._unwritten = 0
        self._coming: Counter[str] = Counter()

    @contextmanager
    def hold(self, upload_id: str, stored: int) -> Generator[Held]:
        """Hold room for an object of an upload that has `stored` bytes, until it is one of them."""
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
        """Promise `size` bytes in all. Raises `ProblemError` where there is no room for them."""
        more = size - promise.size
        with self._lock:
            self._check(upload_id, stored, more)
            self._unwritten += more
            self._coming[upload_id] += more
            promise.size = size

    def check(self, upload_id: str, stored: int, size: int) -> None:
        """Raise `ProblemError` where there is no room for so many bytes now; promise none."""
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
        """Say that bytes are on the disk."""
        with self._lock:
            self._unwritten -= size
            promise.written += size


@dataclass(frozen=True, slots=True)
class Held:
    """Room for one object."""

    room: Room
    upload_id: str
    stored: int
    given: _Promise

    def needs_more(self, size: int) -> bool:
        """Say whether so many bytes in all are not promised yet."""
        return size > self.given.size

    def check(self, size: int) -> None:
        """Refuse an object that there is no room for now. Raises `ProblemError`."""
        self.room.check(self.upload_id, self.stored, size)
        self.given.announced = size

    def extend(self, size: int) -> None:
        """Have room for so many bytes in all, and some more. Raises `ProblemError`."""
        ahead = -(-size // _STEP) * _STEP
        wanted = min(ahead, max(size, self.given.announced)) if self.given.announced else ahead
        self.room.promise(self.upload_id, self.stored, self.given, wanted)

    def wrote(self, size: int) -> None:
        """Say that so many of them are on the disk now."""
        self.room.wrote(self.given, size)
