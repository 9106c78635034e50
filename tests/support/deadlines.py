"""Waiting for what happens in another thread or process: for the event itself, up to a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["until"]

_LOOK_SECONDS = 0.01

_Found = TypeVar("_Found")


def until(happened: Callable[[], _Found], seconds: float = 30.0) -> _Found:
    """Return what `happened` gives once that is true; fails where it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, f"It has not happened within {seconds:g} seconds."
        time.sleep(_LOOK_SECONDS)
    return found
