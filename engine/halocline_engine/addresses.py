"""Addresses in place of paths: 'file:' URLs are paths, and others are told apart from them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["WEB", "address_scheme", "local_path", "output_path"]

#: Schemes of datasets that are read over HTTP.
WEB = ("http", "https")
#: A scheme has two letters, as one is a drive; 'file:' may be followed by a relative path.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/|([Ff][Ii][Ll][Ee]):")


def address_scheme(text: str) -> str:
    """Return the scheme of an address such as 'https://host/x'; empty where it is a path.

    >>> [address_scheme(text) for text in ("s3://b/x", "FILE:/a", "file:a", "C:/a", "a/b:/c")]
    ['s3', 'file', 'file', '', '']
    """
    match = _ADDRESS.match(text)
    scheme = (match[1] or match[2]).lower() if match else ""
    return "" if scheme and os.path.isdir(f"{scheme}:") else scheme


def local_path(text: str) -> Path | None:
    """Return a path, also that of a 'file:' URL; None where it is an address elsewhere.

    >>> local_path("file:///a%20b/c"), local_path("x.nc"), local_path("s3://b/x")
    (PosixPath('/a b/c'), PosixPath('x.nc'), None)
    """
    scheme = address_scheme(text)
    if not scheme:
        return Path(text)
    parts = urlsplit(text)
    is_here = scheme == "file" and parts.netloc in ("", "localhost") and parts.path
    return Path(unquote(parts.path)) if is_here else None


def output_path(text: str, refuse: Callable[..., Exception]) -> Path:
    """Return the path of a result; raises what `refuse` makes where it is an address elsewhere.

    `refuse` takes a sentence and a `hint`.
    """
    path = local_path(text)
    if path is None:
        raise refuse(
            f"The output '{text}' is an address, but results are written to paths of this machine.",
            hint="Write it to a path, and copy it from there.",
        )
    return path
