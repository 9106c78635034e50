"""The files of the page: read once, and named by the digest of all of them.

A name with the digest in it means the same for ever, so browsers ask for each file once; another
version of the service has other names. What was not read at the start is not there, so no path
leads out of the folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["Asset", "Assets", "read_assets"]

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_MAKING = "make"  # how the vendored files were made; nothing of a page


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, its media type and its strong entity tag."""

    content: bytes
    media_type: str
    tag: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by their paths, and the digest of all."""

    version: str
    by_path: Mapping[str, Asset]


def read_assets() -> Assets:
    """Read the files that are installed with this package."""
    found = dict(sorted(_found(files("halocline_service").joinpath("web"), "")))
    whole = hashlib.sha256()
    for path, asset in found.items():
        whole.update(f"{path}\0{asset.tag}\0".encode())
    return Assets(whole.hexdigest()[:16], found)


def _found(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    listed: list[tuple[str, Asset]] = []
    for child in folder.iterdir():
        path = f"{prefix}{child.name}"
        dot = child.name.rfind(".")
        if child.is_dir():
            listed += [] if child.name == _MAKING else _found(child, f"{path}/")
        elif dot > 0 and child.name[dot:] in _TYPES:
            content = child.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()}"'
            listed.append((path, Asset(content, _TYPES[child.name[dot:]], tag)))
    return listed
