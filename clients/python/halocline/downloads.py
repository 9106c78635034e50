"""Downloads of results of any size: a Zarr store object by object, or a NetCDF file in pieces."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2

from halocline.connection import Connection
from halocline.errors import NotFoundError, OutputError, ServiceError
from halocline_engine.arguments import output_path
from halocline_engine.datasets.storing.outputs import check_output_path, is_netcdf

__all__ = ["check_content", "check_output", "chunk_keys", "download", "raise_if_gone"]

_WORKERS = 8
_DIGEST = re.compile("[0-9a-f]{64}")
_PIECE = 32 * 2**20  # bytes of a file per request
#: The service may take half an hour to write a NetCDF file.
_MAKING = httpx2.Timeout(60.0, connect=10.0, read=1800.0)


def check_output(output: str | Path) -> Path:
    """Return the path of a result; raises OutputError if the result cannot be written there."""
    path = output_path(str(output), OutputError).expanduser()
    check_output_path(path, OutputError)
    return path


def download(connection: Connection, url: str, path: Path) -> Path:
    """Download the result whose Zarr store is at `url` to `path`, and return the path.

    The result is a NetCDF file if the suffix is that of one, otherwise a Zarr store. It appears
    atomically. Raises OutputError if `path` exists or cannot be written.
    """
    check_output_path(path, OutputError)
    copy = _copy_file if is_netcdf(path) else _copy_store
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            copy(connection, url, folder, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"The result cannot be written to '{path}': {error}.") from error
    return path


def _copy_store(connection: Connection, url: str, folder: Path, path: Path) -> None:
    """Copy a store object by object; missing chunks consist of fill values, as Zarr defines."""
    document = connection.get(f"{url}/zarr.json")
    arrays = _arrays(document)
    keys = [f"{name}/{key}" for name, meta in arrays.items() for key in chunk_keys(meta)]
    for key in ["", *(f"{name}/" for name in _nodes(document))]:
        _copy(connection, url, f"{key}zarr.json", folder)
    with ThreadPoolExecutor(_WORKERS) as pool:
        copies = [pool.submit(_copy, connection, url, key, folder) for key in keys]
        for copy in copies:
            copy.result()
    folder.chmod(0o755)
    os.replace(folder, path)


def _copy_file(connection: Connection, url: str, folder: Path, path: Path) -> None:
    """Copy the NetCDF file of a result in pieces, with retries for each piece.

    The service writes the file upon the first request.
    """
    address, part, digest = url.removesuffix(".zarr"), folder / "part", hashlib.sha256()
    size, tag = 1, ""
    with part.open("wb") as file:
        while (at := file.tell()) < size:
            answer = connection.send(
                "GET",
                address,
                params={"f": "netcdf"},
                headers={"Range": f"bytes={at}-{at + _PIECE - 1}"},
                timeout=_MAKING,
            )
            before, tag, size = tag, _tag(answer), _whole_size(answer)
            if before not in ("", tag) or not answer.content:
                raise ServiceError(
                    "The file of the result changed while it was downloaded.", hint="Try again."
                )
            digest.update(answer.content)
            file.write(answer.content)
    if _DIGEST.fullmatch(tag) and digest.hexdigest() != tag:
        raise _corrupted("The file of the result")
    part.chmod(0o644)
    os.link(part, path) if hasattr(os, "link") else part.rename(path)


def _tag(answer: httpx2.Response) -> str:
    return answer.headers.get("ETag", "").strip('"')


def _whole_size(answer: httpx2.Response) -> int:
    """Return the size in bytes of the whole file."""
    of_file = answer.headers.get("Content-Range", "").rpartition("/")[2]
    return int(of_file) if of_file.isdigit() else len(answer.content)


def _corrupted(name: str) -> ServiceError:
    return ServiceError(
        f"{name} was corrupted in transit: its SHA-256 differs from that of the service.",
        hint="Try again. If the error persists, a proxy may change the content.",
    )


def check_content(response: httpx2.Response, key: str) -> bytes:
    """Return the content of a response; raises ServiceError if its digest is wrong."""
    content, tag = response.content, _tag(response)
    if _DIGEST.fullmatch(tag) and hashlib.sha256(content).hexdigest() != tag:
        raise _corrupted(f"The object '{key}' of the result")
    return content


def chunk_keys(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of the chunks of an array, from its Zarr metadata (format 3).

    >>> meta = {"shape": [3, 2], "chunk_grid": {"configuration": {"chunk_shape": [2, 2]}}}
    >>> list(chunk_keys({**meta, "chunk_key_encoding": {"name": "default"}}))
    ['c/0/0', 'c/1/0']
    """
    sizes = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    counts = [math.ceil(n / size) for n, size in zip(metadata["shape"], sizes, strict=True)]
    encoding: dict[str, Any] = metadata.get("chunk_key_encoding", {"name": "default"})
    is_default = encoding["name"] == "default"
    configuration: dict[str, str] = encoding.get("configuration", {})
    separator = configuration.get("separator", "/" if is_default else ".")
    for index in itertools.product(*(range(n) for n in counts)):
        numbers = [str(i) for i in index]
        yield separator.join(["c", *numbers] if is_default else numbers or ["0"])


def _nodes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of all nodes below the root."""
    consolidated = document.get("consolidated_metadata")
    if not consolidated:
        raise ServiceError("The result cannot be downloaded: it has no consolidated metadata.")
    return dict(consolidated["metadata"])


def _arrays(document: Mapping[str, Any]) -> dict[str, Any]:
    return {k: m for k, m in _nodes(document).items() if m.get("node_type") == "array"}


def _copy(connection: Connection, url: str, key: str, folder: Path) -> None:
    """Copy one object; a missing object is skipped."""
    try:
        answer = connection.send("GET", f"{url}/{key}")
    except NotFoundError as error:
        raise_if_gone(error)
        return
    content = check_content(answer, key)
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def raise_if_gone(error: NotFoundError) -> None:
    """Raise the error, unless one object is missing: a chunk of fill values."""
    if error.status != HTTPStatus.NOT_FOUND:
        raise error
