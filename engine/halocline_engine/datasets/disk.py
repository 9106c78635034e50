"""A full disk, said in our words."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from halocline_engine.errors import OutputError

__all__ = ["full_disk"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk(path: str | Path) -> Generator[None]:
    """Turn the system's word for a full disk into an `OutputError` that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OutputError(
            f"Writing to '{path}' stopped because the disk is full.",
            hint="Free some space, or choose another place with output=.",
        ) from error
