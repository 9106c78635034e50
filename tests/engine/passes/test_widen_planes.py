"""Temporaries over I and J that are needed beside the point: the values that NumPy computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from differential import assert_same, front
from emulation.machine import EmulatedArtifact
from general_runs import OPTIONS, agree, given_arrays, judged, ran
from interpreted import patch

import halocline_engine as he
from halocline_engine.errors import DependenceError
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

HEAD = """
def planes(a: Field[np.float64], b: Field[np.float64], x: Field[np.float64], y: Field[np.float64]):
    with computation(FORWARD), interval(0, 1):
        p: Field[IJ, np.float64] = a
"""
BESIDE = """
    with computation(PARALLEL), interval(...):
        y = p[1, 0] - 0.5 * p[0, -1]
"""
THROUGH = """
    with computation(PARALLEL), interval(...):
        t = p * b
    with computation(PARALLEL), interval(...):
        y = t[1, 0, 0] - 0.5 * t[0, -1, 0]
"""
SUM = """
    with computation(FORWARD), interval(1, None):
        p = p + a
    with computation(BACKWARD), interval(...):
        x = p
"""
SAME_LEVEL = """
    with computation(FORWARD), interval(...):
        r: Field[IJ, np.float64] = p + b
        x = r[1, 0] - r[-1, 0]
"""
MASKED = """
    with computation(FORWARD), interval(...):
        if b > 0.0:
            p = p + a
    with computation(FORWARD), interval(0, 1):
        while p < 1.0:
            p = p + 0.75
"""
BESIDE_A_FIELD = """
    with computation(FORWARD), interval(...):
        if p > 0.0:
            p = p + a
            x = p
        else:
            x = 2.0
            p = p - b
"""
NONE = """
    with computation(PARALLEL), interval(...):
        y = p + a[1, 0, 0]
"""
TEXTS = (
    BESIDE,
    THROUGH,
    SUM + BESIDE,
    SAME_LEVEL,
    MASKED + THROUGH,
    SUM + SAME_LEVEL + BESIDE,
    BESIDE_A_FIELD + THROUGH,
)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_sum_over_levels_is_read_beside_the_point(target: str) -> None:
    random = np.random.default_rng(1)
    a: Any = random.normal(size=(6, 7, 4))
    y: Any = np.zeros((6, 7, 4))
    x: Any = np.zeros((6, 7, 4))
    run = he.stencil(HEAD + SUM + BESIDE, target=target)
    run(a, None, x, y, origin=(0, 1, 0), domain=(5, 6, 4))
    total = a[:, :, :1] + a[:, :, 1:2] + a[:, :, 2:3] + a[:, :, 3:]
    np.testing.assert_array_equal(
        y[:5, 1:], np.broadcast_to(total[1:, 1:] - 0.5 * total[:5, :-1], (5, 6, 4))
    )


@pytest.mark.parametrize("text", TEXTS)
def test_all_targets_agree(
    text: str, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    meaning, facts = front(HEAD + text)
    domain = (5, 3, 4)
    agree(meaning, facts, domain, "along K", 1, *OPTIONS)
    own = given_arrays(meaning, facts, domain)
    expected = judged(meaning, facts, own, domain)
    got = ran(EmulatedArtifact(plan(meaning, facts), emulation_folder), meaning, facts, own, domain)
    assert_same(got.arrays, expected.arrays)


def test_others_stay_planes() -> None:
    meaning, _ = front(HEAD + SUM + NONE)
    assert next(f.axes for f in meaning.fields if f.name == "p") == (Axis.I, Axis.J)
    assert [one.name for one in meaning.scratch] == ["p"]


def test_one_that_is_written_may_not_be_read_beside_the_point_in_the_same_block() -> None:
    text = """
    with computation(FORWARD), interval(1, None):
        p = p + a
        x = p[1, 0]
"""
    with pytest.raises(DependenceError) as caught:
        front(HEAD + text)
    assert str(caught.value) == (
        "line 8, column 9: 'p' is written and read at the offset (1, 0) in the same block.\n"
        "Assign to a new name: a block reads at offsets only temporaries that it assigns first."
    )
