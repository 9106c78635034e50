"""A program compiled for a target, and the same for another target or meaning.

It needs no front end, so that workers, which get what was compiled, load none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace

from halocline_engine.backends.base import Artifact, Scalars
from halocline_engine.backends.made.arrays import chosen_parts
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.backends.made.tables import with_tables
from halocline_engine.backends.registry import find
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.show import show
from halocline_engine.passes.choose_components import choose_components
from halocline_engine.program_warning import ProgramWarning
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.version import halocline_version

__all__ = ["Compiled", "fingerprint", "retargeted", "with_meaning", "without_unchosen"]


@dataclass(frozen=True, slots=True)
class Compiled:
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
    return Compiled(program, facts, schedule, artifact, target, fingerprint(program, target))


def with_meaning(compiled: Compiled, program: Program) -> Compiled:
    """Return what was compiled for another meaning of the same kernels."""
    chosen = compiled.schedule.program.choices
    kernels = choose_components(program) if chosen else program
    schedule = replace(compiled.schedule, program=kernels)
    return retargeted(program, compiled.facts, schedule, compiled.target)


def without_unchosen(
    compiled: Compiled, program: Program, scalars: Scalars, kept: Collection[str]
) -> Program:
    """Return a program that reads no components but those that its kernels have for such scalars.

    What is assigned stays, since a result has all of its components, and what is in `kept`.
    """
    kernels = compiled.schedule.program
    used = {part for _, part in chosen_parts(kernels.choices, scalars)}
    used |= {one.name for one in kernels.fields}
    unused = {part for one in kernels.choices for part in one.parts} - used
    fields = tuple(
        replace(one, read=False) if one.name in unused.difference(kept) and not one.written else one
        for one in program.fields
    )
    return replace(program, fields=fields)


def fingerprint(program: Program, target: str) -> str:
    """Return 64 hexadecimal digits that name a program on a target."""
    parts = (show(program), target, halocline_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
