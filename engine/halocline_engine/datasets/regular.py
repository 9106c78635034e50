"""Files that are read are regular ones: a pipe, a socket or a device would be waited for.

`open_regular` opens every file of a dataset that is not read by a library; `zarr_files` asks here
before Zarr reads one.
"""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path

__all__ = ["NotRegularError", "open_regular", "refuse_special"]


class NotRegularError(OSError):
    """A place that is no regular file, which was not opened."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "It is not a regular file", str(path))

    def __reduce__(self) -> tuple[type[NotRegularError], tuple[str]]:
        return type(self), (self.filename,)


def refuse_special(path: str | Path) -> None:
    """Raise `NotRegularError` for a pipe, a socket or a device, without opening it."""
    if not _is_plain(os.stat(path).st_mode):
        raise NotRegularError(path)


def open_regular(path: str | Path) -> FileIO:
    """Open a regular file to read its bytes. Raises `OSError`, also for any other kind of file."""
    refuse_special(path)
    # It may have been replaced since, so that opening still waits for nobody.
    found = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(found).st_mode
    if not stat.S_ISREG(mode):
        os.close(found)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise NotRegularError(path)
    return FileIO(found, "rb")


def _is_plain(mode: int) -> bool:
    """Whether a mode is that of a file, or of a folder, which others refuse in their words."""
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
