"""State of a job derived from its events: share done, rate, time left and awaited event."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["View", "advance", "duration"]

#: Seconds of recent progress that determine rate and time left.
_RECENT = 30.0
#: Blocks that end within so many seconds were computed together and count as one point.
_TOGETHER = 0.25


@dataclass(frozen=True)
class View:
    """State of a job; `points` are pairs of a time in seconds and the share done at that time."""

    share: float = 0.0
    target: str = ""
    mode: str = ""
    passes: int = 1
    pass_index: int = 0
    blocks_done: int = 0
    blocks: int = 0
    steps: int = 0
    steps_done: int = 0
    awaited: str = "waiting"
    points: tuple[tuple[float, float], ...] = ()

    def text(self, now: float) -> str:
        """Return a line of text for the time `now`: position, rate, time left, awaited event.

        >>> view = View(target="cpu", passes=9, pass_index=2, blocks_done=1, blocks=4, awaited="")
        >>> View(**{**vars(view), "steps": 40, "steps_done": 10}).text(0.0)
        'cpu · pass 3/9 · block 1/4 · step 10/40'
        """
        parts = [self.target]
        if self.passes > 1:
            parts.append(f"pass {min(self.pass_index + 1, self.passes)}/{self.passes}")
        if self.blocks:
            parts.append(f"block {self.blocks_done}/{self.blocks}")
        if self.steps > 1:
            parts.append(f"step {self.steps_done}/{self.steps}")
        left = self.seconds_left(now)
        parts += [self.rate, "" if left is None else f"{duration(left)} left", self.awaited]
        return " · ".join(part for part in parts if part)

    @property
    def rate(self) -> str:
        """Steps per second, or blocks per second for one step; empty if unknown."""
        unit, total = ("step", self.steps) if self.steps > 1 else ("block", self._all_blocks)
        rate = total * self._speed
        if total < 2 or rate == 0:
            return ""
        return f"{_digits(rate)} {unit}s/s" if rate >= 0.1 else f"{_digits(1 / rate)} s/{unit}"

    def seconds_left(self, now: float) -> float | None:
        """Return the estimated seconds until the end; None if unknown."""
        if self._speed == 0 or self.share >= 1.0:
            return None
        reached, share = self.points[-1]
        return max(0.0, (1.0 - share) / self._speed - (now - reached))

    @property
    def _all_blocks(self) -> int:
        return self.blocks * self.passes

    @property
    def _speed(self) -> float:
        """Share of the job per second, from the recent progress; 0 if unknown."""
        if len(self.points) < 2:
            return 0.0
        (began, before), (reached, share) = self.points[0], self.points[-1]
        return (share - before) / (reached - began)


def advance(view: View, kind: str, data: Mapping[str, Any], now: float) -> View:
    """Return the view after an event of a kind with members `data`, at the time `now` in seconds.

    Events of unknown kinds only move the share.
    """
    progress = data.get("progress")
    if isinstance(progress, int | float):
        view = _reach(view, min(float(progress), 1.0), now)
    match kind:
        case "planned":
            resident = data.get("mode") == "resident"
            # Resident blocks make the same steps at the same time.
            blocks = 0 if resident else int(data.get("blocks", 1))
            awaited = f"compiling, first {'steps' if resident else 'block'}"
            view = replace(view, blocks=blocks, blocks_done=0, awaited=awaited)
            return _with(view, data, "target", "mode", "passes", "steps")
        case "resumed" | "steps-finished" | "checkpointed" | "snapshot-written" | "measured":
            return _with(view, data, "steps_done")
        case "block-finished":
            view = replace(view, blocks_done=int(data["done"]), blocks=int(data["total"]))
            return _with(view, data, "passes", "pass_index")
        case "pass-finished":
            return _with(view, data, "passes", "pass_index", "steps_done")
        case "finished":
            # The service reports only some of the blocks that finish at the same time.
            ended = {"steps_done": view.steps, "pass_index": view.passes}
            return replace(view, share=1.0, awaited="", blocks_done=view.blocks, **ended)
        case _:
            return _await(view, kind, data)


def _await(view: View, kind: str, data: Mapping[str, Any]) -> View:
    """Return the view after an event that may report the reason for waiting."""
    status, message = data.get("status"), data.get("message") or data.get("status")
    is_awaited = kind == "worker-stalled" or status == "accepted" or not view.target
    return replace(view, awaited=str(message)) if message and is_awaited else view


def _reach(view: View, share: float, now: float) -> View:
    """Return the view after a share of the job is done."""
    if share <= view.share:
        return view
    points = view.points
    if points and now - points[-1][0] < _TOGETHER:
        points = points[:-1] if len(points) > 1 else ()
    points = (*points, (now, share))
    while len(points) > 2 and now - points[1][0] > _RECENT:
        points = points[1:]
    return replace(view, share=share, points=points, awaited="")


def _with(view: View, data: Mapping[str, Any], *names: str) -> View:
    """Return the view with members of an event, as far as it has them."""
    return replace(view, **{name: data[name] for name in names if name in data})


def _digits(number: float) -> str:
    """Return a positive number with about three digits.

    >>> _digits(1234.5), _digits(12.345), _digits(0.5)
    ('1234', '12.3', '0.5')
    """
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def duration(seconds: float) -> str:
    """Return a duration in words, as on the page of the service.

    >>> duration(0.2), duration(102.0), duration(7500.0)
    ('1 s', '1 min 42 s', '2 h 05 min')
    """
    whole = max(1, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
    )
