"""Open uploads: who may complete or delete one, and which have been left."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["BusyError", "alone", "last_touched"]

_LOOK_SECONDS = 0.05


class BusyError(Exception):
    """Another process is completing or deleting the upload."""


@contextmanager
def alone(parts: Path, *, seconds: float) -> Generator[None]:
    """Hold an open upload by its folder of parts; a process that dies lets go of it.

    One that is complete or deleted has no such folder, and nothing is held. Raises `BusyError`
    where another holds it for longer than some seconds.
    """
    try:
        folder = os.open(parts, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        _lock(folder, seconds)
        yield
    finally:
        os.close(folder)


def _lock(folder: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BusyError from None
        time.sleep(_LOOK_SECONDS)


def last_touched(parts: Path) -> float:
    """Say when the last object of an upload came or was coming, in seconds since 1970; or 0.

    Every object is a file among the parts until it is whole, so their folder changes with each.
    What others put in the place of that folder holds no objects.
    """
    try:
        names = os.listdir(parts)
    except (FileNotFoundError, NotADirectoryError):
        return 0.0
    coming = [_changed(parts / name) for name in names]
    return max(_changed(parts), *coming, 0.0)


def _changed(path: Path) -> float:
    try:
        return os.lstat(path).st_mtime
    except FileNotFoundError:  # an object became whole meanwhile, which the folder shows
        return 0.0
