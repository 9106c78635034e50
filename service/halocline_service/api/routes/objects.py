"""Keys of uploads: PUTs and GETs of a Zarr store's objects.

These routes are separate from others of uploads, as their bodies may be larger.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import cast

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response

from halocline_engine.datasets.storing.outputs import is_netcdf
from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import Context, Here, OwnUpload, base_url
from halocline_service.api.requests.headers import whole_number
from halocline_service.api.requests.room import Held, Room
from halocline_service.api.responses.files import FOREVER, NEVER, serve
from halocline_service.api.responses.listing import listing
from halocline_service.datasets.keys import locate
from halocline_service.datasets.tree import Census, count
from halocline_service.jobs.job import Upload

__all__ = ["Meter", "check_size", "meter", "router", "store_object"]

router = APIRouter(tags=["Uploads"])

_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    }
}


@dataclass(slots=True)
class _Counted:
    """Census of one upload, with a lock of its own, as the first count may take long."""

    lock: Lock = field(default_factory=Lock)
    census: Census | None = None


class Meter:
    """Census of open uploads, to check limits while objects arrive.

    Each process counts its own requests; `complete` counts the files.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_upload: dict[str, _Counted] = {}

    def _of(self, upload_id: str) -> _Counted:
        with self._lock:
            return self._by_upload.setdefault(upload_id, _Counted())

    def seen(self, upload_id: str, first: Callable[[], Census]) -> Census:
        """Return the census of an upload, by `first` if it was not counted before."""
        counted = self._of(upload_id)
        with counted.lock:
            counted.census = counted.census or first()
            return counted.census

    def store(
        self,
        upload_id: str,
        target: Path,
        size: int,
        *,
        first: Callable[[], Census],
        check: Callable[[Census], None],
        move: Callable[[], None],
    ) -> None:
        """Move an object to `target` with `move`, and count it in place of an earlier one.

        `first` is the first census of the upload. Nothing is counted if `check` or `move` raises.
        """
        counted = self._of(upload_id)
        with counted.lock:
            before = counted.census or first()
            counted.census = before
            old = _stored(target)
            after = Census(
                before.keys + 1 - old.keys,
                before.bytes + size - old.bytes,
                before.folders + _missing_folders(target),
            )
            check(after)
            move()
            counted.census = after

    def forget(self, upload_id: str) -> None:
        """Stop counting an upload."""
        with self._lock:
            self._by_upload.pop(upload_id, None)


def _stored(target: Path) -> Census:
    try:
        status = os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return Census(0, 0)
    return Census(1, status.st_size) if stat.S_ISREG(status.st_mode) else Census(0, 0)


def _missing_folders(target: Path) -> int:
    """Return the number of missing folders above `target`."""
    return next(count for count, folder in enumerate(target.parents) if folder.exists())


def check_size(here: Context, census: Census) -> None:
    """Raise a problem if an upload exceeds a limit."""
    if census.bytes > here.settings.upload_bytes:
        raise ProblemError(
            "body-too-large",
            f"The upload has more than {here.settings.upload_bytes} bytes.",
            hint="An operator may name a folder to read data from instead.",
        )
    if census.keys + census.folders > here.settings.upload_keys:
        raise ProblemError(
            "body-too-large",
            f"The upload has more than {here.settings.upload_keys} objects and folders.",
            hint="Store it in larger chunks.",
        )


def meter(request: Request) -> Meter:
    """Return the application's meter."""
    return cast("Meter", request.app.state.meter)


@router.put(
    "/uploads/{upload_id}.zarr/{key:path}",
    status_code=204,
    summary="Send a key of a Zarr store",
    openapi_extra=_BODY,
)
async def put(
    request: Request, response: Response, upload: OwnUpload, key: str, here: Here
) -> None:
    """Store an object atomically; the last of several concurrent requests wins."""
    target = locate(here.layout.open_upload(upload.id), key)
    if target is None:
        raise ProblemError(
            "argument",
            f"'{key[:200]}' is not a key of a Zarr store.",
            hint="Keys are names of arrays, groups and chunks, divided by '/'.",
        )
    if is_netcdf(target) and "/" not in key:
        raise ProblemError(
            "argument",
            f"'{key[:200]}' is the name of a NetCDF file, and no key of a Zarr store.",
            hint=f"PUT the whole file to {base_url(request)}/uploads/{upload.id}.nc",
        )
    await store_object(request, response, here, upload, target, here.settings.upload_key_bytes)


