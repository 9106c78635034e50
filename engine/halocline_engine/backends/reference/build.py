"""The reference target: nothing is generated, the artifact holds the program itself."""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.backends.reference.run import ReferenceExecutable
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.show import show
from halocline_engine.schedule.nodes import Schedule

__all__ = ["ReferenceArtifact", "ReferenceBackend"]


@dataclass(frozen=True, slots=True)
class ReferenceArtifact:
    """`backends.base.Artifact` of a program that is interpreted."""

    program: Program

    @property
    def source(self) -> str:
        """The printed program."""
        return show(self.program)

    def load(self) -> ReferenceExecutable:
        """Make it run in this process."""
        return ReferenceExecutable(self.program)


@dataclass(frozen=True, slots=True)
class ReferenceBackend:
    """`backends.base.Backend` that takes the program and leaves the schedule."""

    def build(self, schedule: Schedule) -> ReferenceArtifact:
        """Return the artifact of the schedule's program."""
        return ReferenceArtifact(schedule.program)
