"""Run programs with fields and scalars that no caller gives on a target beside the reference."""

from __future__ import annotations

from differential import Domain, Inputs, assert_same, copied, inputs
from drawing import SCALARS

from halocline_engine.backends.base import Artifact
from halocline_engine.backends.made_fields import with_made_fields
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

__all__ = ["OPTIONS", "agree", "given_arrays", "judged", "ran"]

OPTIONS = (
    Options(),
    Options(recompute_limit=10_000, statement_limit=300),
    Options(fuse=False, recompute=False, share=False, sink=False),
)


def given_arrays(
    meaning: Program, facts: Facts, domain: Domain, layout: str = "along I", seed: int = 0
) -> Inputs:
    """Return arrays for the fields that callers give."""
    found = inputs(meaning, facts, domain, layout=layout, seed=seed)
    names = [name for name in found.arrays if name not in meaning.made]
    return Inputs({n: found.arrays[n] for n in names}, {n: found.origins[n] for n in names})


def ran(artifact: Artifact, meaning: Program, facts: Facts, own: Inputs, domain: Domain) -> Inputs:
    executable = with_made_fields(artifact, meaning, facts).load()
    executable(own.arrays, SCALARS, own.origins, domain)
    return own


def judged(meaning: Program, facts: Facts, own: Inputs, domain: Domain) -> Inputs:
    artifact = ReferenceBackend().build(plan(meaning, facts))
    return ran(artifact, meaning, facts, copied(own), domain)


def agree(
    meaning: Program, facts: Facts, domain: Domain, layout: str, seed: int, *options: Options
) -> None:
    """Compare loops with the reference."""
    from halocline_engine.backends.cpu.build import CpuBackend

    expected = judged(meaning, facts, given_arrays(meaning, facts, domain, seed=seed), domain)
    for one in options:
        own = given_arrays(meaning, facts, domain, layout, seed)
        got = ran(CpuBackend().build(plan(meaning, facts, one)), meaning, facts, own, domain)
        assert_same(got.arrays, expected.arrays)
