"""The files of the page: read once, and addressed with the digest of all of them.

An address with the digest is immutable, so that browsers request each file once; another version of
the service has other addresses. Files are served from memory, so that no path leaves the folder.
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
_MAKING = "make"  # sources of the vendored files, not served


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
    """Read the files installed with this package."""
    assets = dict(sorted(_read_folder(files("halocline_service").joinpath("web"), "")))
    whole = hashlib.sha256()
    for path, asset in assets.items():
        whole.update(f"{path}\0{asset.tag}\0".encode())
    return Assets(whole.hexdigest()[:16], assets)


def _read_folder(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    listed: list[tuple[str, Asset]] = []
    for child in folder.iterdir():
        path = f"{prefix}{child.name}"
        dot = child.name.rfind(".")
        if child.is_dir():
            listed += [] if child.name == _MAKING else _read_folder(child, f"{path}/")
        elif dot > 0 and child.name[dot:] in _TYPES:
            content = child.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()}"'
            listed.append((path, Asset(content, _TYPES[child.name[dot:]], tag)))
    return listed
