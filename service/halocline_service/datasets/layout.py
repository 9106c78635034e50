"""Where the files of the service lie under the data folder.

```
halocline.sqlite3
jobs/<id>/work/                        passes and checkpoints, shared by the attempts
jobs/<id>/attempt-<fence>/result.zarr  what one attempt wrote; published by a row of the database
uploads/<id>.open/                     what a user is sending
uploads/<id>.parts/                    objects that are not whole yet
uploads/<id>.zarr/                     what was checked: .open, renamed under its late writers
```
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from halocline_service.jobs.job import Job, Lease

__all__ = ["Layout"]

_KINDS = (".open", ".parts", ".zarr")  # of folders of an upload


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
        return self.jobs / job_id

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

    def uploads(self) -> frozenset[str]:
        """Give the identifiers of the uploads that have files here."""
        paths = (Path(name) for name in os.listdir(self.root / "uploads"))
        return frozenset(path.stem for path in paths if path.suffix in _KINDS)

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

    def forget_job(self, job_id: str) -> None:
        """Delete the files of a job."""
        _delete(self.job(job_id))

    def forget_upload(self, upload_id: str) -> None:
        """Delete the files of an upload."""
        for folder in (self.open_upload, self.upload_parts, self.upload):
            _delete(folder(upload_id))

    def prune(self, job: Job) -> None:
        """Delete what a finished job no longer needs: its workspace and unpublished attempts."""
        published = {
            Path(folder).parts[0] for folder in ((job.outputs or {}).get("zarr", {})).values()
        }
        folder = self.job(job.id)
        if folder.is_dir():
            for name in os.listdir(folder):
                if name not in published:
                    _delete(folder / name)


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
