"""Choices that a run makes by itself, for tests and measurements to make otherwise."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None leaves a choice to the plan.

    `steps_per_pass` is how many steps a pass fuses; `memory` the bytes that the blocks of one
    process may take.
    """

    steps_per_pass: int | None = None
    memory: int | None = None
