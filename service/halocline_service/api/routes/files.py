"""Uploads that are NetCDF files: the whole file in one PUT, which may be as large as an upload."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import Here, OwnUpload
from halocline_service.api.responses.files import FOREVER, NEVER, serve
from halocline_service.api.routes.objects import store_object
from halocline_service.datasets.layout import NETCDF

__all__ = ["router"]

router = APIRouter(tags=["Uploads"])

_TYPE = "application/x-netcdf"


@router.put(
    "/uploads/{upload_id}.nc",
    status_code=204,
    summary="Send a NetCDF file",
    openapi_extra={
        "requestBody": {"required": True, "content": {_TYPE: {"schema": {"type": "string"}}}}
    },
)
async def put_netcdf(request: Request, response: Response, upload: OwnUpload, here: Here) -> None:
    """Store a whole NetCDF file, of format 3 or 4, as the dataset of an upload."""
    target = here.layout.open_upload(upload.id) / NETCDF
    await store_object(request, response, here, upload, target, here.settings.upload_bytes)


@router.get(
    "/uploads/{upload_id}.nc",
    summary="The NetCDF file of an upload",
    response_class=Response,
    responses={200: {"content": {_TYPE: {}}}},
)
def get_netcdf(request: Request, upload: OwnUpload, here: Here) -> Response:
    """Return the NetCDF file of an upload."""
    done = upload.is_complete
    root = here.layout.upload(upload.id) if done else here.layout.open_upload(upload.id)
    path = root / NETCDF
    if not path.is_file():
        raise ProblemError("not-found", f"Upload '{upload.id}' has no NetCDF file.")
    return serve(request, path, caching=FOREVER if done else NEVER, media_type=_TYPE)
