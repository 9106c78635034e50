"""Members of a Zarr group as a page of links, since HTTP has no listing.

fsspec lists the members of a group from the links of its page. Without them, a store that is opened
without consolidated metadata is silently empty.
"""

from __future__ import annotations

import os
from html import escape
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import HTMLResponse

from halocline_service.api.problems import ProblemError
from halocline_service.datasets.keys import METADATA, locate
from halocline_service.datasets.tree import is_group

__all__ = ["listing"]

_MOST = 20_000  # members, as many as an upload may have


def listing(root: Path, key: str, *, caching: str) -> Response | None:
    """Return the page of a group; None for other keys. Folders of chunks have no page."""
    folder = root if key == "" else locate(root, key.removesuffix("/"))
    if folder is None or not folder.is_dir() or not is_group(folder):
        return None
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, _MOST + 1) if _is_listed(entry)]
    if len(names) > _MOST:
        raise ProblemError("capacity", f"The group has more than {_MOST} members.")
    return HTMLResponse(_page(key or root.name, sorted(names)), headers={"Cache-Control": caching})


def _page(title: str, names: list[str]) -> str:
    links = "".join(f'<li><a href="{quote(name)}">{escape(name)}</a></li>' for name in names)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    return f"{head}<ul>{links}</ul></html>"


def _is_listed(entry: os.DirEntry[str]) -> bool:
    return entry.name in METADATA or entry.is_dir(follow_symlinks=False)
