"""Bounds of sequences that library and service share."""

from __future__ import annotations

from halocline_engine.errors import ArgumentError

__all__ = ["MOST_STAGES", "check_stage_count"]

#: Stages that a step runs, at most: the calls of all of them are kept in a list.
MOST_STAGES = 10_000


def check_stage_count(count: int) -> None:
    """Raise `ArgumentError` where a step runs too many stages."""
    if count > MOST_STAGES:
        raise ArgumentError(
            f"A step runs {count} stages, expected at most {MOST_STAGES}.",
            hint="Repeat less, with more 'steps'.",
        )
