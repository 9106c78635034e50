"""Layout of the service's files under the data folder.

```
halocline.json                         whose folder this is; see `marker`
halocline.sqlite3
jobs/<id>/work/                        passes and checkpoints, shared by the attempts
jobs/<id>/attempt-<fence>/result.zarr  what one attempt wrote; published by a row of the database
jobs/<id>/downloads/result.nc          a file made of a result for somebody who asked; kept a day
uploads/<id>.open/                     what a user is sending
uploads/<id>.parts/                    objects that are not whole yet
uploads/<id>.zarr/                     what was checked: .open, renamed under its late writers
uploads/<id>.zarr/data.nc              all that there is of an upload that is a NetCDF file
```

Nothing else is ever deleted: what lies beside these names stays, and so do files in them of names
that Halocline does not write, with the folders that hold them. Links are neither followed nor
deleted.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from halocline_engine.removal import Removal, is_own, remove_own
from halocline_service.datasets.keys import has_key_names
from halocline_service.jobs.job import Job, Lease, Removed, is_id

__all__ = ["COMPARED", "DRAFTS", "NETCDF", "Layout"]

_log = structlog.get_logger()

#: A file among the parts of an upload: its digest was found to be right.
COMPARED = "compared"
#: The file of an upload that is no Zarr store.
NETCDF = "data.nc"
#: Metadata on its way to the root of a store: no key has such a name.
DRAFTS = frozenset({".zarr.json.part", ".zmetadata.part"})
_OWN = re.compile("work|downloads|attempt-[0-9]+")  # folders that only a job has
_DOWNLOADS = "downloads"
_DOWNLOAD = re.compile(r"\.?[a-z_]+\.(nc|csv)(\.[0-9a-f]{32}\.part)?")
_PART = re.compile("[0-9a-f]{32}")
_TOLD = 5  # of the files that stay, so many are named in the log


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

    def download(self, job: Job, output: str, suffix: str) -> Path:
        """Give the path of a file that is made of a published output."""
        return self.job(job.id) / _DOWNLOADS / f"{output}{suffix}"

    def forget_downloads(self, job_id: str, *, before: float) -> int:
        """Delete files that were made of a job's results before a time; say how many."""
        folder = self.job(job_id) / _DOWNLOADS
        return _delete_old([folder / n for n in _names(folder) if _DOWNLOAD.fullmatch(n)], before)

    def upload(self, upload_id: str) -> Path:
        """Give the Zarr store of a complete upload."""
        return self.root / "uploads" / f"{upload_id}.zarr"

    def uploaded(self, upload_id: str) -> Path:
        """Give the dataset of a complete upload: its Zarr store, or its NetCDF file."""
        file = self.upload(upload_id) / NETCDF
        return file if file.is_file() else self.upload(upload_id)

    def open_upload(self, upload_id: str) -> Path:
        """Give the Zarr store of an upload that is being sent."""
        return self.root / "uploads" / f"{upload_id}.open"

    def upload_parts(self, upload_id: str) -> Path:
        """Give the folder where the objects of an upload are until they are whole."""
        return self.root / "uploads" / f"{upload_id}.parts"

    def named(self) -> tuple[frozenset[str], frozenset[str]]:
        """Give the names of all that lies among the jobs and among the uploads."""
        return _names(self.jobs), _names(self.root / "uploads")

    def shortage(self, headroom: int) -> str:
        """Say how little of the disk is free; empty where `headroom` bytes are."""
        disk = os.statvfs(self.root)
        free = disk.f_bavail * disk.f_frsize
        return "" if free >= headroom else f"only {free} bytes are free, {headroom} must stay free"

    def waits_for_room(self, headroom: int) -> str:
        """Say why jobs that write wait for the disk; empty where they do not."""
        with suppress(OSError):  # a disk that does not answer is told by who uses it
            if short := self.shortage(headroom):
                return f"Waiting for room on the disk: {short}."
        return ""

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

    def forget(self, gone: Removed) -> Removal:
        """Delete what is left of a job or an upload."""
        return self.forget_job(gone.id) if gone.kind == "job" else self.forget_upload(gone.id)

    def forget_job(self, job_id: str) -> Removal:
        """Delete the files of a job."""
        with _own_folders(self.job(job_id)) as own:
            deleted = own.delete(_OWN)
        with suppress(OSError):  # what someone else put there stays, and so does the folder
            self.job(job_id).rmdir()
        return deleted

    def forget_upload(self, upload_id: str) -> Removal:
        """Delete the files of an upload."""
        with _own_folders(self.root / "uploads", follow=True) as own:
            return own.delete(_of_upload(upload_id, "open|parts|zarr"))

    def forget_parts(self, upload_id: str) -> Removal:
        """Delete the parts of an upload that is complete."""
        with _own_folders(self.root / "uploads", follow=True) as own:
            return own.delete(_of_upload(upload_id, "parts"))

    def forget_old_parts(self, upload_id: str, *, before: float) -> int:
        """Delete parts of an open upload that grew last before a time; say how many."""
        parts = self.upload_parts(upload_id)
        return _delete_old([parts / n for n in _names(parts) if _PART.fullmatch(n)], before)

    def with_parts(self) -> list[str]:
        """Give the identifiers of uploads that have a folder of parts."""
        names = (Path(name) for name in _names(self.root / "uploads"))
        return sorted(each.stem for each in names if each.suffix == ".parts" and is_id(each.stem))

    def prune(self, job: Job) -> Removal:
        """Delete what a finished job no longer needs: its workspace and unpublished attempts."""
        published = (job.outputs or {}).get("zarr", {})
        kept = {_DOWNLOADS, *(Path(folder).parts[0] for folder in published.values())}
        with _own_folders(self.job(job.id)) as own:
            return own.delete(_OWN, but=kept)


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        # What someone else put there may be a file.
        return frozenset()


