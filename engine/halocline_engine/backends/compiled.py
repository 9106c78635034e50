"""A program compiled for a target, and the same for another target.

It needs no front end, so that workers, which get what was compiled, load none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from halocline_engine.backends.base import Artifact
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.backends.made.tables import with_tables
from halocline_engine.backends.registry import find
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.remember import Remembering
from halocline_engine.ir.show import show
from halocline_engine.program_warning import ProgramWarning
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.version import halocline_version

__all__ = ["Compiled", "retargeted"]


@dataclass(frozen=True, slots=True)
class Compiled(Remembering):
    """Everything that is known about a program on one target; frozen and picklable.

    `target` is the name of a target and never "auto"; `fingerprint` is the same in every process
    for the same program, target and version of Halocline. `warnings` are about the text.
    """

    program: Program
    facts: Facts
    schedule: Schedule
    artifact: Artifact
    target: str
    fingerprint: str
    warnings: tuple[ProgramWarning, ...] = ()


def retargeted(program: Program, facts: Facts, schedule: Schedule, target: str) -> Compiled:
    """Return what was planned, compiled for a target."""
    kernels = find(target).build(schedule)
    choices = schedule.program.choices
    artifact = with_tables(with_made_fields(kernels, program, facts, choices), program)
    name = _fingerprint(program, schedule.program, target)
    return Compiled(program, facts, schedule, artifact, target, name)


def _fingerprint(program: Program, kernels: Program, target: str) -> str:
    """Return 64 hexadecimal digits that name a program on a target."""
    meanings = (program,) if kernels == program else (program, kernels)
    parts = (*map(show, meanings), target, halocline_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
