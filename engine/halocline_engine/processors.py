"""Processors that this process may use."""

from __future__ import annotations

import os

__all__ = ["usable_processors"]


def usable_processors() -> int:
    """Return how many processors this process may use, or where that is unknown, all.

    >>> usable_processors() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
