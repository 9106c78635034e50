"""Upload of a Zarr store: begun, resumed after an interruption, and completed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from halocline.connection import Connection
from halocline.errors import (
    BusyError,
    ConflictError,
    ConnectionFailed,
    HaloclineError,
    NotFoundError,
    ServiceError,
)

__all__ = ["send_store"]

_FIRST = "zarr.json"
_WORKERS = 8
_LOOK_SECONDS = 2.0
_LOOKS = 100  # each waits in the service for up to 20 s
_TRIES = 5


def send_store(connection: Connection, root: Path, *, keep: bool) -> str:
    """Upload a Zarr store, unless the service has it, and return `upload:<id>`.

    Uploads are identified by their content. An interrupted upload, of this or another process, is
    resumed: only missing or different objects are sent. Other processes may upload the same content
    at the same time.
    """
    digests = _digests(root)
    listed = "".join(f"{digest}  {key}\n" for key, digest in digests.items())
    digest = hashlib.sha256(listed.encode()).hexdigest()
    announced = {"digest": digest, "keep": keep}
    headers = {"Idempotency-Key": f"{'kept' if keep else 'read'} {digest}"}
    for left in reversed(range(_TRIES)):
        opened = connection.post("/uploads", announced, headers, ("id", "href", "reference"))
        if opened.get("status") == "complete":
            return str(opened["reference"])
        try:
            _send(connection, root, opened, digests)
        except NotFoundError:  # discarded by another process, or removed with its last job
            if left == 0:
                raise
        except ConflictError:
            if _is_completed_elsewhere(connection, opened):
                continue
            _discard(connection, opened)
            raise
        except (BusyError, ConnectionFailed, KeyboardInterrupt):
            raise  # the next attempt resumes the upload
        except BaseException:
            _discard(connection, opened)
            raise
        else:
            return str(opened["reference"])
    raise AssertionError("unreachable")


def _digests(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each object by its key, sorted by the bytes of the keys."""
    paths = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file()}
    keys = sorted(paths, key=str.encode)
    with ThreadPoolExecutor(_WORKERS) as pool:
        return dict(zip(keys, pool.map(_sha256, (paths[key] for key in keys)), strict=True))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_completed_elsewhere(connection: Connection, opened: Mapping[str, Any]) -> bool:
    """Wait for another process that completes an upload; return whether it succeeded."""
    try:
        _complete(connection, f"/uploads/{opened['id']}/complete")
    except NotFoundError:
        return True
    except ConflictError:
        return False
    return True


def _discard(connection: Connection, opened: Mapping[str, Any]) -> None:
    """Delete an upload that cannot be completed; errors of this are ignored for the first one."""
    with suppress(HaloclineError):
        connection.send("DELETE", f"/uploads/{opened['id']}")


def _send(
    connection: Connection, root: Path, opened: Mapping[str, Any], digests: Mapping[str, str]
) -> None:
    """Send the missing objects of a store, and complete the upload.

    The metadata of the root are sent first: if the service has them, it may have other objects.
    """
    objects = _Objects(connection, root, str(opened["href"]), digests)
    begun = objects.has(_FIRST)
    if not begun:
        objects.send(_FIRST)
    rest = [key for key in digests if key != _FIRST]
    _in_parallel(objects.send_missing if begun else objects.send, rest)
    _complete(connection, f"/uploads/{opened['id']}/complete")


def _in_parallel(work: Callable[[str], None], keys: Iterable[str]) -> None:
    pool = ThreadPoolExecutor(_WORKERS)
    try:
        list(pool.map(work, keys))
    finally:
        pool.shutdown(cancel_futures=True)  # after an error the rest need not be sent


def _complete(connection: Connection, path: str) -> None:
    """Complete an upload; reading a large one takes the service longer than one request."""
    for left in reversed(range(_LOOKS)):
        try:
            connection.post(path, {})
        except ConflictError as error:
            if not error.problem.get("busy") or left == 0:
                raise
            connection.sleep(_LOOK_SECONDS)
        else:
            return


@dataclass(frozen=True)
class _Objects:
    """Files below a folder, sent to keys below an address."""

    connection: Connection
    root: Path
    href: str
    digests: Mapping[str, str]

    def has(self, key: str) -> bool:
        """Return whether the service has an identical object."""
        try:
            answer = self.connection.send("HEAD", self._address(key))
        except NotFoundError:
            return False
        return answer.headers.get("ETag") == f'"{self.digests[key]}"'

    def send_missing(self, key: str) -> None:
        """Send an object unless the service has it."""
        if not self.has(key):
            self.send(key)

    def send(self, key: str) -> None:
        """Send an object, and verify the digest in the response."""
        content = (self.root / key).read_bytes()
        answer = self.connection.send("PUT", self._address(key), content=content)
        tag = answer.headers.get("ETag")
        if tag is not None and tag != f'"{self.digests[key]}"':
            raise ServiceError(
                f"The object '{key}' was corrupted in transit: it has the SHA-256 {tag}.",
                hint="Try again. If the error persists, a proxy may change the content.",
            )

    def _address(self, key: str) -> str:
        return f"{self.href}/{quote(key)}"
