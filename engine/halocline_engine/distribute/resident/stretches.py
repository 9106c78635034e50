"""Stretches of steps between two decisions, which rank 0 takes for all ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from halocline_engine.distribute.jobs.snapshots import Series
from halocline_engine.distribute.resident.checkpoints import CheckpointWriter
from halocline_engine.distribute.resident.model import Checkpoints

__all__ = ["Stretch", "Stretches"]

#: Seconds that a stretch should take: progress is told, and the end is asked for, as often.
_LASTING = 0.25
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """So many steps; afterwards a checkpoint is written to a place, "" for none, or a snapshot."""

    steps: int
    checkpoint: str
    snapshot: bool


class Stretches:
    """Progress of a job, and its next stretch of steps.

    Every rank counts the steps; only rank 0 decides. Stretches grow until they take `_LASTING`
    seconds, are whole bundles where they can be, and end where a checkpoint or snapshot is due, and
    at multiples of each of `cuts`. A snapshot `is_state` where it has all that the next step needs.
    """

    def __init__(
        self,
        steps: int,
        done: int,
        bundle: int,
        schedule: Checkpoints | None,
        store: CheckpointWriter,
        cuts: Sequence[int | None] = (),
        series: Series | None = None,
        *,
        is_state: bool = True,
    ) -> None:
        self.done = done
        self._is_state = is_state
        self._cuts, self._series = cuts, series
        self._steps, self._bundle = steps, bundle
        self._schedule, self._store = schedule, store
        self._next = bundle
        self._kept_at = time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether all steps were made."""
        return self.done >= self._steps

    def decide(self) -> dict[str, Any]:
        """Return the next stretch as a mapping."""
        end = min(self.done + self._next, self._steps)
        every = None if self._schedule is None else self._schedule.steps
        of_series = None if self._series is None else self._series.every
        for multiple in (every, *self._cuts, of_series):
            if multiple is not None:
                end = min(end, (self.done // multiple + 1) * multiple)
        snapshot = self._series is not None and self._series.due(end)
        kept = snapshot and self._is_state
        if kept:  # a run can go on from it, as from a checkpoint
            self._kept_at = time.monotonic()
        checkpoint = self._store.begin(end) if not kept and self._due(end, every) else ""
        return {"steps": end - self.done, "checkpoint": checkpoint, "snapshot": snapshot}

    def made(self, stretch: Stretch, seconds: float) -> None:
        """Count a stretch that took so many seconds."""
        self.done += stretch.steps
        wanted = int(stretch.steps * _LASTING / max(seconds, 1e-9))
        bundles = min(_GROWTH * self._next, wanted) // self._bundle
        self._next = max(1, bundles) * self._bundle

    def stop(self) -> None:
        """Make no more steps."""
        self._steps = self.done

    def _due(self, end: int, every: int | None) -> bool:
        """Whether the end of the next stretch is to be kept; the last step is the result itself."""
        if self._schedule is None or end == self._steps:
            return False
        seconds, now = self._schedule.seconds, time.monotonic()
        late = seconds is not None and now - self._kept_at >= seconds and not self._store.busy
        if late or (every is not None and end % every == 0):
            self._kept_at = now
            return True
        return False
