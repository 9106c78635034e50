"""Finished passes on disk: what a killed run goes on from.

::

    workspace/attempt-0/pass-000024/        a Zarr store of the fields that the next step reads;
                                            its attributes say that it is a pass
    workspace/attempt-0/pass-000024.json    its manifest, written when all of it is there
    workspace/attempt-1/pass-000048/ ...    another attempt writes here and reads everywhere

The number is how many steps were made. A store without a manifest is not looked at, and neither is
one whose files are not those of the digests in its manifest.

A workspace may be a folder of the caller, with files of any name. Nothing is replaced that does not
say that it is a pass.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from halocline_engine.cache import publish
from halocline_engine.datasets.disk import full_disk
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import OutputError
from halocline_engine.removal import is_own, remove_own

__all__ = [
    "MARK",
    "CheckpointTimes",
    "FinishedPass",
    "attempt_folder",
    "begin_pass",
    "checkpoint_times",
    "digests_of",
    "finish_pass",
    "manifests_of",
    "newest_pass",
    "prune",
    "publish_manifest",
]

#: Attributes of the store of a pass, from its first file on.
MARK: Mapping[str, Any] = {"halocline": "pass"}
_FORMAT = 1
_KEPT = 2
_DIGEST = "blake2b"
#: Seconds after which a run that is killed shall not have to begin again.
_LOST = 10.0
#: Seconds between two checkpoints for each byte of them.
_SECONDS_A_BYTE = 1e-8


@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """Interval of checkpoints in steps, or in seconds; None for neither."""

    steps: int | None
    seconds: float | None

    def due(self, steps: int, seconds: float) -> bool:
        """Say whether one is due so many steps and seconds after the last."""
        by_steps = self.steps is not None and steps >= self.steps
        return by_steps or (self.seconds is not None and seconds >= self.seconds)


def checkpoint_times(options: Options, size: int) -> CheckpointTimes:
    """Return when checkpoints of so many bytes are written: they take a small part of the time."""
    seconds = max(_LOST, _SECONDS_A_BYTE * size)
    if options.checkpoint_seconds is not None:
        seconds = options.checkpoint_seconds
    return CheckpointTimes(options.checkpoint_steps, seconds)


@dataclass(frozen=True, slots=True)
class FinishedPass:
    """A complete store, and how many steps led to it."""

    path: Path
    steps_done: int
    digests: Mapping[str, str] | None = None

    @property
    def intact(self) -> bool:
        """Whether its files are those that were written, as far as the manifest tells."""
        return self.digests is None or digests_of(self.path) == self.digests


def newest_pass(workspace: Path, fingerprint: str, before: float = math.inf) -> FinishedPass | None:
    """Return the pass of this job that got furthest, of any attempt; None where there is none.

    Passes that are damaged are passed over, and those that are not `before` so many steps.
    """
    found = sorted(_finished(workspace, fingerprint), key=lambda one: one.steps_done, reverse=True)
    return next((one for one in found if one.steps_done < before and one.intact), None)


def begin_pass(workspace: Path, attempt: int, steps_done: int) -> Path:
    """Return an empty place for the store of a pass, which carries `MARK`; an earlier pass goes.

    Raises `OutputError` where something is there that Halocline did not make, or a link leads out
    of the workspace.
    """
    path = attempt_folder(workspace, attempt) / f"pass-{steps_done:06d}"
    if os.path.lexists(path) and not _is_pass(path):
        raise _foreign(path)
    _refuse_manifest(_manifest(path))
    kept = _remove(path)
    if kept:
        raise _foreign(path / kept[0])
    return path


def attempt_folder(workspace: Path, attempt: int) -> Path:
    """Return the folder of an attempt, which is there; raises `OutputError` where it is a link."""
    path = workspace / f"attempt-{attempt}"
    if path.is_symlink():
        raise OutputError(
            f"The folder '{path}' of the workspace is a link to another place.",
            hint="Remove it, or choose another workspace.",
        )
    with full_disk(workspace):
        path.mkdir(parents=True, exist_ok=True)
    return path


def finish_pass(path: Path, fingerprint: str, steps_done: int, *, digests: bool = False) -> None:
    """Say that a store is complete; another process sees all of the manifest or nothing.

    With `digests` the manifest has one of each file, by which a damaged store is told from what was
    written. Raises `OutputError` where someone else has put a file there.
    """
    entries = {"digests": digests_of(path)} if digests else {}
    publish_manifest(_manifest(path), fingerprint, steps_done, entries)


def publish_manifest(
    manifest: Path, fingerprint: str, steps_done: int, entries: Mapping[str, Any]
) -> None:
    """Write a manifest of a job; raises `OutputError` where someone else has put a file there."""
    _refuse_manifest(manifest)
    told = {"format": _FORMAT, "fingerprint": fingerprint, "steps_done": steps_done, **entries}
    with full_disk(manifest):
        publish(manifest, json.dumps(told).encode(), durable=True)


def prune(workspace: Path, fingerprint: str) -> None:
    """Remove the passes of a job that have two newer ones."""
    found = sorted(_finished(workspace, fingerprint), key=lambda item: item.steps_done)
    for old in found[:-_KEPT]:
        _remove(old.path)


def digests_of(path: Path, files: Sequence[Path] | None = None) -> dict[str, str]:
    """Return the digest of each file of a store, or of some, by its place in the store."""
    found: dict[str, str] = {}
    several = sorted(one for one in path.rglob("*") if one.is_file()) if files is None else files
    for file in several:
        with file.open("rb") as opened:
            found[str(file.relative_to(path))] = hashlib.file_digest(opened, _DIGEST).hexdigest()
    return found


def _finished(workspace: Path, fingerprint: str) -> Iterator[FinishedPass]:
    for manifest, found in manifests_of(workspace, "pass", fingerprint):
        path = manifest.with_suffix("")
        if path.is_dir():
            yield FinishedPass(path, int(found["steps_done"]), found.get("digests"))


def manifests_of(
    workspace: Path, kind: str, fingerprint: str
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the manifests of a kind that are of a job, with their entries."""
    for manifest in sorted(workspace.glob(f"attempt-*/{kind}-*.json")):
        found = _read(manifest)
        if found.get("fingerprint") == fingerprint:
            yield manifest, found


