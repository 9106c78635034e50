"""Cancellation of a run: its token, and the runs that were cancelled in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from halocline_engine.errors import CancelledError

__all__ = ["CancelToken", "cancel_run", "is_run_cancelled", "raise_if_cancelled"]

#: Says True from the moment that the run is to end.
CancelToken: TypeAlias = Callable[[], bool]

# Tasks end soon after their run was cancelled, so only the latest runs need be known.
_MOST_RUNS = 256
_cancelled: OrderedDict[str, None] = OrderedDict()


def raise_if_cancelled(cancelled: CancelToken | None) -> None:
    """Raise `CancelledError` where the run is to end."""
    if cancelled is not None and cancelled():
        raise CancelledError("The run was cancelled.")


def cancel_run(run: str) -> None:
    """Let the tasks of a run end soon in this process; waits for nothing."""
    _cancelled[run] = None
    while len(_cancelled) > _MOST_RUNS:
        _cancelled.popitem(last=False)


def is_run_cancelled(run: str) -> bool:
    """Return whether a run was cancelled in this process."""
    return run in _cancelled
