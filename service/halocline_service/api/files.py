"""Files over HTTP: ranges, strong entity tags, conditional requests."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from fastapi import Request, Response
from fastapi.responses import FileResponse

from halocline_service.api.problems import ProblemError
from halocline_service.datasets.keys import is_metadata

__all__ = ["FOREVER", "NEVER", "Digests", "serve"]

FOREVER = "private, max-age=31536000, immutable"
NEVER = "no-store"
_PIECE = 2**20


class Digests:
    """Remembers the SHA-256 of files by what identifies their content; bounded."""

    def __init__(self, most: int = 65_536) -> None:
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()

    def of(self, path: Path, stat: os.stat_result) -> str:
        """Give the SHA-256 of a file, in hexadecimal."""
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
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def serve(request: Request, path: Path, *, caching: str) -> Response:
    """Answer a request for a file that exists."""
    digests: Digests = request.app.state.digests
    try:
        stat = path.stat()
        tag = f'"{digests.of(path, stat)}"'
    except FileNotFoundError:
        raise ProblemError("not-found", f"There is no key '{path.name}' any more.") from None
    headers = {"ETag": tag, "Cache-Control": caching, "Accept-Ranges": "bytes"}
    if _matches(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    kind = "application/json" if is_metadata(path.name) else "application/octet-stream"
    return FileResponse(path, headers=headers, media_type=kind, stat_result=stat)


def _matches(condition: str | None, tag: str) -> bool:
    if condition is None:
        return False
    tags = [part.strip().removeprefix("W/") for part in condition.split(",")]
    return "*" in tags or tag in tags
