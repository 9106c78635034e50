"""A full disk, and other places that cannot be written to, said in our words."""

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
    """Turn what the system says while files are written into an `OutputError` with the place."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise OutputError(
                f"Writing to '{path}' stopped because the disk is full.",
                hint="Free some space, or choose another place with output=.",
            ) from error
        raise OutputError(
            f"Writing to '{path}' failed: {type(error).__name__}: {str(error).rstrip('. ')}.",
            hint="Repair the disk or the folder, or choose another one with output=.",
        ) from error
