"""Keys that a Zarr store may have, so that a key is always a file under its store."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["METADATA", "has_key_names", "is_key", "is_metadata", "locate"]

METADATA = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_LONGEST_KEY = 1024
_LONGEST_NAME = 240
#: Groups in one another, an array, and a chunk of an array of as many dimensions as are read.
_MOST_NAMES = 40


def is_metadata(key: str) -> bool:
    """Say whether a key holds metadata (JSON) and not a chunk."""
    return key.rpartition("/")[2] in METADATA


def locate(store: Path, key: str) -> Path | None:
    """Give the file of a key, or None where the text is not a key of a Zarr store.

    The file need not exist. A key that goes through a link is none, wherever the link leads.
    """
    if not is_key(key):
        return None
    names = key.split("/")
    real = os.path.realpath(store.joinpath(*names))
    is_plain = real == os.path.join(os.path.realpath(store), *names)
    return store.joinpath(*names) if is_plain else None


def is_key(key: str) -> bool:
    """Say whether a text may be a key of a Zarr store; metadata has no keys below it.

    >>> is_key("t/c/0/1"), is_key("zarr.json/x"), is_key("/".join(["a"] * 41))
    (True, False, False)
    """
    *folders, _ = key.split("/")
    is_short = len(key) <= _LONGEST_KEY and len(folders) < _MOST_NAMES
    return is_short and METADATA.isdisjoint(folders) and has_key_names(key)


def has_key_names(path: str) -> bool:
    """Say whether the names of a path are names of keys, in whatever number and order."""
    return all(map(_is_name, path.split("/")))


def _is_name(name: str) -> bool:
    if name in ("", ".", "..") or not name.isprintable() or "\\" in name or ":" in name:
        return False
    if name.startswith(".") and name not in METADATA:
        return False
    return len(name.encode("utf-8", "replace")) <= _LONGEST_NAME
