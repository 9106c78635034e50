"""The CPU target: a schedule becomes text for Numba."""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.backends.cpu.caches import read_caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cpu.show import walk_lines
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.schedule.nodes import Schedule

__all__ = ["CpuArtifact", "CpuBackend"]


@dataclass(frozen=True, slots=True)
class CpuArtifact:
    """`backends.base.Artifact` of generated loops.

    The text depends on which axis the arrays of a call are contiguous along, so the schedule
    travels, and `source` is the text for arrays that are contiguous along I.
    """

    schedule: Schedule
    source: str

    def load(self) -> CpuExecutable:
        """Make it run in this process; what a call needs is compiled at the first such call."""
        return CpuExecutable(self.schedule, read_caches())

    def walks(self) -> tuple[str, ...]:
        """Return how loops go through points; see `backends.base.Drawable`."""
        return tuple(walk_lines(self.schedule))


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """`backends.base.Backend` that writes loops for Numba."""

    def build(self, schedule: Schedule) -> CpuArtifact:
        """Return the artifact; nothing is compiled yet."""
        return CpuArtifact(schedule, emit(schedule, contiguous(schedule.program)).text)
