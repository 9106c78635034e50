"""Drawn columns that change fields in place: kernels of a large domain, as the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from differential import assert_same, front
from drawing_columns import column_program
from emulation.machine import EmulatedArtifact
from general_runs import given_arrays, judged, ran

from halocline_engine.errors import ProgramError
from halocline_engine.schedule.plan import plan

#: Some, and five of 3,000 that declared a variable twice.
NUMBERS = (*range(3), *range(4, 10), 18, 444, 599, 626, 833)


def test_drawn_programs_are_mostly_taken() -> None:
    """Some read what another point of their plane assigns, which is refused."""
    refused = 0
    for number in range(60):
        try:
            front(column_program(number))
        except ProgramError:
            refused += 1
    assert refused <= 30


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("layout", ["along I", "along K"])
def test_columns_have_the_bits_of_the_reference(
    number: int, layout: str, emulation_folder: Path
) -> None:
    meaning, facts = front(column_program(number))
    domain = (5, 3, max(facts.min_levels, 3 + number % 9))
    usual = (509, 487, domain[2])
    own = given_arrays(meaning, facts, domain, layout, number)
    with np.errstate(all="ignore"):
        expected = judged(meaning, facts, own, domain)
    kernels = EmulatedArtifact(plan(meaning, facts), emulation_folder, usual=usual)
    assert_same(ran(kernels, meaning, facts, own, domain).arrays, expected.arrays)
