"""Consequences of an interrupted attempt, and the time of the next one.

Only crashes count as attempts: a job that ends the process that computes it, or the workers, will
do so again. What goes away under a job (its dispatcher, the workers, a disk) is not its fault, and
many more losses are borne; but not all, as nothing tells a dispatcher that was killed from one
that a job has ended. Progress beyond what any earlier attempt reached forgives both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from halocline_service.jobs.job import Job, JsonObject
from halocline_service.jobs.states import Event

__all__ = ["LONGEST_WAIT", "PROGRESS", "Cause", "Interruption", "Setback", "setback"]

#: Seconds before the next attempt, at most.
LONGEST_WAIT = 60.0
#: How much further an attempt must get than all before it, so that it counts as progress.
PROGRESS = 0.01
_LOSSES_FOR_A_CRASH = 10


class Cause(StrEnum):
    """Cause of the end of an attempt."""

    STOPPED = "stopped"  # its dispatcher was asked to stop
    LOST = "lost"  # its dispatcher, the workers or a disk went away
    CRASHED = "crashed"  # it ended what computed it


@dataclass(frozen=True, slots=True)
class Interruption:
    """Interruption of an attempt: its cause, and the message for its job.

    `message` says why it waits, `error` why it ends where it is not tried again, and `pause` is the
    first wait in seconds, which doubles each time.
    """

    cause: Cause
    message: str
    error: JsonObject | None = None
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Setback:
    """Consequence: another attempt after `wait` seconds (GIVE_BACK), or the end (FAIL)."""

    event: Event
    crashes: int
    losses: int
    wait: float


def setback(job: Job, interruption: Interruption) -> Setback:
    """Say what follows."""
    cause, pause = interruption.cause, interruption.pause
    match cause:
        case Cause.STOPPED:
            return Setback(Event.GIVE_BACK, job.crashes, job.losses, 0.0)
        case Cause.LOST:
            losses = job.losses + 1
            last = losses >= job.max_attempts * _LOSSES_FOR_A_CRASH
            wait = _wait(pause, losses)
            return Setback(Event.FAIL if last else Event.GIVE_BACK, job.crashes, losses, wait)
        case Cause.CRASHED:
            crashes = job.crashes + 1
            last = crashes >= job.max_attempts
            wait = _wait(pause, crashes)
            return Setback(Event.FAIL if last else Event.GIVE_BACK, crashes, job.losses, wait)
        case _:
            assert_never(cause)


def _wait(pause: float, times: int) -> float:
    return min(LONGEST_WAIT, pause * 2.0 ** min(times - 1, 30))
