"""Programs that mix the constructs of the whole language: all targets agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from differential import LAYOUTS, assert_same, front
from drawing import GIVEN, LEVELS, literals, program, whole_programs
from emulation.machine import EmulatedArtifact
from general_runs import OPTIONS, agree, given_arrays, judged, ran
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from interpreted import patch

from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.errors import ProgramError
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

DOMAINS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(LEVELS, LEVELS + 1))
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
#: Programs that are drawn from these numbers keep the rules of the language; the last has tables.
KEPT = (158, 41, 2, 89, 47)


def test_loops_mean_what_programs_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)

    @settings(max_examples=34, deadline=None, derandomize=True, suppress_health_check=QUIET)
    @given(whole_programs(), DOMAINS, st.sampled_from(LAYOUTS), st.integers(0, 9))
    def same_bits(text: str, domain: Domain, layout: str, seed: int) -> None:
        try:
            meaning, facts = front(text, **GIVEN, **literals(seed))
        except ProgramError:
            assume(False)
            return
        assume(facts.min_levels <= domain[2])
        agree(meaning, facts, domain, layout, seed, *OPTIONS)

    same_bits()


def test_compiled_loops_give_the_same_bits() -> None:
    meaning, facts = front(program(KEPT[0], whole=True), **GIVEN)
    agree(meaning, facts, (4, 3, 5), "along K", KEPT[0], Options())


@pytest.mark.parametrize("number", KEPT)
def test_kernels_give_the_same_bits(number: int, emulation_folder: Path) -> None:
    domain = (5, 4, 6)
    meaning, facts = front(program(number, whole=True), **GIVEN)
    own = given_arrays(meaning, facts, domain, "along K", number)
    expected = judged(meaning, facts, own, domain)
    got = ran(EmulatedArtifact(plan(meaning, facts), emulation_folder), meaning, facts, own, domain)
    assert_same(got.arrays, expected.arrays)