def _delete_old(files: Collection[Path], before: float) -> int:
    old = [path for path in files if _grew(path) < before]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _checked(name: str) -> str:
    """Give an identifier; nothing else may become part of a path."""
    if not is_id(name):
        raise ValueError(f"'{name}' is not an identifier.")
    return name


def _of_upload(upload_id: str, kinds: str) -> re.Pattern[str]:
    return re.compile(re.escape(_checked(upload_id)) + rf"\.({kinds})")


def _is_sent(path: str) -> bool:
    """Say whether a path in a store of an upload is that of an object, or a draft of metadata."""
    return path in DRAFTS or has_key_names(path)


def _is_part(path: str) -> bool:
    return path == COMPARED or _PART.fullmatch(path) is not None


def _own_in(folder: str) -> Callable[[str], bool]:
    """Give what tells Halocline's files from others in a folder of its own."""
    kinds = {".parts": _is_part, ".open": _is_sent, ".zarr": _is_sent}
    if folder == _DOWNLOADS:
        return lambda path: _DOWNLOAD.fullmatch(path) is not None
    return kinds.get(Path(folder).suffix, is_own)


def _grew(path: Path) -> float:
    """Say when a file grew last; endlessly late where it is none, or became whole meanwhile."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return math.inf
    return found.st_mtime if stat.S_ISREG(found.st_mode) else math.inf


@dataclass(frozen=True, slots=True)
class _Folders:
    """The folders in an open folder, which is called `at`; links are none, wherever they lead."""

    at: Path
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

    def delete(self, own: re.Pattern[str], *, but: Collection[str] = ()) -> Removal:
        """Delete those that are Halocline's, without what someone else put into them."""
        every = Removal()
        for name in self.names(own):
            if name not in but:
                removal = remove_own(name, _own_in(name), dir_fd=self.within)
                every.gone += removal.gone
                every.kept += [f"{name}/{path}" for path in removal.kept]
                every.left += [f"{name}/{path}" for path in removal.left]
        if every.gone and every.kept:
            told = every.kept[:_TOLD]
            _log.warning("files of others kept", at=self.at, count=len(every.kept), files=told)
        return every


@contextmanager
def _own_folders(folder: Path, *, follow: bool = False) -> Generator[_Folders]:
    """Open a folder to look into; it has none where it is not there, or a link."""
    try:
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        yield _Folders(folder, None)
        return
    try:
        yield _Folders(folder, found)
    finally:
        os.close(found)