def _read(manifest: Path) -> dict[str, Any]:
    """Return a manifest, or nothing where it cannot be read: then there is no such pass."""
    try:
        found: object = json.loads(manifest.read_text())
    except (OSError, ValueError):
        return {}
    if manifest.is_symlink() or not isinstance(found, dict):
        return {}
    entries = cast("dict[str, Any]", found)
    return entries if entries.get("format") == _FORMAT else {}


def _manifest(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _is_pass(path: Path) -> bool:
    """Say whether a store is a pass: by its mark, or by the manifest of an earlier version."""
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        found: object = json.loads((path / "zarr.json").read_text())
    except (OSError, ValueError):
        found = None
    entries = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    is_marked = entries.get("attributes") == MARK
    return is_marked or bool(_read(_manifest(path))) or _is_begun(path)


def _is_begun(path: Path) -> bool:
    """Say whether a folder was made, and nothing in it."""
    return all(is_own(name) and name.endswith(".partial") for name in os.listdir(path))


def _refuse_manifest(manifest: Path) -> None:
    if os.path.lexists(manifest) and not _read(manifest):
        raise _foreign(manifest)


def _foreign(path: Path) -> OutputError:
    return OutputError(
        f"A pass needs the place of '{path}' in the workspace, but Halocline did not make that.",
        hint="Move it away, or choose another workspace.",
    )


def _remove(path: Path) -> list[str]:
    """Remove a pass, its manifest first, so that no half of it is ever taken for complete.

    Returns what stays, as it is not of the pass.
    """
    _manifest(path).unlink(missing_ok=True)
    return remove_own(path).kept
