"""Files over HTTP, with ranges, strong entity tags and conditional requests."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from threading import Lock

from fastapi import Request, Response
from fastapi.responses import FileResponse
from starlette.datastructures import Headers

from halocline_engine.datasets.regular import open_regular
from halocline_service.api.problems import ProblemError
from halocline_service.api.responses.ranges import MOST_RANGES, normal
from halocline_service.datasets.keys import is_metadata

__all__ = ["FOREVER", "NEVER", "Digests", "serve"]

FOREVER = "private, max-age=31536000, immutable"
NEVER = "no-store"
_PIECE = 2**20


class Digests:
    """Bounded cache of the SHA-256 of files, by path, inode, size and time of modification."""

    def __init__(self, most: int = 65_536) -> None:
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()

    def of(self, path: Path, stat: os.stat_result) -> str:
        """Return the SHA-256 of a file in hexadecimal."""
        mark = (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
        with self._lock:
            if mark in self._known:
                self._known.move_to_end(mark)
                return self._known[mark]
        digest = _sha256(path)
        with self._lock:
            self._known[mark] = digest
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return digest


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def serve(
    request: Request,
    path: Path,
    *,
    caching: str,
    media_type: str | None = None,
    filename: str | None = None,
) -> Response:
    """Return the response with a file; with a `filename`, browsers save it under that name."""
    digests: Digests = request.app.state.digests
    try:
        stat = path.stat()
        tag = f'"{digests.of(path, stat)}"'
    except FileNotFoundError:
        raise ProblemError("not-found", f"There is no key '{path.name}' any more.") from None
    headers = {
        "ETag": tag,
        "Cache-Control": caching,
        "Accept-Ranges": "bytes",
        "Last-Modified": formatdate(stat.st_mtime, usegmt=True),
    }
    if _is_known(request.headers, tag, stat.st_mtime):
        return Response(status_code=304, headers=headers)
    _check_range(request, stat.st_size)
    plain = "application/json" if is_metadata(path.name) else "application/octet-stream"
    kind = media_type or plain
    return FileResponse(path, headers=headers, media_type=kind, stat_result=stat, filename=filename)


def _is_known(headers: Headers, tag: str, modified: float) -> bool:
    """Return whether the client has the file, by its tag or else by the time."""
    condition = headers.get("if-none-match")
    if condition is not None:
        return _matches(condition, tag)
    try:
        since = parsedate_to_datetime(headers["if-modified-since"])
        return int(modified) <= since.timestamp()
    except (KeyError, ValueError, OverflowError):
        return False


def _check_range(request: Request, size: int) -> None:
    """Normalise or remove the Range header. Raises `ProblemError` (416)."""
    given = request.headers.get("range")
    if given is None:
        return
    wanted = normal(given, size)
    if wanted is None:
        raise ProblemError(
            "range",
            f"The range '{given[:100]}' is not satisfiable: the object has {size} bytes.",
            hint=f"Write 'bytes=<first>-<last>', at most {MOST_RANGES} of them.",
            headers={"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"},
        )
    kept = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
    request.scope["headers"] = [*kept, (b"range", wanted.encode())] if wanted else kept


def _matches(condition: str, tag: str) -> bool:
    tags = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in tags or tag in tags
