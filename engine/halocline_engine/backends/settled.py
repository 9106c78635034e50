"""Programs for values of scalars: kernels of the branches that are taken, and what they read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import Adjustable, HostArray, Scalars
from halocline_engine.backends.compiled import Compiled, retargeted
from halocline_engine.backends.made.arrays import chosen_parts
from halocline_engine.backends.reference.values import evaluate
from halocline_engine.backends.targets import TARGETS
from halocline_engine.errors import InternalError
from halocline_engine.ir.nodes import Choice, Expr, Program, Read
from halocline_engine.ir.verify import verify
from halocline_engine.ir.walk import parameters_of
from halocline_engine.passes.choose_components import choose_components
from halocline_engine.passes.settle_conditions import scalar_conditions, settle_conditions
from halocline_engine.passes.weigh_records import Records, weigh_records
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

__all__ = [
    "left_of",
    "outcomes_of",
    "replanned",
    "settled",
    "settled_conditions",
    "with_records",
    "with_scalars",
]


def settled_conditions(compiled: Compiled) -> tuple[Expr, ...]:
    """Return the conditions on scalars for whose outcomes there are kernels of their own.

    The reference has none: it is what others are judged by.
    """
    kernels = compiled.schedule.program
    return scalar_conditions(kernels) if TARGETS[compiled.target].compiles else ()


def left_of(program: Program, scalars: Scalars) -> Program:
    """Return what such scalars leave of a program, whose work is that of a call."""
    return settle_conditions(program, _outcomes(scalar_conditions(program), scalars))


def outcomes_of(conditions: Iterable[Expr], scalars: Scalars) -> tuple[bool, ...]:
    """Return which conditions hold for values of scalars, as the reference evaluates them."""
    with np.errstate(all="ignore"):
        return tuple(bool(evaluate(one, _no_field, scalars)) for one in conditions)


def settled(compiled: Compiled, outcomes: Sequence[bool]) -> Compiled:
    """Return what computes calls for which the `settled_conditions` have such outcomes."""
    known = dict(zip(settled_conditions(compiled), outcomes, strict=True))
    schedule = _settled(compiled.schedule, compiled.target, known)
    if schedule is compiled.schedule:
        return compiled
    return _rebuilt(compiled, compiled.program, schedule)


def with_scalars(
    compiled: Compiled, meaning: Program, scalars: Scalars, kept: Collection[str]
) -> Compiled:
    """Return what computes for such scalars alone, in another meaning of the program.

    Scalars that are not there may have any value in each step. Of fields that are only read it
    reads those in `kept`, and what its kernels need.
    """
    schedule = compiled.schedule
    if meaning != compiled.program:
        kernels = choose_components(meaning) if schedule.program.choices else meaning
        schedule = replace(schedule, program=kernels)
        compiled = replace(compiled, schedule=schedule)
    outcomes = _outcomes(settled_conditions(compiled), scalars)
    planned = _settled(schedule, compiled.target, outcomes)
    known = _without_unused(planned.program, meaning, scalars, kept)
    if planned is schedule and known == compiled.program:
        return compiled
    return _rebuilt(compiled, known, planned)


def replanned(compiled: Compiled, program: Program) -> Compiled:
    """Return a program compiled for the target of another."""
    verify(program)
    facts = analyse(program)
    kernels = choose_components(program) if TARGETS[compiled.target].compiles else program
    own = facts if kernels is program else analyse(kernels)
    schedule = plan(kernels, own, TARGETS[compiled.target].options())
    new = retargeted(program, facts, schedule, compiled.target)
    return replace(new, warnings=compiled.warnings)


def with_records(compiled: Compiled, made: Mapping[str, Records]) -> Compiled:
    """Return the program compiled with fields interpolated between records."""
    program = weigh_records(compiled.program, made)
    kernels = weigh_records(compiled.schedule.program, made)
    for one in (program, kernels):
        verify(one)
    schedule = plan(kernels, analyse(kernels), TARGETS[compiled.target].options())
    return _rebuilt(replace(compiled, facts=analyse(program)), program, schedule)


def _outcomes(conditions: Iterable[Expr], scalars: Scalars) -> dict[Expr, bool]:
    """Return the outcomes of the conditions with known scalars."""
    known = [one for one in conditions if parameters_of(one) <= scalars.keys()]
    return dict(zip(known, outcomes_of(known, scalars), strict=True))


def _settled(schedule: Schedule, target: str, outcomes: Mapping[Expr, bool]) -> Schedule:
    """Return the schedule of what is left where conditions have outcomes."""
    if not outcomes:
        return schedule
    left = settle_conditions(schedule.program, outcomes)
    if left is schedule.program:
        return schedule
    verify(left)
    return plan(left, analyse(left), TARGETS[target].options())


def _rebuilt(compiled: Compiled, program: Program, schedule: Schedule) -> Compiled:
    """Return what was compiled with other kernels, which look for the fastest code as those did."""
    new = retargeted(program, compiled.facts, schedule, compiled.target)
    old, made = compiled.artifact, new.artifact
    if isinstance(old, Adjustable) and isinstance(made, Adjustable):
        new = replace(new, artifact=made.tuned(*old.tuning))
    return replace(new, warnings=compiled.warnings)


def _without_unused(
    kernels: Program, program: Program, scalars: Scalars, kept: Collection[str]
) -> Program:
    """Return a program that reads only what kernels need, what it assigns, and what is kept.

    Arrays stay whose levels a scalar counts.
    """
    known = [one for one in kernels.choices if _is_known(one, scalars)]
    used = {part for _, part in chosen_parts(known, scalars)}
    used |= {part for one in kernels.choices if one not in known for part in one.parts}
    used |= {limit.field for limit in program.limits if limit.field is not None}
    used |= {one.name for one in kernels.fields if one.read or one.written}
    fields = tuple(
        one if one.written or one.name in used or one.name in kept else replace(one, read=False)
        for one in program.fields
    )
    return replace(program, fields=fields)


def _is_known(choice: Choice, scalars: Scalars) -> bool:
    return parameters_of(choice.index) <= scalars.keys()


def _no_field(read: Read) -> HostArray:
    raise InternalError(f"'{read.name}' is no scalar.")