async def store_object(
    request: Request, response: Response, here: Context, upload: Upload, target: Path, most: int
) -> None:
    """Store the body of a request, of at most `most` bytes, and return its digest."""
    if upload.is_complete:
        raise ProblemError("upload", f"Upload '{upload.id}' is complete and cannot be changed.")
    part = here.layout.upload_parts(upload.id) / secrets.token_hex(16)
    others = await anyio.to_thread.run_sync(_others, here, request, upload, target)
    room: Room = request.app.state.room
    try:
        with room.hold(upload.id, others) as held:
            await anyio.to_thread.run_sync(held.check, _announced(request, most))
            size, digest = await _receive(request, part, held)
            await anyio.to_thread.run_sync(_accept, here, request, upload, part, target, size)
    finally:
        await anyio.to_thread.run_sync(_discard, part)
    response.headers["ETag"] = f'"{digest}"'


def _others(here: Context, request: Request, upload: Upload, target: Path) -> int:
    """Return the bytes of an upload, without an object that is replaced."""
    sent = here.layout.open_upload(upload.id)
    return meter(request).seen(upload.id, lambda: count(sent)).bytes - _stored(target).bytes


def _announced(request: Request, most: int) -> int:
    """Return the announced bytes of a request, at most `most`, as more are refused elsewhere."""
    announced = whole_number(request.headers.get("content-length", "0"))
    return min(announced or 0, most)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)


async def _receive(request: Request, part: Path, held: Held) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    try:
        async with await anyio.open_file(part, "wb") as file:
            async for piece in request.stream():
                digest.update(piece)
                size += len(piece)
                if held.needs_more(size):
                    await anyio.to_thread.run_sync(held.extend, size)
                await file.write(piece)
                held.wrote(len(piece))
    except FileNotFoundError:
        raise ProblemError("upload", "The upload was completed or deleted meanwhile.") from None
    except OSError as error:
        raise ProblemError("output", f"The object cannot be stored: {error.strerror}.") from None
    return size, digest.hexdigest()


def _accept(
    here: Context, request: Request, upload: Upload, part: Path, target: Path, size: int
) -> None:
    sent = here.layout.open_upload(upload.id)
    meter(request).store(
        upload.id,
        target,
        size,
        first=lambda: count(sent),
        check=lambda census: check_size(here, census),
        move=lambda: _move(part, sent, target),
    )


def _move(part: Path, sent: Path, target: Path) -> None:
    try:
        folder = sent  # the folders below may be made, but not this one
        for name in target.relative_to(sent).parts[:-1]:
            folder /= name
            folder.mkdir(mode=0o700, exist_ok=True)
        os.replace(part, target)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError):
        raise ProblemError(
            "upload",
            "The object cannot be stored: the upload was completed or deleted meanwhile, "
            "or the key is also a folder of other keys.",
        ) from None


@router.get(
    "/uploads/{upload_id}.zarr/{key:path}",
    summary="A key of an upload's Zarr store",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}, "application/json": {}}}},
)
def get(request: Request, upload: OwnUpload, key: str, here: Here) -> Response:
    """Give one object of an upload."""
    done = upload.is_complete
    root = here.layout.upload(upload.id) if done else here.layout.open_upload(upload.id)
    caching = FOREVER if done else NEVER
    page = listing(root, key, caching=caching)
    if page is not None:
        return page
    path = locate(root, key)
    if path is None or not path.is_file():
        raise ProblemError("not-found", f"The upload has no key '{key[:200]}'.")
    return serve(request, path, caching=caching)
