"""Holders of leases, and those that are lost.

A holder renews its leases, and so counts up a number. No clock is compared with another: an
observer that has seen the same number for as long as a lease lasts, by its own monotonic clock,
takes the lease. Clocks may be set, and differ between machines, as they like.

A process that was killed is known much sooner where it ran on the same machine: as long as it lives
it holds a lock on a file, which the system lets go of with it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from halocline_service.jobs.job import Held, Lease

__all__ = ["LifeSign", "Observer"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class LifeSign:
    """Used as `with LifeSign(folder) as sign`: a name for this process, and its lock.

    Only processes under the same kernel are told by their locks, whatever file system the folder is
    on: names of files begin with the kernel's boot.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._boot = _BOOT.read_text().strip() if _BOOT.exists() else socket.gethostname()
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._file: int | None = None

    def __enter__(self) -> Self:
        """Take the lock."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(self._path(self.name), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the lock; the file stays, to tell of leases that are left (see `tidy`)."""
        assert self._file is not None
        os.close(self._file)

    def is_gone(self, name: str) -> bool:
        """Say whether a process is known to have ended."""
        return _is_free(self._path(name))

    def tidy(self, holders: Collection[str]) -> None:
        """Delete the files of processes that have ended and hold nothing."""
        kept = {self._path(name) for name in holders}
        for path in self._folder.glob(f"{self._boot}-*.lock"):
            if path not in kept and _is_free(path):
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        token = "".join(letter for letter in name.rpartition(":")[2] if letter.isalnum())
        return self._folder / f"{self._boot}-{token}.lock"


def _is_free(path: Path) -> bool:
    """Say whether a file exists that is not locked."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class _Seen:
    held: Held
    since: float


class Observer:
    """Finds leases whose holders are lost: known to have ended, or silent for `seconds`.

    If nothing looked for `gap` seconds, everything begins anew: the observer, or the database,
    was away itself, and holders may have been away with it.
    """

    def __init__(
        self,
        *,
        seconds: float,
        gap: float,
        is_gone: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._gap = gap
        self._is_gone = is_gone
        self._now = clock
        self._seen: dict[Lease, _Seen] = {}
        self._looked = float("-inf")

    def lost(self, held: Sequence[Held]) -> list[Held]:
        """Say which leases have no holder any more, of all that there are now."""
        now = self._now()
        before = self._seen if now - self._looked <= self._gap else {}
        self._looked = now
        self._seen = {each.lease: _Seen(each, now) for each in held}
        for lease, old in before.items():
            if lease in self._seen and self._seen[lease].held == old.held:
                self._seen[lease] = old
        gone = {name for name in {each.holder for each in held} if self._is_gone(name)}
        return [
            each.held
            for each in self._seen.values()
            if each.held.holder in gone or now - each.since >= self._seconds
        ]
