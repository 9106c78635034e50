"""Cancellation of runs: tokens, and the runs cancelled in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from halocline_engine.errors import CancelledError

__all__ = ["CancelToken", "cancel_run", "is_run_cancelled", "raise_if_cancelled"]

#: Returns True once the run is cancelled.
CancelToken: TypeAlias = Callable[[], bool]

# Tasks end soon after cancellation, so that the latest runs suffice.
_MOST_RUNS = 256
_cancelled: OrderedDict[str, None] = OrderedDict()


def raise_if_cancelled(cancelled: CancelToken | None) -> None:
    """Raise `CancelledError` if the run is cancelled."""
    if cancelled is not None and cancelled():
        raise CancelledError("The run was cancelled.")


def cancel_run(run: str) -> None:
    """Cancel the tasks of a run in this process, without waiting for their end."""
    _cancelled[run] = None
    while len(_cancelled) > _MOST_RUNS:
        _cancelled.popitem(last=False)


def is_run_cancelled(run: str) -> bool:
    """Return whether a run was cancelled in this process."""
    return run in _cancelled
