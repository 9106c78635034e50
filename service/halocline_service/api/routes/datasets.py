"""Datasets in the configured folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse

from halocline_service.api.problems import ProblemError, problem_body, problem_of
from halocline_service.api.requests.context import Context, Here, Owner, base_url
from halocline_service.api.requests.paging import Limit, Offset, counted
from halocline_service.api.schemas import DatasetDescription, DatasetList
from halocline_service.datasets.references import DatasetRefused
from halocline_service.datasets.tree import is_zarr

__all__ = ["router"]

router = APIRouter(tags=["Datasets"])

_MOST = 1000
_DEEPEST = 6
_LENIENT = "handling=lenient"
_FILES = (".nc", ".nc4", ".h5", ".hdf5")


@router.get(
    "/datasets",
    response_model_exclude_none=True,
    summary="Datasets of the service",
)
def datasets(
    request: Request, here: Here, _owner: Owner, limit: Limit = _MOST, offset: Offset = 0
) -> DatasetList:
    """List Zarr stores and NetCDF files in the configured folders, by relative paths."""
    names = (
        str(path.relative_to(root))
        for root in map(Path.resolve, here.settings.data_roots)
        for path in _walk(root, 0)
    )
    listed_names = list(islice(names, offset + limit + 1))
    listed, beside = counted(request, listed_names, limit, offset)
    return DatasetList(datasets=listed, truncated=len(listed_names) > offset + limit, links=beside)


@router.get(
    "/datasets/description",
    response_model=DatasetDescription,
    response_model_exclude_none=True,
    summary="Dimensions and variables of a dataset",
)
async def description(
    request: Request,
    here: Here,
    owner: Owner,
    dataset: Annotated[str, Query(max_length=4096, description="Reference, as in a job.")],
    prefer: Annotated[str | None, Header()] = None,
) -> Any:
    """Describe a dataset that your jobs may read, without reading its values.

    With 'Prefer: handling=lenient', an invalid dataset is answered by its `problem`.
    """
    try:
        outcome = await _described(here, owner, dataset)
    except (ProblemError, DatasetRefused) as error:
        if _LENIENT not in (prefer or ""):
            raise
        problem = error if isinstance(error, ProblemError) else problem_of(error)
        answer = {"dataset": dataset, "problem": problem_body(base_url(request), problem)}
        return JSONResponse(answer, headers={"Preference-Applied": _LENIENT, "Vary": "Prefer"})
    return {"dataset": dataset, **outcome}


async def _described(here: Context, owner: str, dataset: str) -> Mapping[str, Any]:
    resolve = partial(here.resolver.resolve, owner=owner)
    path = await anyio.to_thread.run_sync(resolve, dataset)
    outcome = await here.checks.describe(owner, str(path), here.settings.chunk_bytes)
    if "problem" in outcome:
        problem: dict[str, Any] = outcome["problem"]
        detail = str(problem["detail"]).replace(str(path), dataset)  # the path is internal
        members: dict[str, Any] = {**problem, "detail": detail}
        raise ProblemError(**members)
    return outcome


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for child in children:
        path = Path(child.path)
        if child.name.startswith("."):
            continue
        if child.is_file(follow_symlinks=False) and path.suffix.lower() in _FILES:
            yield path
        elif child.is_dir(follow_symlinks=False):
            if is_zarr(path):
                yield path
            elif depth < _DEEPEST:
                yield from _walk(path, depth + 1)
