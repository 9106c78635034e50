"""Choices that a run makes by itself, for tests and measurements to make otherwise."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None leaves a choice to the plan.

    `steps_per_pass` is how many steps a pass fuses; `memory` the bytes that the blocks of one
    process may take, and `device_memory` those on its device; `cache` the bytes of decoded chunks
    that a process keeps, 0 for none; `threads` how many blocks this process has at hand.
    `slots` is how many blocks overlap in a pipeline through the device of a process, 0 for none;
    `compressed` False stores results as plain numbers.
    """

    steps_per_pass: int | None = None
    memory: int | None = None
    device_memory: int | None = None
    cache: int | None = None
    threads: int | None = None
    slots: int | None = None
    compressed: bool = True
