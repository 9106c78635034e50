"""Datasets that users send: plain PUTs of a Zarr store's keys, or of a NetCDF file.

One check at the end freezes them.
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
    "Delete some: GET /uploads lists yours, DELETE /uploads/{id} deletes one. What was sent for "
    "jobs goes with the last of them."
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
    """Make room for a dataset; its Zarr keys are then PUT below `href`, or a NetCDF file beside it.

    Where you have the same content already, as its digest tells, that upload is answered (200).
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
    """Tell how an upload stands."""
    return _info(here, upload, base_url(request))


@router.delete("/uploads/{upload_id}", status_code=204, summary="Delete an upload")
def delete_upload(request: Request, upload: OwnUpload, here: Here, owner: Owner) -> None:
    """Forget an upload and its bytes; one that an unfinished job reads is kept.

    If this ends halfway, the dispatcher's sweep deletes what is left.
    """
    refuse_in_use(here, f"upload:{upload.id}", owner=owner)
    with _alone(here, upload):
        # The row first: as long as it is there, a job may read what is only half there.
        here.store.uploads.remove(upload.id, owner=owner)
        here.layout.forget_upload(upload.id)
    meter(request).forget(upload.id)


@router.post(
    "/uploads/{upload_id}/complete",
    response_model=UploadInfo,
    response_model_exclude_none=True,
    summary="Check and freeze an upload",
)
def complete(request: Request, upload: OwnUpload, here: Here, owner: Owner) -> UploadInfo:
    """Check the metadata, write it consolidated, and freeze the upload; then jobs may read it.

    A NetCDF file is looked into as a whole.
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
    """Complete or delete an upload while no other request does; a process that dies lets go of it.

    A request whose connection was lost may still be at work when it is sent again: that one waits.
    """
    try:
        with alone(here.layout.upload_parts(upload.id), seconds=_TURN_SECONDS):
            yield
    except BusyError:
        raise ProblemError(
            "upload",
            f"Upload '{upload.id}' is being completed by another request.",
            hint="Look at it with GET, or send the request again later.",
            fields={"busy": True},
        ) from None


def _freeze(request: Request, here: Context, upload: Upload) -> Census:
    """Take the dataset away from its writers and check it; give it back if it is not good."""
    sent, frozen = here.layout.open_upload(upload.id), here.layout.upload(upload.id)
    compared = here.layout.upload_parts(upload.id) / COMPARED
    if not frozen.exists():  # else an earlier request came this far and no further
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
            compared.touch()  # from here on it is not as it was sent
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
    """Look into a file in a process with limits; it must be all that was sent."""
    if any(path != file for path in file.parent.iterdir()):
        raise ProblemError(
            "upload",
            f"Upload '{upload.id}' has a NetCDF file and keys of a Zarr store, expected one of "
            "them.",
            hint="Delete the upload, and send either.",
        )
    files: FileProcesses = request.app.state.files
    anyio.from_thread.run(files.check, upload.owner, file, upload.id)


def _compare(upload: Upload, found: str) -> None:
    if found != upload.digest:
        raise ProblemError(
            "upload",
            f"Upload '{upload.id}' has the digest {found}, but {upload.digest} was announced.",
            hint="Send the objects that differ again and complete it again, or delete it and begin "
            "anew.",
        )
