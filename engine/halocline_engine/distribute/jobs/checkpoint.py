"""Finished passes on disk: what a killed run goes on from.

::

    workspace/attempt-0/pass-000024/        a Zarr store of the fields that the next step reads
    workspace/attempt-0/pass-000024.json    its manifest, written when all of it is there
    workspace/attempt-1/pass-000048/ ...    another attempt writes here and reads everywhere

The number is how many steps were made. A store without a manifest is not looked at.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from halocline_engine.datasets.disk import full_disk
from halocline_engine.errors import OutputError

__all__ = ["FinishedPass", "begin_pass", "finish_pass", "newest_pass", "prune"]

_FORMAT = 1
_KEPT = 2


@dataclass(frozen=True, slots=True)
class FinishedPass:
    """A complete store, and how many steps led to it."""

    path: Path
    steps_done: int


def newest_pass(workspace: Path, fingerprint: str) -> FinishedPass | None:
    """Return the pass of this job that got furthest, of any attempt; None where there is none."""
    return max(_finished(workspace, fingerprint), key=lambda found: found.steps_done, default=None)


def begin_pass(workspace: Path, attempt: int, steps_done: int) -> Path:
    """Return an empty place for the store of a pass; an unfinished one there is removed.

    Raises `OutputError` where a link leads out of the workspace.
    """
    path = workspace / f"attempt-{attempt}" / f"pass-{steps_done:06d}"
    if path.parent.is_symlink():
        raise OutputError(
            f"The folder '{path.parent}' of the workspace is a link to another place.",
            hint="Remove it, or choose another workspace.",
        )
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def finish_pass(path: Path, fingerprint: str, steps_done: int) -> None:
    """Say that a store is complete; another process sees all of the manifest or nothing."""
    manifest = {"format": _FORMAT, "fingerprint": fingerprint, "steps_done": steps_done}
    target = path.with_name(f"{path.name}.json")
    part = target.with_suffix(".part")
    with full_disk(path):
        with part.open("w") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)


def prune(workspace: Path, fingerprint: str) -> None:
    """Remove the passes of a job that have two newer ones."""
    found = sorted(_finished(workspace, fingerprint), key=lambda item: item.steps_done)
    for old in found[:-_KEPT]:
        _remove(old.path)


def _finished(workspace: Path, fingerprint: str) -> Iterator[FinishedPass]:
    for manifest in workspace.glob("attempt-*/pass-*.json"):
        found = _read(manifest)
        path = manifest.with_suffix("")
        if found.get("fingerprint") == fingerprint and path.is_dir():
            yield FinishedPass(path, int(found["steps_done"]))


def _read(manifest: Path) -> dict[str, Any]:
    """Return a manifest, or nothing where it cannot be read: then there is no such pass."""
    try:
        found: object = json.loads(manifest.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    entries = cast("dict[str, Any]", found)
    return entries if entries.get("format") == _FORMAT else {}


def _remove(path: Path) -> None:
    """Remove a pass, its manifest first, so that no half of it is ever taken for complete."""
    path.with_name(f"{path.name}.json").unlink(missing_ok=True)
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)
