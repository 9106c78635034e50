"""Speed of a device, as its driver reports it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["H200", "Speed"]

#: Shares of what the pins could move that copies reach, and of the highest clock under load.
_COPIED, _LOADED = 0.88, 0.86


@dataclass(frozen=True, slots=True)
class Speed:
    """Processors, their highest clock, and bytes a second that the pins of memory could move.

    0 where a driver does not tell.
    """

    processors: int
    clock: float
    pins: float

    @property
    def memory(self) -> float:
        """Bytes a second of copies."""
        return self.pins * _COPIED

    @property
    def cycles(self) -> float:
        """Cycles a second of a processor that computes."""
        return self.clock * _LOADED

    @property
    def known(self) -> Speed:
        """The same, with what an H200 has where a driver does not tell."""
        return Speed(
            self.processors or H200.processors, self.clock or H200.clock, self.pins or H200.pins
        )


H200 = Speed(132, 1.98e9, 4.9e12)
