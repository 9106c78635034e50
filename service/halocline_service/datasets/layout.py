"""Where the files of the service lie under the data folder.

```
halocline.json                         whose folder this is; see `marker`
halocline.sqlite3
jobs/<id>/work/                        passes and checkpoints, shared by the attempts
jobs/<id>/attempt-<fence>/result.zarr  what one attempt wrote; published by a row of the database
uploads/<id>.open/                     what a user is sending
uploads/<id>.parts/                    objects that are not whole yet
uploads/<id>.zarr/                     what was checked: .open, renamed under its late writers
```

Nothing else is ever deleted: what lies beside these names stays, and links are not followed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from halocline_service.jobs.job import Job, Lease, Removed, is_id

__all__ = ["Layout"]

_OWN = re.compile("work|attempt-[0-9]+")  # folders of a job, and of nobody else


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths under one data folder."""

    root: Path

    @property
    def jobs(self) -> Path:
        """The folder with one folder for each job."""
        return self.root / "jobs"

    def job(self, job_id: str) -> Path:
        """Give the folder of a job."""
        return self.jobs / _checked(job_id)

    def work(self, job_id: str) -> Path:
        """Give the folder where a job keeps what a later attempt can go on from."""
        return self.job(job_id) / "work"

    def attempt(self, lease: Lease) -> Path:
        """Give the folder where one attempt writes its results."""
        return self.job(lease.job_id) / f"attempt-{lease.fence}"

    def output(self, job: Job, name: str) -> Path | None:
        """Give the Zarr store of a published output, or None where there is none of that name."""
        published = (job.outputs or {}).get("zarr", {})
        return self.job(job.id) / published[name] if name in published else None

    def upload(self, upload_id: str) -> Path:
        """Give the Zarr store of a complete upload."""
        return self.root / "uploads" / f"{upload_id}.zarr"

    def open_upload(self, upload_id: str) -> Path:
        """Give the Zarr store of an upload that is being sent."""
        return self.root / "uploads" / f"{upload_id}.open"

    def upload_parts(self, upload_id: str) -> Path:
        """Give the folder where the objects of an upload are until they are whole."""
        return self.root / "uploads" / f"{upload_id}.parts"

    def named(self) -> tuple[frozenset[str], frozenset[str]]:
        """Give the names of all that lies among the jobs and among the uploads."""
        return _names(self.jobs), _names(self.root / "uploads")

    def make(self) -> None:
        """Make the folders that are always there; readable by the owner only."""
        for folder in (self.root, self.jobs, self.root / "uploads"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make_upload(self, upload_id: str) -> None:
        """Make the folders of an upload that was opened; those of one that is in use are kept.

        The parts are made last and go last, so one that is being completed is not opened anew.
        """
        parts = self.upload_parts(upload_id)
        if not parts.exists():
            self.open_upload(upload_id).mkdir(mode=0o700, exist_ok=True)
            parts.mkdir(mode=0o700, exist_ok=True)

    def forget(self, gone: Removed) -> bool:
        """Delete what is left of a job or an upload; say whether there was anything."""
        return self.forget_job(gone.id) if gone.kind == "job" else self.forget_upload(gone.id)

    def forget_job(self, job_id: str) -> bool:
        """Delete the files of a job; say whether there were any."""
        with _own_folders(self.job(job_id)) as own:
            deleted = own.delete(_OWN)
        with suppress(OSError):  # what someone else put there stays, and so does the folder
            self.job(job_id).rmdir()
        return deleted

    def forget_upload(self, upload_id: str) -> bool:
        """Delete the files of an upload; say whether there were any."""
        with _own_folders(self.root / "uploads", follow=True) as own:
            return own.delete(_of_upload(upload_id))

    def holds(self, gone: Removed) -> bool:
        """Say whether files of a removed job or upload are there."""
        if gone.kind == "job":
            with _own_folders(self.job(gone.id)) as own:
                return bool(own.names(_OWN))
        with _own_folders(self.root / "uploads", follow=True) as own:
            return bool(own.names(_of_upload(gone.id)))

    def prune(self, job: Job) -> bool:
        """Delete what a finished job no longer needs: its workspace and unpublished attempts.

        Says whether there was anything.
        """
        published = (job.outputs or {}).get("zarr", {})
        kept = {Path(folder).parts[0] for folder in published.values()}
        with _own_folders(self.job(job.id)) as own:
            return own.delete(_OWN, but=kept)


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except FileNotFoundError:
        return frozenset()


def _checked(name: str) -> str:
    """Give an identifier; nothing else may become part of a path."""
    if not is_id(name):
        raise ValueError(f"'{name}' is not an identifier.")
    return name


def _of_upload(upload_id: str) -> re.Pattern[str]:
    return re.compile(re.escape(_checked(upload_id)) + r"\.(open|parts|zarr)")


@dataclass(frozen=True, slots=True)
class _Folders:
    """The folders in an open folder; links are none, wherever they lead."""

    within: int | None

    def names(self, own: re.Pattern[str]) -> list[str]:
        """Give the names of those that are Halocline's."""
        if self.within is None:
            return []
        with os.scandir(self.within) as entries:
            return sorted(
                entry.name
                for entry in entries
                if own.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            )

    def delete(self, own: re.Pattern[str], *, but: Collection[str] = ()) -> bool:
        """Delete those that are Halocline's; say whether there were any."""
        names = [name for name in self.names(own) if name not in but]
        for name in names:
            shutil.rmtree(name, ignore_errors=True, dir_fd=self.within)
        return bool(names)


@contextmanager
def _own_folders(folder: Path, *, follow: bool = False) -> Generator[_Folders]:
    """Open a folder to look into; it has none where it is not there, or a link."""
    try:
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        yield _Folders(None)
        return
    try:
        yield _Folders(found)
    finally:
        os.close(found)
