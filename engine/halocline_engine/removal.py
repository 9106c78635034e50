"""Deletes what Halocline wrote, and nothing else, from folders that it made.

In a folder of its own, a file is taken for Halocline's by its name: that of a key of a Zarr store,
of a manifest, or of what tasks hand on. So a store that was cut off half-way goes as a whole one
does. Files of other names stay, and links, and the folders that hold them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
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
    left as it is. `dir_fd` is as for `os.open`. Folders may be nested to any depth.
    """
    removal = Removal()
    levels = [_Level(str(folder), ".", "")]
    if not _enter(levels[0], dir_fd, removal):
        return removal
    try:
        while levels and _step(levels, dir_fd, own, removal):
            pass
    finally:
        for level in levels:
            level.leave()
    return removal


def _step(
    levels: list[_Level], dir_fd: int | None, own: Callable[[str], bool], removal: Removal
) -> bool:
    """Go one folder down, or delete the innermost one; False where the way back is lost."""
    level = levels[-1]
    if level.folders:
        below = level.folders.pop()
        if _enter(below, level.here, removal):
            level.leave()
            levels.append(below)
        else:
            level.is_kept |= below.is_kept
        return True
    _empty(level, own, removal)
    above = levels[-2] if len(levels) > 1 else None
    if not _return_to(above, level, removal):
        return False
    _drop(level, dir_fd if above is None else above.here, removal)
    if above is not None:
        above.is_kept |= level.is_kept
    levels.pop()
    return True


@dataclass(slots=True)
class _Level:
    """A folder on the way down: what it holds that is not deleted yet.

    Only the innermost folder is held open, by `here`; those above it are known by their `mark`, so
    that no depth needs more open files. Where folders cannot be held (Windows), `name` is a path.
    """

    name: str
    label: str
    path: str
    here: int | None = None
    mark: tuple[int, int] | None = None
    folders: list[_Level] = field(default_factory=list["_Level"])
    files: list[os.DirEntry[str]] = field(default_factory=list["os.DirEntry[str]"])
    is_kept: bool = False

    def leave(self) -> None:
        """Hold the folder no more."""
        if self.here is not None:
            os.close(self.here)
            self.here = None


def _enter(level: _Level, within: int | None, removal: Removal) -> bool:
    """Open a folder, which nobody can then replace by a link, and list it; False where it stays."""
    try:
        if os.unlink in os.supports_dir_fd:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            level.here = os.open(level.name, flags, dir_fd=within)
            level.mark = _mark(level.here)
        elif os.path.islink(level.name):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), level.name)
        with os.scandir(level.name if level.here is None else level.here) as entries:
            # Of a store's own files its metadata goes last: it says whose this is.
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        level.leave()
        level.is_kept = _note(error, level.label, removal)
        return False
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            # The path of an entry of a folder that is held is its name.
            label = f"{level.path}{entry.name}"
            level.folders.append(_Level(entry.path, label, f"{label}/"))
        else:
            level.files.append(entry)
    level.folders.reverse()
    return True


def _mark(folder: int) -> tuple[int, int]:
    stat = os.fstat(folder)
    return stat.st_dev, stat.st_ino


def _empty(level: _Level, own: Callable[[str], bool], removal: Removal) -> None:
    """Delete the files of a folder."""
    for entry in level.files:
        path = f"{level.path}{entry.name}"
        if not (entry.is_file(follow_symlinks=False) and own(path)):
            removal.kept.append(path)
            level.is_kept = True
            continue
        try:
            os.unlink(entry.path, dir_fd=level.here)
            removal.gone += 1
        except OSError as error:
            level.is_kept |= _note(error, path, removal)


def _return_to(above: _Level | None, level: _Level, removal: Removal) -> bool:
    """Hold the folder above again; False where the one below was moved away meanwhile."""
    try:
        if above is not None and level.here is not None:
            above.here = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=level.here)
            if _mark(above.here) != above.mark:
                above.leave()
                removal.left.append(level.label)
                return False
    except OSError as error:
        _note(error, level.label, removal)
        return False
    finally:
        level.leave()
    return True


def _drop(level: _Level, within: int | None, removal: Removal) -> None:
    """Delete a folder in which nothing stays."""
    if level.is_kept:
        return
    try:
        os.rmdir(level.name, dir_fd=within)
        removal.gone += 1
    except OSError as error:
        level.is_kept = _note(error, level.label, removal)


def _note(error: OSError, path: str, removal: Removal) -> bool:
    """Note what stays; what another process deleted meanwhile does not."""
    if isinstance(error, FileNotFoundError):
        return False
    is_foreign = error.errno in (errno.ELOOP, errno.ENOTDIR)
    (removal.kept if is_foreign else removal.left).append(path)
    return True
