"""The version of Halocline that is installed."""

from __future__ import annotations

import functools
from importlib.metadata import version

__all__ = ["halocline_version"]


@functools.cache
def halocline_version() -> str:
    """Return it; the metadata of the package, which hold its readme too, are parsed once."""
    return version("halocline")
