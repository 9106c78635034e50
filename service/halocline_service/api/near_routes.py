"""The route that is meant by a request that has none: another method, or a path that is near."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

__all__ = ["SEND", "way_out"]

_ANYWHERE = "GET /api describes every path; start at /."
#: How a dataset is sent.
SEND = (
    "POST /uploads opens an upload; then PUT /uploads/{id}.nc sends a NetCDF file, or PUT "
    "/uploads/{id}.zarr/{key} the keys of a Zarr store, and POST /uploads/{id}/complete ends it."
)
_EXECUTE = "POST /processes/{process}/execution makes a job."
#: What is meant by requests that other services have, as patterns of "METHOD path".
_MEANT: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"(POST|PUT|PATCH) /(jobs|processes(/[^/]+)?|processes/[^/]+/jobs)", _EXECUTE),
        (r"GET /processes/[^/]+/(execution|execute|run)", _EXECUTE),
        (r"(PUT|PATCH) /uploads(/.*)?|POST /uploads/.*|(POST|PUT) /datasets(/.*)?", SEND),
        (r"\w+ /jobs/[^/]+/(cancel|stop|dismiss|kill)", "DELETE /jobs/{id} dismisses a job."),
        (r"\w+ /jobs/[^/]+/(status|state|progress)", "GET /jobs/{id} is its status."),
        (r"\w+ /jobs/[^/]+/(download|outputs?)", "GET /jobs/{id}/results has its outputs."),
        (r"\w+ /jobs/[^/]+/logs", "GET /jobs/{id}/log has its log."),
    )
)
#: How alike a part of a path must be.
_ALIKE = 0.7


def way_out(method: str, path: str, allowed: Sequence[str], routes: Iterable[Any]) -> str:
    """Return a hint for a request without a route; `allowed` are methods that its path has."""
    asked = f"{method} {path.rstrip('/')}"
    for pattern, hint in _MEANT:
        if pattern.fullmatch(asked):
            return hint
    if allowed:
        return f"Send {' or '.join(allowed)}. {_ANYWHERE}"
    near = _nearest(method, path, routes)
    return f"Did you mean {near}? {_ANYWHERE}" if near else _ANYWHERE


def _nearest(method: str, path: str, routes: Iterable[Any]) -> str:
    """Return the route whose path is most like another one, as a method and a path."""
    parts = path[:200].strip("/").split("/")
    known = [(one.path, one.methods) for one in routes if getattr(one, "include_in_schema", False)]
    best, most = "", 0.0
    for template, methods in known:
        likeness = max(_likeness(template, parts), _likeness(template, parts[1:]))
        if likeness > most:
            best = f"{method if method in methods else min(methods)} {template}"
            most = likeness
    return best


def _likeness(template: str, parts: Sequence[str]) -> float:
    """Return how alike a path is to that of a route, from 0; parts with names may be anything."""
    names = template.strip("/").split("/")
    if len(names) != len(parts) or ":path" in template or not all(parts):
        return 0.0
    alike = [
        SequenceMatcher(None, name, part).ratio()
        for name, part in zip(names, parts, strict=True)
        if "{" not in name
    ]
    if not alike or min(alike) < _ALIKE:
        return 0.0
    return sum(alike) / len(alike)
