"""Refusal of unknown query parameters, which would be ignored silently."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from fastapi import Request

from halocline_service.api.faults import plain
from halocline_service.api.problems import ProblemError

__all__ = ["refuse_unknown_parameters"]

_ASKED_EVERYWHERE = {"f": "json"}  # sent by clients of OGC's services; JSON is the default


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise a problem for a query parameter that the route does not have."""
    route: Any = request.scope.get("route")
    known = sorted({*_parameters(route.dependant)})
    for name, value in request.query_params.multi_items():
        if name in known or _ASKED_EVERYWHERE.get(name) == value:
            continue
        close = get_close_matches(name[:100], known, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else "Leave it out."
        if known and not close:
            hint = f"There are {', '.join(known)}."
        raise ProblemError("argument", f"Parameter '{plain(name)}' is unknown.", hint=hint)


def _parameters(dependant: Any) -> Iterator[str]:
    """Yield the query parameters of a route and its dependencies."""
    for field in dependant.query_params:
        yield str(field.alias)
    for inner in dependant.dependencies:
        yield from _parameters(inner)
