"""Deletes what Halocline wrote, and nothing else, from folders that it made.

In a folder of its own, a file is taken for Halocline's by its name: that of a key of a Zarr store,
of a manifest, or of what tasks hand on. So a store that was cut off half-way goes as a whole one
does. Files of other names stay, and links, and the folders that hold them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Removal", "is_own", "remove_own"]

_CHUNK = r"c|(?:c\.)?[0-9]+(?:\.[0-9]+)*"
_DRAFT = r"\.[0-9a-f]{32}\.part"  # unique, until a file is whole
_OWN = re.compile(
    rf"zarr\.json|{_CHUNK}|(?:zarr|{_CHUNK}){_DRAFT}ial"
    rf"|(?:sorted|checked|moved)-[0-9]+(?:-[0-9]+)?(?:\.json)?(?:{_DRAFT})?"
    r"|(?:pass|snapshot)-[0-9]{6,}\.(?:json|part)"
    r"|\.new-[a-z0-9_]+"
)


def is_own(path: str) -> bool:
    """Say whether Halocline gives such a name to files in its folders, which have any name.

    >>> [is_own(path) for path in ("zarr.json", "t/c/0/12", "c.0.1", "pass-000024.json")]
    [True, True, True, True]
    >>> [is_own(path) for path in ("notes.txt", "data.json", "c1", ".zarr.json.swp")]
    [False, False, False, False]
    """
    return _OWN.fullmatch(path.rpartition("/")[2]) is not None


@dataclass(slots=True)
class Removal:
    """Outcome of a removal, by paths under the folder: "." is the folder itself.

    `gone` counts files and folders. `kept` is what is not Halocline's; `left` is what is, and could
    not be deleted, or was written meanwhile.
    """

    gone: int = 0
    kept: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


def remove_own(
    folder: str | Path, own: Callable[[str], bool] = is_own, *, dir_fd: int | None = None
) -> Removal:
    """Delete the files of a folder that are Halocline's, and then all folders that are empty.

    `own` says of a path under the folder whether it is. A folder that is not there, or a link, is
    left as it is. `dir_fd` is as for `os.open`.
    """
    removal = Removal()
    _remove_folder(str(folder), dir_fd, "", own, removal)
    return removal


def _remove_folder(
    name: str, within: int | None, path: str, own: Callable[[str], bool], removal: Removal
) -> None:
    kept, left = len(removal.kept), len(removal.left)
    try:
        with _opened(name, within) as here:
            # Folders first, and of a store's own files its metadata last: it says whose this is.
            with os.scandir(name if here is None else here) as entries:
                found = sorted(entries, key=_turn)
            for entry in found:
                _remove_entry(entry, here, f"{path}{entry.name}", own, removal)
        if len(removal.kept) == kept and len(removal.left) == left:
            os.rmdir(name, dir_fd=within)
            removal.gone += 1
    except OSError as error:
        _note(error, path.rstrip("/") or ".", removal)


@contextmanager
def _opened(name: str, within: int | None) -> Generator[int | None]:
    """Hold a folder, which nobody can then replace by a link; None where paths have to do."""
    if os.unlink not in os.supports_dir_fd:  # Windows
        if os.path.islink(name):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        yield None
        return
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield here
    finally:
        os.close(here)


def _turn(entry: os.DirEntry[str]) -> tuple[bool, str]:
    return not entry.is_dir(follow_symlinks=False), entry.name


def _remove_entry(
    entry: os.DirEntry[str],
    within: int | None,
    path: str,
    own: Callable[[str], bool],
    removal: Removal,
) -> None:
    if entry.is_dir(follow_symlinks=False):
        # The path of an entry of a folder that is held is its name.
        _remove_folder(entry.path, within, f"{path}/", own, removal)
    elif not (entry.is_file(follow_symlinks=False) and own(path)):
        removal.kept.append(path)
    else:
        try:
            os.unlink(entry.path, dir_fd=within)
            removal.gone += 1
        except OSError as error:
            _note(error, path, removal)


def _note(error: OSError, path: str, removal: Removal) -> None:
    """Note what stays; what another process deleted meanwhile does not."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        removal.kept.append(path)
    elif not isinstance(error, FileNotFoundError):
        removal.left.append(path)
