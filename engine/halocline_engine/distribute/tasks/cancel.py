"""How a run is asked to end."""

from __future__ import annotations

from collections.abc import Callable

from halocline_engine.errors import CancelledError

__all__ = ["Asked", "stop_if"]

#: Whether somebody asked for the end.
Asked = Callable[[], bool]


def stop_if(asked: Asked | None) -> None:
    """Raise `CancelledError` where somebody asked for the end."""
    if asked is not None and asked():
        raise CancelledError("The run was cancelled.")
