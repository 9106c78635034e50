"""Results on their way back: a Zarr store copied object by object, whatever its size."""

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

__all__ = ["checked_content", "chunk_keys", "download", "raise_if_gone"]

_WORKERS = 8
_NETCDF = frozenset({".nc", ".nc4", ".cdf", ".h5", ".hdf5"})
_DIGEST = re.compile("[0-9a-f]{64}")


def download(connection: Connection, url: str, path: Path) -> Path:
    """Copy the consolidated Zarr store at `url` to the folder `path`, and return it.

    The folder appears whole or not at all. An object that the service does not have stands for a
    chunk of nothing but fill values, as Zarr has it. Raises OutputError where something is at
    `path`, or it cannot be written.
    """
    if path.suffix in _NETCDF:
        raise OutputError(
            f"'{path}' is named as a NetCDF file, but a result is a Zarr store.",
            hint=f"Name it '{path.stem}.zarr', or write job.result().to_netcdf('{path.name}').",
        )
    if path.exists():
        raise OutputError(
            f"There is already something at '{path}'.", hint="Name a folder that does not exist."
        )
    document = connection.get(f"{url}/zarr.json")
    arrays = _arrays(document)
    keys = [f"{name}/{key}" for name, meta in arrays.items() for key in chunk_keys(meta)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            for key in ["", *(f"{name}/" for name in _nodes(document))]:
                _copy(connection, url, f"{key}zarr.json", partial)
            with ThreadPoolExecutor(_WORKERS) as pool:
                copies = [pool.submit(_copy, connection, url, key, partial) for key in keys]
                for copy in copies:
                    copy.result()
            partial.chmod(0o755)
            os.replace(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"The result cannot be written to '{path}': {error}.") from error
    return path


def checked_content(response: httpx2.Response, key: str) -> bytes:
    """Return an object of a result; raises `ServiceError` where it is not what the service has."""
    content, told = response.content, response.headers.get("ETag", "").strip('"')
    if _DIGEST.fullmatch(told) and hashlib.sha256(content).hexdigest() != told:
        raise ServiceError(
            f"The object '{key}' of the result did not arrive as the service has it.",
            hint="Try again; if it comes again, something on the way changes what is sent.",
        )
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
