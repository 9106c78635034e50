"""The token by which a run is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from halocline_engine.errors import CancelledError

__all__ = ["CancelToken", "raise_if_cancelled"]

#: Says True from the moment that the run is to end.
CancelToken: TypeAlias = Callable[[], bool]


def raise_if_cancelled(cancelled: CancelToken | None) -> None:
    """Raise `CancelledError` where the run is to end."""
    if cancelled is not None and cancelled():
        raise CancelledError("The run was cancelled.")
