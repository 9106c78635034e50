"""Checks files and Zarr stores before they are read, and freezes stores."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halocline_engine.datasets.regular import open_regular
from halocline_engine.errors import DatasetError
from halocline_service.datasets.keys import METADATA
from halocline_service.datasets.metadata import check_document, check_size, parse_document

__all__ = [
    "Census",
    "check_tree",
    "consolidate",
    "count",
    "is_group",
    "is_zarr",
    "parse_root",
    "scan_file",
]

_DEEPEST = 16
_MOST_DOCUMENTS = 20_000
_CONSOLIDATED = ("zarr.json", ".zmetadata")  # may hold the others once more
_LARGEST_METADATA = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Census:
    """Number of objects in a store, their bytes, and the folders that hold them."""

    keys: int
    bytes: int
    folders: int = 0


def is_zarr(path: Path) -> bool:
    """Say whether a folder is the root of a Zarr store."""
    return any((path / name).is_file() for name in ("zarr.json", ".zgroup", ".zarray"))


def is_group(folder: Path) -> bool:
    """Say whether a folder of a Zarr store is a group. Raises `DatasetError`."""
    path = folder / "zarr.json"
    if path.is_file():
        return _read(path.name, path)[0].get("node_type") == "group"
    return (folder / ".zgroup").is_file()


def scan_file(path: Path) -> None:
    """Refuse a file that reads other files. Raises `DatasetError`."""
    from halocline_engine.datasets.stores.hdf5_scan import is_hdf5, refuse_outside

    if is_hdf5(path):
        refuse_outside(path)


def check_tree(root: Path, *, largest_chunk: int) -> dict[str, dict[str, Any]]:
    """Check every metadata document of a store; give them by key, without consolidated ones.

    Folders of chunks are not looked into, so a store of millions of chunks is checked at once.
    Raises `DatasetError`.
    """
    if not is_zarr(root):
        raise DatasetError(
            "The dataset is not a Zarr store: it has neither 'zarr.json' nor '.zgroup'.",
            hint="Write it with 'Dataset.to_zarr'.",
        )
    found: dict[str, dict[str, Any]] = {}
    size = 0
    for key, path in _documents(root, "", 0):
        document, length = _read(key, path)
        size += 0 if key in _CONSOLIDATED else length
        if len(found) >= _MOST_DOCUMENTS or size > _LARGEST_METADATA:
            raise DatasetError(
                f"The Zarr store has more than {_MOST_DOCUMENTS} metadata documents, or "
                f"{_LARGEST_METADATA} bytes of them.",
                hint="Leave groups and arrays out, or shorten attributes.",
            )
        check_document(key, document, largest_chunk=largest_chunk)
        found[key] = document
    return {key: document for key, document in found.items() if key != ".zmetadata"}


def _documents(folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path]]:
    if depth > _DEEPEST:
        raise DatasetError(f"The Zarr store is nested more than {_DEEPEST} groups deep.")
    is_array = False
    for name in sorted(METADATA):
        path = folder / name
        if path.is_file():
            is_array = is_array or name == ".zarray" or (name == "zarr.json" and _is_array(path))
            yield prefix + name, path
    if not is_array:
        with os.scandir(folder) as entries:
            children = sorted(entry.name for entry in entries if entry.is_dir())
        for name in children:
            yield from _documents(folder / name, f"{prefix}{name}/", depth + 1)


def _is_array(path: Path) -> bool:
    return _read(path.name, path)[0].get("node_type") == "array"


def _read(key: str, path: Path) -> tuple[dict[str, Any], int]:
    """Return a document and its bytes, which one that is too large does not have read."""
    with open_regular(path) as file:
        check_size(key, os.fstat(file.fileno()).st_size)
        text = file.read()
    return parse_document(key, text), len(text)


def consolidate(root: Path, documents: dict[str, dict[str, Any]]) -> None:
    """Write the consolidated metadata of a checked store, so that it opens over HTTP."""
    if "zarr.json" in documents:
        group = dict(documents["zarr.json"])
        if group["node_type"] == "group":
            nodes = {
                key.removesuffix("/zarr.json"): _plain(document)
                for key, document in documents.items()
                if key.endswith("/zarr.json")
            }
            group["consolidated_metadata"] = {
                "kind": "inline",
                "must_understand": False,
                "metadata": nodes,
            }
            _write(root / "zarr.json", group)
    else:
        _write(root / ".zmetadata", {"zarr_consolidated_format": 1, "metadata": documents})


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "consolidated_metadata"}


def _write(path: Path, document: dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name.lstrip('.')}.part")
    draft.write_text(json.dumps(document))
    os.replace(draft, path)


def count(root: Path) -> Census:
    """Count what is in a store."""
    keys = size = folders = 0
    left = [str(root)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                        folders += 1
                    else:
                        keys += 1
                        size += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return Census(keys, size, folders)


def parse_root(root: Path) -> dict[str, Any]:
    """Read the metadata of a store's root group; empty where it is not of Zarr format 3."""
    path = root / "zarr.json"
    return _read(path.name, path)[0] if path.is_file() else {}
