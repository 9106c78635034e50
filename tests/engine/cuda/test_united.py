"""Sections that visit the same levels are one where each level finds the same, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from differential import assert_same, front
from emulation.machine import EmulatedArtifact
from general_runs import given_arrays, judged, ran
from programs import Box, reference

from halocline_engine.backends.cuda.kernels.columns.passes import passes_of
from halocline_engine.backends.cuda.kernels.columns.placement import placement_of
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.schedule.plan import plan

LEVELS = 9
#: A temporary over all levels, handed to a recurrence; what stands for `{}` differs.
TEXT = """
def columns(a: Field[float64], b: Field[float64], x: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            r = a
        with interval(1, None):
            r = a + r[0, 0, -1]
    with computation(PARALLEL):
        with interval(0, -1):
            s = {0}
        with interval(-1, None):
            s = r
    with computation(FORWARD):
        with interval(0, 1):
            x = s
        with interval(1, None):
            x = s + {1} * x[0, 0, -1]
"""
UNITED = TEXT.format("r * b", "s[0, 0, -1]")
#: What each level needs is made further on; what was there is needed after it was changed.
AHEAD = TEXT.format("r[0, 0, 1] * b", "s")
BEHIND = """
def columns(a: Field[float64], b: Field[float64], x: Field[float64]):
    with computation(FORWARD), interval(1, None):
        x = a * b[0, 0, -1] + x[0, 0, -1]
    with computation(FORWARD), interval(1, None):
        b = x + 0.5 * b[0, 0, -1]
"""
#: What was there is needed behind a level, but only in levels that the second does not assign.
APART = """
def columns(a: Field[float64], b: Field[float64], x: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            x = a
        with interval(1, 2):
            x = a - x[0, 0, -1]
    with computation(FORWARD), interval(2, -1):
        b = a[0, 0, -2] / (2.0 + b[0, 0, -1] * b[0, 0, -1])
    with computation(FORWARD):
        with interval(2, -1):
            x = b + x[0, 0, -1]
        with interval(-1, None):
            x = b
"""
#: The sum of a column is the same on every level: its levels need all of the first section.
SUMMED = """
def columns(a: Field[float64], b: Field[float64], x: Field[float64]):
    with computation(FORWARD), interval(0, 1):
        total: Field[IJ, float64] = 0.0
    with computation(FORWARD), interval(...):
        s = a * b
        total = total + s
    with computation(PARALLEL), interval(...):
        x = s / total
"""


def sections(text: str, levels: int) -> list[int]:
    schedule = plan(*front(text))
    (entry,) = entries_of(schedule)
    return [len(one.sections) for one in passes_of(entry.kernel, levels)]


def test_what_is_united() -> None:
    assert sections(UNITED, 0) == [6]
    assert sections(UNITED, LEVELS) == [3]
    assert sections(UNITED, 2) == [2]
    assert sections(AHEAD, LEVELS) == [5]
    assert sections(BEHIND, LEVELS) == sections(BEHIND, 0) == [2]
    assert sections(APART, 0) == [5]
    assert sections(APART, LEVELS) == [4]
    assert sections(SUMMED, LEVELS) == sections(SUMMED, 0) == [3]


def test_what_levels_hand_on_is_in_variables() -> None:
    schedule = plan(*front(UNITED))
    (entry,) = entries_of(schedule)
    tile = Tile((32, 1), ahead=4, levels=LEVELS)
    assert placement_of(entry.kernel, schedule, tile).variables == {"r", "s"}
    assert placement_of(entry.kernel, schedule, Tile((32, 1), ahead=4)).variables == frozenset()


@pytest.mark.parametrize(
    "text", [UNITED, AHEAD, BEHIND, APART], ids=["united", "ahead", "behind", "apart"]
)
@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("levels", [2, 3, LEVELS])
def test_values_are_those_of_the_reference(load: Any, text: str, order: Any, levels: int) -> None:
    schedule = plan(*front(text))
    domain: Box = (5, 3, levels)
    draw = np.random.default_rng(1)
    fields = {n: np.asarray(draw.normal(size=domain), order=order) for n in ("a", "b", "x")}
    origins: dict[str, Box] = dict.fromkeys(fields, (0, 0, 0))
    expected = reference(schedule, fields, {}, origins, domain)
    load(schedule)(fields, {}, origins, domain)
    for name, array in expected.items():
        np.testing.assert_array_equal(fields[name], array, err_msg=name)


@pytest.mark.parametrize("layout", ["along I", "along K"])
def test_a_sum_over_levels_is_complete_where_it_is_read(
    emulation_folder: Path, layout: str
) -> None:
    meaning, facts = front(SUMMED)
    domain: Box = (5, 3, LEVELS)
    own = given_arrays(meaning, facts, domain, layout)
    expected = judged(meaning, facts, own, domain)
    artifact = EmulatedArtifact(plan(meaning, facts), emulation_folder)
    assert_same(ran(artifact, meaning, facts, own, domain).arrays, expected.arrays)
