"""Filters of a list of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from halocline.errors import ArgumentError
from halocline.inputs.arguments import names, text

__all__ = ["asked_jobs", "moment"]

_SPAN = re.compile(r"(\d+)\s*(s|m|h|d|w|seconds?|minutes?|hours?|days?|weeks?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_KNOWN = ("status", "process", "job_name", "labels", "since")


def asked_jobs(limit: int, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query for a list of jobs; raises ArgumentError if a filter is invalid."""
    for name in filters:
        if name not in _KNOWN:
            raise ArgumentError(
                f"There is no filter '{name}' for jobs.", hint=f"There are {', '.join(_KNOWN)}."
            )
    query: dict[str, Any] = {"limit": limit}
    for name, parameter in (("status", "status"), ("process", "processID")):
        if (given := filters.get(name)) is not None:
            wanted = [given] if isinstance(given, str) else names(name, given)
            query[parameter] = [text(name, each) for each in wanted]
    if (called := filters.get("job_name")) is not None:
        query["job_name"] = text("job_name", called)
    given = filters.get("labels")
    if given is not None and (labels := [text("labels", each) for each in names("labels", given)]):
        query["label"] = labels
    if (since := filters.get("since")) is not None:
        query["datetime"] = f"{moment(since, datetime.now(UTC))}/.."
    return query


def moment(given: Any, now: datetime) -> str:
    """Return a moment in the form of RFC 3339, given as a time or as a span before now.

    >>> now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> moment("2 days", now), moment("2026-01-30", datetime(2026, 1, 31, tzinfo=UTC))[:10]
    ('2026-01-29T12:00:00+00:00', '2026-01-30')
    """
    if isinstance(given, datetime):
        return given.astimezone(UTC).isoformat()
    if isinstance(given, str):
        if match := _SPAN.fullmatch(given.strip()):
            span = timedelta(seconds=min(int(match[1]), 10**6) * _SECONDS[match[2][0]])
            return (now - span).isoformat()
        try:
            return datetime.fromisoformat(given).astimezone(UTC).isoformat()
        except (ValueError, OverflowError):
            pass
    raise ArgumentError(
        f"Argument 'since' must be a time or a span, got '{given}'.",
        hint="Write '2026-01-31', '2026-01-31T12:00' or '2 days'.",
    )
