"""Uploads of datasets: PUTs of the keys of a Zarr store, or of a NetCDF file.

A check at the end completes an upload.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio.from_thread
from fastapi import APIRouter, Request, Response

from halocline_engine.errors import DatasetError
from halocline_service.api.near_routes import SEND
from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import (
    Context,
    Here,
    IdempotencyKey,
    Owner,
    OwnUpload,
    base_url,
)
from halocline_service.api.requests.execution import used_key
from halocline_service.api.requests.paging import After, Before, Limit, Offset, asked, links, turn
from halocline_service.api.requests.usage import refuse_in_use
from halocline_service.api.responses.downloads import FileProcesses
from halocline_service.api.routes.objects import check_size, meter
from halocline_service.api.schemas import Link, OpenUpload, UploadInfo, UploadList, timestamp
from halocline_service.datasets.digests import digest_of
from halocline_service.datasets.layout import COMPARED, NETCDF
from halocline_service.datasets.tree import Census, check_tree, consolidate, count
from halocline_service.datasets.turns import BusyError, alone
from halocline_service.jobs.job import Upload, UploadRequest
from halocline_service.store.base import IdempotencyConflict, QueueFull

__all__ = ["router"]

router = APIRouter(tags=["Uploads"])

_TURN_SECONDS = 20.0
_ROOM = (
    "Delete some: GET /uploads lists yours, DELETE /uploads/{id} deletes one. Uploads for jobs "
    "are deleted with the last job."
)


@router.post(
    "/uploads",
    status_code=201,
    response_model=UploadInfo,
    response_model_exclude_none=True,
    summary="Open an upload",
)
def open_upload(
    request: Request,
    response: Response,
    here: Here,
    owner: Owner,
    body: OpenUpload | None = None,
    idempotency_key: IdempotencyKey = None,
) -> UploadInfo:
    """Open an upload, for PUTs of Zarr keys below `href`, or of a NetCDF file.

    If you have a complete upload with the same digest, it is returned (200).
    """
    asked = body or OpenUpload()
    try:
        made = here.store.uploads.add(
            UploadRequest(
                owner=owner,
                idempotency_key=idempotency_key,
                digest=asked.digest,
                kept=asked.keep,
            ),
            limit=here.settings.uploads_per_owner,
        )
    except IdempotencyConflict:
        raise used_key(idempotency_key) from None
    except QueueFull:
        raise ProblemError(
            "queue-full",
            f"You have {here.settings.uploads_per_owner} uploads, and no more are allowed.",
            hint=_ROOM,
        ) from None
    if made.is_complete:
        response.status_code = 200
    else:
        here.layout.make_upload(made.id)
    info = _info(here, made, base_url(request))
    response.headers["Location"] = f"{base_url(request)}/uploads/{made.id}"
    return info


def _info(here: Context, upload: Upload, base: str) -> UploadInfo:
    url = f"{base}/uploads/{upload.id}"
    done = upload.is_complete
    beside = [Link(href=url, rel="self", type="application/json")]
    if not done:
        beside.append(Link(href=f"{url}.nc", rel="netcdf", type="application/x-netcdf"))
        beside.append(Link(href=f"{url}/complete", rel="complete", type="application/json"))
    return UploadInfo(
        id=upload.id,
        status="complete" if done else "open",
        href=f"{url}.nc" if done and here.layout.uploaded(upload.id).is_file() else f"{url}.zarr",
        reference=f"upload:{upload.id}",
        created=timestamp(upload.created) or "",
        completed=timestamp(upload.completed),
        keys=upload.keys if done else None,
        bytes=upload.bytes if done else None,
        digest=upload.digest if done else None,
        kept=upload.kept,
        links=beside,
    )


@router.get(
    "/uploads",
    response_model=UploadList,
    response_model_exclude_none=True,
    summary="Your uploads",
)
def uploads(
    request: Request,
    here: Here,
    owner: Owner,
    limit: Limit = 10,
    offset: Offset = 0,
    before: Before = None,
    after: After = None,
) -> UploadList:
    """List uploads, newest first."""
    page = asked(limit, offset, before, after)
    shown, more = turn(here.store.uploads.list(owner, page), page)
    base = base_url(request)
    beside = links(request, [upload.id for upload in shown], page, more=more)
    return UploadList(uploads=[_info(here, upload, base) for upload in shown], links=beside)


@router.get(
    "/uploads/{upload_id}",
    response_model=UploadInfo,
    response_model_exclude_none=True,
    summary="One upload",
)
def upload_info(request: Request, upload: OwnUpload, here: Here) -> UploadInfo:
    """Return the state of an upload."""
    return _info(here, upload, base_url(request))


@router.delete("/uploads/{upload_id}", status_code=204, summary="Delete an upload")
def delete_upload(request: Request, upload: OwnUpload, here: Here, owner: Owner) -> None:
    """Delete an upload; an upload that an unfinished job reads is kept.

    After an interruption, the dispatcher deletes the remaining files.
    """
    refuse_in_use(here, f"upload:{upload.id}", owner=owner)
    with _alone(here, upload):
        # The row is deleted first, so that no job can read a partly deleted upload.
        here.store.uploads.remove(upload.id, owner=owner)
        here.layout.forget_upload(upload.id)
    meter(request).forget(upload.id)


@router.post(
    "/uploads/{upload_id}/complete",
    response_model=UploadInfo,
    response_model_exclude_none=True,
    summary="Check and complete an upload",
)
def complete(request: Request, upload: OwnUpload, here: Here, owner: Owner) -> UploadInfo:
    """Check an upload and complete it, so that jobs may read it.

    The metadata of a Zarr store are checked and consolidated; a NetCDF file is checked as a whole.
    """
    with _alone(here, upload):
        uploads = here.store.uploads
        done = uploads.get(upload.id, owner=owner)
        if done is not None and not done.is_complete:
            census = _freeze(request, here, upload)
            done = uploads.complete(upload.id, owner=owner, keys=census.keys, size=census.bytes)
        if done is None:
            raise ProblemError("upload", f"Upload '{upload.id}' was deleted by another request.")
        here.layout.forget_parts(upload.id)
    meter(request).forget(upload.id)
    return _info(here, done, base_url(request))


@contextmanager
def _alone(here: Context, upload: Upload) -> Generator[None]:
    """Hold the lock for completing or deleting an upload; it is released if the process dies.

    A repeated request waits for a first one that may still run after its connection was lost.
    """
    try:
        with alone(here.layout.upload_parts(upload.id), seconds=_TURN_SECONDS):
            yield
    except BusyError:
        raise ProblemError(
            "upload",
            f"Upload '{upload.id}' is being completed by another request.",
            hint="Check it with GET, or send the request again later.",
            fields={"busy": True},
        ) from None


def _freeze(request: Request, here: Context, upload: Upload) -> Census:
    """Move the dataset away from its writers and check it; move it back if it is invalid."""
    sent, frozen = here.layout.open_upload(upload.id), here.layout.upload(upload.id)
    compared = here.layout.upload_parts(upload.id) / COMPARED
    if not frozen.exists():  # otherwise moved by an earlier, interrupted request
        compared.unlink(missing_ok=True)
        try:
            sent.rename(frozen)
        except FileNotFoundError:
            raise ProblemError(
                "upload", f"Upload '{upload.id}' was deleted by another request."
            ) from None
    try:
        documents = _checked(request, here, upload, frozen)
        if upload.digest is not None and not compared.exists():
            _compare(upload, digest_of(frozen))
            compared.touch()  # consolidation changes the content
        if documents:
            consolidate(frozen, documents)
        census = count(frozen)
        check_size(here, census)
    except Exception:
        frozen.rename(sent)
        raise
    return census


def _checked(
    request: Request, here: Context, upload: Upload, frozen: Path
) -> dict[str, dict[str, Any]]:
    """Check what was sent; return the metadata of a Zarr store, and nothing of a NetCDF file."""
    file = frozen / NETCDF
    if file.is_file():
        _check_netcdf(request, upload, file)
        return {}
    if not any(frozen.iterdir()):
        raise DatasetError(f"Upload '{upload.id}' has nothing in it.", hint=SEND)
    return check_tree(frozen, largest_chunk=here.settings.chunk_bytes)


def _check_netcdf(request: Request, upload: Upload, file: Path) -> None:
    """Check a file in a process with limits; the upload must have no other object."""
    if any(path != file for path in file.parent.iterdir()):
        raise ProblemError(
            "upload",
            f"Upload '{upload.id}' has a NetCDF file and keys of a Zarr store, expected one of "
            "them.",
            hint="Delete the upload, and send either.",
        )
    files: FileProcesses = request.app.state.files
    anyio.from_thread.run(files.check, upload.owner, file, upload.id)


def _compare(upload: Upload, digest: str) -> None:
    if digest != upload.digest:
        raise ProblemError(
            "upload",
            f"Upload '{upload.id}' has the digest {digest}, but {upload.digest} was announced.",
            hint="Send the objects that differ again and complete it again, or delete it and begin "
            "anew.",
        )
