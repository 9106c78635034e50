"""Whatever program is drawn, the CPU target gives the bits of the reference."""

from __future__ import annotations

import pytest
from differential import LAYOUTS, assert_same, front, inputs, judged, run
from drawing import LEVELS, SCALARS, programs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from interpreted import patch

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.errors import ProgramError
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.walks import Walk

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
    text: str, domain: tuple[int, int, int], layout: str, seed: int, *options: Options
) -> None:
    try:
        program, facts = front(text)
    except ProgramError:
        assume(False)
        return
    assume(facts.min_levels <= domain[2])
    untouched = inputs(program, facts, domain, seed=seed)
    expected = judged(program, facts, untouched, domain, SCALARS)
    for one in options:
        own = inputs(program, facts, domain, layout=layout, seed=seed)
        executable = CpuBackend().build(plan(program, facts, one)).load()
        assert_same(run(executable, own, domain, SCALARS), expected)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(programs(), DOMAINS, st.sampled_from(LAYOUTS), st.integers(0, 9))
def test_generated_loops_mean_what_the_program_means(
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    domain: tuple[int, int, int],
    layout: str,
    seed: int,
) -> None:
    patch(monkeypatch)
    agree(text, domain, layout, seed, *OPTIONS)


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(programs(), DOMAINS, st.sampled_from(LAYOUTS), st.integers(0, 9))
def test_compiled_loops_give_the_same_bits(
    text: str, domain: tuple[int, int, int], layout: str, seed: int
) -> None:
    agree(text, domain, layout, seed, Options())
