"""Levels of vertical intervals."""

from __future__ import annotations

from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Interval

__all__ = ["is_single", "level_range"]


def level_range(interval: Interval, levels: int) -> Range:
    """Return the first level of an interval and the one past its last."""
    return interval.start.level(levels), interval.end.level(levels)


def is_single(interval: Interval) -> bool:
    """Return whether an interval has one level in every domain."""
    start, end = interval.start, interval.end
    return start.from_end == end.from_end and end.offset - start.offset == 1
