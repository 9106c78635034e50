"""A directory of entries named by what they are made from.

An entry is published in one step, so that a reader sees all of it or nothing, and carries a
checksum, so that a bad one is a miss and is made again. Several processes may share a directory.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from halocline_engine.errors import InternalError

__all__ = ["Cache", "code_folder", "key_of", "publish", "trim"]

_DIGEST = 32
_HEXADECIMAL = frozenset("0123456789abcdef")


def key_of(*parts: str) -> str:
    """Return the name of what is made from these texts, in this order.

    >>> key_of("ab", "c") == key_of("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def code_folder(target: str) -> Path:
    """Return where compiled code of this user for a target is kept.

    Where the user has no home, it is a temporary folder that the system may empty, and into which
    nobody else can put code.
    """
    found = platformdirs.user_cache_path("halocline", appauthor=False)
    if not found.is_absolute():
        found = Path(tempfile.gettempdir(), f"halocline-{os.getuid()}")
        found.mkdir(mode=0o700, exist_ok=True)
        about = found.lstat()
        if about.st_uid != os.getuid() or about.st_mode != stat.S_IFDIR | 0o700:
            found = _own_folder()
    return found / target


@functools.cache
def _own_folder() -> Path:
    """Return a new folder for this process."""
    return Path(tempfile.mkdtemp(prefix="halocline-"))


def publish(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Make a file in one step, with its folder; raises `OSError` where that cannot be.

    A durable one is on the disk before it appears.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise


def trim(root: Path, most: int) -> None:
    """Remove the entries that were used longest ago, where a cache has more than so many."""
    with suppress(OSError):
        found = [one for part in root.iterdir() if len(part.name) == 2 for one in part.iterdir()]
        own = [one for one in found if set(one.name) <= _HEXADECIMAL]
        if len(own) <= most:
            return
        for one in sorted(own, key=lambda one: one.stat().st_mtime)[: len(own) - most * 9 // 10]:
            _remove(one)


def _remove(entry: Path) -> None:
    """Remove the files of an entry, and its folders where nothing else is in them."""
    folders = [entry, entry / "__pycache__"] if entry.is_dir() else []
    files = [file for one in folders if one.is_dir() for file in one.glob("kernels.*")]
    with suppress(OSError):
        for file in files or [entry]:
            file.unlink()
        for one in reversed(folders):
            one.rmdir()


@dataclass(frozen=True, slots=True)
class Cache:
    """Entries in a directory, which is made when the first one is stored."""

    root: Path

    def load(self, key: str) -> bytes | None:
        """Return an entry, or None where there is none that is whole."""
        try:
            data = self.path(key).read_bytes()
        except OSError:
            return None
        digest, payload = data[:_DIGEST], data[_DIGEST:]
        return payload if hashlib.sha256(payload).digest() == digest else None

    def store(self, key: str, payload: bytes) -> None:
        """Publish an entry; where the directory cannot be written, leave it out."""
        with suppress(OSError):
            publish(self.path(key), hashlib.sha256(payload).digest() + payload)

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return an entry; make and publish it where it is missing."""
        found = self.load(key)
        if found is None:
            found = make()
            self.store(key, found)
        return found

    def path(self, key: str) -> Path:
        """Return the place of an entry; raises `InternalError` for what is no key."""
        if len(key) < 8 or not set(key) <= _HEXADECIMAL:
            raise InternalError(f"The cache key '{key}' is not hexadecimal.")
        return self.root / key[:2] / key[2:]
