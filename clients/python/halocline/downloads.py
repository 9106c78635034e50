"""Results on their way back, of any size: a Zarr store object by object, or a NetCDF file."""

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

__all__ = ["checked_content", "checked_output", "chunk_keys", "download", "raise_if_gone"]

_WORKERS = 8
_DIGEST = re.compile("[0-9a-f]{64}")
_PIECE = 32 * 2**20  # bytes of a file that are asked for at a time
#: Seconds that a service may take to make a NetCDF file.
_MAKING = httpx2.Timeout(60.0, connect=10.0, read=1800.0)


def checked_output(output: str | Path) -> Path:
    """Return the path of a result, to which it can be written.

    Raises OutputError before anything is sent where it cannot.
    """
    path = output_path(str(output), OutputError).expanduser()
    check_output_path(path, OutputError)
    return path


def download(connection: Connection, url: str, path: Path) -> Path:
    """Copy the result whose Zarr store is at `url` to `path`, and return that.

    It is a NetCDF file if `path` is called so, otherwise a folder. It appears whole or not at all.
    Raises OutputError where something is at `path`, or it cannot be written.
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
    """Copy a store object by object.

    An object that the service does not have stands for a chunk of nothing but fill values, as Zarr
    has it.
    """
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
    """Copy the NetCDF file of a result in pieces, each of which is asked for again if it is lost.

    The service makes the file when it is asked for the first piece.
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
        raise _other_content("The file", "of the result")
    part.chmod(0o644)
    os.link(part, path) if hasattr(os, "link") else part.rename(path)


def _tag(answer: httpx2.Response) -> str:
    return answer.headers.get("ETag", "").strip('"')


def _whole_size(answer: httpx2.Response) -> int:
    """Return the bytes of the file that an answer is a piece of."""
    of_file = answer.headers.get("Content-Range", "").rpartition("/")[2]
    return int(of_file) if of_file.isdigit() else len(answer.content)


def _other_content(what: str, of: str) -> ServiceError:
    return ServiceError(
        f"{what} {of} did not arrive as the service has it.",
        hint="Try again; if it comes again, something on the way changes what is sent.",
    )


def checked_content(response: httpx2.Response, key: str) -> bytes:
    """Return an object of a result; raises `ServiceError` where it is not what the service has."""
    content, tag = response.content, _tag(response)
    if _DIGEST.fullmatch(tag) and hashlib.sha256(content).hexdigest() != tag:
        raise _other_content(f"The object '{key}'", "of the result")
    return content


def chunk_keys(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that an array's chunks have, by its Zarr metadata (format 3).

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
        raise ServiceError("The result has no consolidated metadata, so it cannot be copied.")
    return dict(consolidated["metadata"])


def _arrays(document: Mapping[str, Any]) -> dict[str, Any]:
    return {k: m for k, m in _nodes(document).items() if m.get("node_type") == "array"}


def _copy(connection: Connection, url: str, key: str, folder: Path) -> None:
    """Copy one object; one that is not there is left out."""
    try:
        answer = connection.send("GET", f"{url}/{key}")
    except NotFoundError as error:
        raise_if_gone(error)
        return
    content = checked_content(answer, key)
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def raise_if_gone(error: NotFoundError) -> None:
    """Raise an error that tells of more than one absent object, which stands for fill values."""
    if error.status != HTTPStatus.NOT_FOUND:
        raise error
