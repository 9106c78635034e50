"""The machine that generated code runs on: a CUDA device, or in tests its emulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from halocline_engine.backends.base import Overlap, Repetition
from halocline_engine.kernels import machine

__all__ = ["Machine"]


class Machine(machine.Machine, Protocol):
    """A machine of which generated code uses more than hand-written kernels do."""

    @property
    def cache(self) -> int:
        """Size in bytes of the cache that all processors share."""
        ...

    @property
    def speed(self) -> tuple[int, float, float]:
        """Processors, cycles a second of them, and bytes a second of memory; 0 if unknown."""
        ...

    @property
    def follows(self) -> bool:
        """Whether a kernel may be brought to the processors while the one before it ends."""
        ...

    def overlap(self) -> Overlap:
        """Return what queues work beside other work; see `backends.base.Overlapping`."""
        ...

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues; see `backends.base.Executable`."""
        ...

    def repetition(self, work: Callable[[], None]) -> Repetition:
        """Return what does work again and again; see `backends.base.Repeating`."""
        ...
