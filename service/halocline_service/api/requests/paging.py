"""Lists in pages: what a request may ask for, and the links to the pages beside.

Jobs and uploads come and go while somebody turns pages. So links name the item at which a page
begins or ends, and not a number of items: nothing is listed twice, and nothing is left out. What
does not change is counted by `offset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import urlencode

from fastapi import Query, Request

from halocline_service.api.requests.context import base_url
from halocline_service.api.schemas import Link
from halocline_service.store.base import Page

__all__ = ["After", "Before", "Limit", "Offset", "asked", "counted", "links", "turn"]

_MOST_SHOWN = 1000  # of a page, however many are asked for; a link leads to the next one
_MOST_SKIPPED = 10_000_000
_ID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"

_T = TypeVar("_T")

Limit: TypeAlias = Annotated[
    int, Query(ge=1, le=10_000, description="Most items of a page; it may have fewer.")
]
Offset: TypeAlias = Annotated[
    int, Query(ge=0, le=_MOST_SKIPPED, description="How many items to leave out.")
]
Before: TypeAlias = Annotated[
    str | None, Query(pattern=_ID, description="Items that are older than this one only.")
]
After: TypeAlias = Annotated[
    str | None,
    Query(pattern=_ID, description="Items that are newer than this one only, the next ones to it."),
]


def asked(limit: int, offset: int, before: str | None, after: str | None) -> Page:
    """Give what to ask a store for: one item more than are shown, which tells of more."""
    return Page(limit=min(limit, _MOST_SHOWN) + 1, offset=offset, before=before, after=after)


def turn(found: Sequence[_T], page: Page) -> tuple[list[_T], bool]:
    """Give the items to show, newest first, and whether there are more in the way of reading."""
    shown, more = page.limit - 1, len(found) == page.limit
    if page.is_backward:
        return list(found[-shown:]), more
    return list(found[:shown]), more


def links(request: Request, ids: Sequence[str], page: Page, *, more: bool) -> list[Link]:
    """Give the links of a page that shows some items, newest first."""
    made = [_link(request, "self", {})]
    back = page.is_backward
    if ids and (more or back):
        made.append(_link(request, "next", {"before": ids[-1]}, drop=("offset", "after")))
    if ids and (page.before is not None or page.offset > 0 or (back and more)):
        made.append(_link(request, "prev", {"after": ids[0]}, drop=("offset", "before")))
    return made


def counted(
    request: Request, items: Sequence[_T], limit: int, offset: int
) -> tuple[list[_T], list[Link]]:
    """Give a page of a list that is known whole, and its links."""
    made = [_link(request, "self", {})]
    if offset + limit < len(items):
        made.append(_link(request, "next", {"offset": str(offset + limit)}))
    if offset > 0:
        drop = ("limit",) if offset < limit else ()
        first = max(0, offset - limit)
        wanted = {"offset": str(first)} | ({"limit": str(offset)} if drop else {})
        made.append(_link(request, "prev", wanted, drop=drop))
    return list(items[offset : offset + limit]), made


def _link(request: Request, rel: str, wanted: dict[str, str], drop: Sequence[str] = ()) -> Link:
    given = request.query_params.multi_items()
    kept = [(name, value) for name, value in given if name not in wanted and name not in drop]
    query = urlencode([*kept, *wanted.items()])
    path = f"{base_url(request)}{request.url.path.removeprefix(request.scope.get('root_path', ''))}"
    return Link(href=f"{path}?{query}" if query else path, rel=rel, type="application/json")
