"""The digest of a Zarr store's content, which names it whatever it is called."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from halocline_engine.datasets.regular import NotRegularError, open_regular

__all__ = ["digest_of", "digest_within"]

_THREADS = 4


def digest_of(root: Path) -> str:
    """Give the SHA-256 of the list of a store's objects, in hexadecimal.

    The list has a line for each object, in the order of the keys' bytes: the object's SHA-256 in
    hexadecimal, two spaces and the key, as `sha256sum` writes it.
    """
    paths = {path.relative_to(root).as_posix(): path for path in _files(root)}
    keys = sorted(paths, key=os.fsencode)
    with ThreadPoolExecutor(_THREADS) as pool:
        digests = pool.map(_sha256, (paths[key] for key in keys))
        lines = (f"{digest}  {key}\n" for digest, key in zip(digests, keys, strict=True))
        return hashlib.sha256(os.fsencode("".join(lines))).hexdigest()


def digest_within(place: Path, most: int) -> str | None:
    """Give the SHA-256 of a file, or the digest of a store, of at most so many bytes.

    None stands for one that is larger, or that holds other things than files: it is not read.
    """
    try:
        if place.is_file():
            return _sha256(place) if place.stat().st_size <= most else None
        if sum(path.stat().st_size for path in _files(place)) > most:
            return None
        return digest_of(place)
    except NotRegularError:
        return None


def _files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        yield from (Path(folder, name) for name in names)


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
