"""Whatever program is drawn: the CPU gives the reference's bits, and CUDA code compiles."""

from __future__ import annotations

import pytest
from differential import LAYOUTS, assert_same, front, inputs, judged, run
from drawing import LEVELS, SCALARS, programs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from interpreted import patch
from nvidia import compiled_everywhere, table

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.errors import ProgramError
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.traversal.walks import Walk

OPTIONS = (
    Options(),
    Options(recompute_limit=10_000, statement_limit=300),
    Options(recompute=False, walk=Walk("column", 200)),
    Options(share=False, statement_limit=100),
    Options(fuse=False, recompute=False, share=False, walk=Walk("zigzag", 100)),
)
DOMAINS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(LEVELS, LEVELS + 1))
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


def agree(
    text: str, domain: Domain, layout: str, seed: int, *options: Options
) -> tuple[Program, Facts] | None:
    """Return the program that was run; without one, Hypothesis draws another."""
    try:
        program, facts = front(text)
    except ProgramError:
        assume(False)
        return None
    assume(facts.min_levels <= domain[2])
    untouched = inputs(program, facts, domain, seed=seed)
    expected = judged(program, facts, untouched, domain, SCALARS)
    for one in options:
        own = inputs(program, facts, domain, layout=layout, seed=seed)
        executable = CpuBackend().build(plan(program, facts, one)).load()
        assert_same(run(executable, own, domain, SCALARS), expected)
    return program, facts


def cuda_source(program: Program, facts: Facts, domain: Domain) -> str:
    """Return the device code of a program, cut as is usual for such a domain."""
    schedule = plan(program, facts, Options())
    variant = usual_variant(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, domain))


@pytest.mark.timeout(600)
def test_generated_code_means_what_the_program_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops give the reference's bits, and NVIDIA's compiler takes the kernels for each device.

    What each kernel needs is printed: `pytest -rP` shows it.
    """
    patch(monkeypatch)
    sources: dict[str, str] = {}

    @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=QUIET)
    @given(programs(), DOMAINS, st.sampled_from(LAYOUTS), st.integers(0, 9))
    def same_bits(text: str, domain: Domain, layout: str, seed: int) -> None:
        if found := agree(text, domain, layout, seed, *OPTIONS):
            sources[text] = cuda_source(*found, domain)

    same_bits()
    needs = compiled_everywhere(sources.values())
    print(table(needs, [f"program {number}" for number in range(len(sources))]))
    for found in needs.values():
        assert {number for number, _ in found} == set(range(len(sources)))
        assert all(0 < used.registers <= 255 for used in found.values())


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(programs(), DOMAINS, st.sampled_from(LAYOUTS), st.integers(0, 9))
def test_compiled_loops_give_the_same_bits(
    text: str, domain: Domain, layout: str, seed: int
) -> None:
    agree(text, domain, layout, seed, Options())
