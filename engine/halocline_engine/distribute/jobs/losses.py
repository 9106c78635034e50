"""Attempts of ranks, until one of them ends without the loss of a rank."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.errors import ClusterError

__all__ = ["Losses", "lost_for_good", "without_losses"]

_T = TypeVar("_T")

#: So many times in a row ranks may be lost.
_MOST = 3
#: Seconds until a cluster that lost a rank is asked again what it has.
_AGAIN = 1.0


@dataclass(slots=True)
class Losses:
    """How often ranks were lost in a row; `before` says what ends the row."""

    before: str
    count: int = 0


def without_losses(
    attempt: Callable[[], _T],
    again: Callable[[], None],
    losses: Losses,
    cancelled: CancelToken | None,
) -> _T:
    """Return what an attempt returns that loses no rank; before another one, call `again`.

    Raises `ClusterError` where ranks are lost again and again.
    """
    while True:
        result = _attempted(attempt)
        if not isinstance(result, RankLostError):
            return result
        losses.count += 1
        if losses.count > _MOST:
            raise ClusterError(
                f"Workers were lost {losses.count} times before {losses.before}: {result}",
                hint="They may lack memory: use more workers, or mode='streamed'.",
            ) from result
        _wait(cancelled)
        again()


def lost_for_good(reason: str) -> ClusterError:
    """Return the error of a job that the workers that are left cannot run, for a reason."""
    return ClusterError(
        f"A worker was lost, and with those that are left {reason}.",
        hint="Run the job again, with more workers or the same workspace.",
    )


def _attempted(attempt: Callable[[], _T]) -> _T | RankLostError:
    """Return the result of an attempt, or that a rank was lost.

    A cluster keeps the error of a rank, whose traceback has all frames that it passed: they are
    cleared, since they hold arrays of the result.
    """
    try:
        return attempt()
    except RankLostError as error:
        passed: BaseException | None = error
        while passed is not None:
            traceback.clear_frames(passed.__traceback__)
            passed = passed.__context__
        return error


def _wait(cancelled: CancelToken | None) -> None:
    """Give a scheduler time to notice who is gone."""
    until = time.monotonic() + _AGAIN
    while time.monotonic() < until:
        raise_if_cancelled(cancelled)
        time.sleep(0.05)
