"""Run programs with fields and scalars that no caller gives on a target beside the reference.

What is read through tables is gathered for the reference by loops of its own.
"""

from __future__ import annotations

import numpy as np
from differential import Array, Domain, Inputs, assert_same, copied, inputs
from drawing import SCALARS

from halocline_engine.analysis.extents import analyse
from halocline_engine.analysis.signature import signature_of
from halocline_engine.backends.base import Artifact
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.backends.made.tables import with_tables
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.backends.settled import left_of
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Choice, Gather, Program
from halocline_engine.ir.verify import verify
from halocline_engine.passes.choose_components import choose_components
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

__all__ = ["OPTIONS", "agree", "complete", "for_scalars", "given_arrays", "judged", "ran"]

OPTIONS = (
    Options(),
    Options(recompute_limit=10_000, statement_limit=300),
    Options(fuse=False, recompute=False, share=False, sink=False),
)


def given_arrays(
    meaning: Program, facts: Facts, domain: Domain, layout: str = "along I", seed: int = 0
) -> Inputs:
    """Return arrays for the fields that callers give.

    A field that is read through tables alone has points of its own. Where tables name points, some
    are none, and some are named again and again.
    """
    found = inputs(meaning, facts, domain, layout=layout, seed=seed)
    names = [name for name in found.arrays if name not in meaning.made]
    own = Inputs({n: found.arrays[n] for n in names}, {n: found.origins[n] for n in names})
    random = np.random.default_rng(seed)
    for name in sorted(signature_of(meaning, facts).elsewhere):
        points = own.origins[name][0] + int(random.integers(1, domain[0] + 1))
        own.arrays[name] = own.arrays[name][:points]
    for column in sorted({gather.index for gather in meaning.gathers}):
        fields = [gather.field for gather in meaning.gathers if gather.index == column]
        points = min(own.arrays[name].shape[0] - own.origins[name][0] for name in fields)
        shape = own.arrays[column].shape
        own.arrays[column][...] = random.integers(-int(random.integers(0, 2)), points, shape)
    return own


def for_scalars(meaning: Program, facts: Facts) -> tuple[Program, Facts]:
    """Return what kernels compute where a program has the scalars of drawn ones."""
    kernels = left_of(choose_components(meaning), SCALARS)
    verify(kernels)
    return (meaning, facts) if kernels is meaning else (kernels, analyse(kernels))


def ran(
    artifact: Artifact,
    meaning: Program,
    facts: Facts,
    own: Inputs,
    domain: Domain,
    choices: tuple[Choice, ...] = (),
) -> Inputs:
    executable = complete(artifact, meaning, facts, choices).load()
    executable(own.arrays, SCALARS, own.origins, domain)
    return own


def complete(
    artifact: Artifact, meaning: Program, facts: Facts, choices: tuple[Choice, ...] = ()
) -> Artifact:
    """Return kernels with what makes their other fields, as compiling a program does."""
    return with_tables(with_made_fields(artifact, meaning, facts, choices), meaning)


def judged(meaning: Program, facts: Facts, own: Inputs, domain: Domain) -> Inputs:
    """Return what the reference makes of a copy."""
    artifact = ReferenceBackend().build(plan(meaning, facts))
    expected = copied(own)
    arrays, origins = dict(expected.arrays), dict(expected.origins)
    for gather in meaning.gathers:
        arrays[gather.name] = _gathered(gather, own, domain)
        origins[gather.name] = (0, 0, 0)
    with_made_fields(artifact, meaning, facts).load()(arrays, SCALARS, origins, domain)
    return expected


def _gathered(gather: Gather, own: Inputs, domain: Domain) -> Array:
    """Return a field at the points that a column names, point by point."""
    source, column = own.arrays[gather.field], own.arrays[gather.index]
    (i, j, k), first = own.origins[gather.field], own.origins[gather.index][0]
    source = source[i:, j : j + domain[1], k : k + domain[2]]
    made = np.zeros((domain[0], *source.shape[1:]), source.dtype)
    for point in range(domain[0]):
        named = int(column[first + point, 0, 0])
        if named >= 0:
            made[point] = source[named]
        elif source.dtype.kind == "f":
            made[point] = np.nan
    return made


def agree(
    meaning: Program, facts: Facts, domain: Domain, layout: str, seed: int, *options: Options
) -> None:
    """Compare loops with the reference, of the whole program and of what scalars leave of it."""
    from halocline_engine.backends.cpu.build import CpuBackend

    expected = judged(meaning, facts, given_arrays(meaning, facts, domain, seed=seed), domain)
    kernels, own_facts = for_scalars(meaning, facts)
    several = [plan(meaning, facts, one) for one in options]
    if kernels is not meaning:
        several.append(plan(kernels, own_facts))
    for schedule in several:
        own, choices = given_arrays(meaning, facts, domain, layout, seed), schedule.program.choices
        got = ran(CpuBackend().build(schedule), meaning, facts, own, domain, choices)
        assert_same(got.arrays, expected.arrays)
