"""Blocks that assign other levels give the same bits as ones that visit those levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowered import lower
from numpy.typing import NDArray

from halocline_engine.ir.nodes import Program
from halocline_engine.ir.show import show
from halocline_engine.ir.verify import verify
from halocline_engine.ir.walk import assignments, program_bodies
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.visit_assigned_levels import visit_assigned_levels

Array = NDArray[Any]
HEAD = """
def ahead(a: Field[float64], b: Field[float64], x: Field[float64], y: Field[IJ, float64]):
    with computation({order}), interval({interval}):
"""
MOVED = {
    "under a condition": (
        "FORWARD",
        "0, -1",
        """
        if a > 0.5:
            d = b[0, 0, 1] - b
            x[0, 0, 1] = x + a * d
            if x[0, 0, 1] < b:
                x[0, 0, 1] = 0.5 * x + a[1, 0, 0]
            y = y + x[0, 0, 1] * d
""",
    ),
    "backward": ("BACKWARD", "1, None", "        x[0, 0, -1] = x * a + x[0, 0, -1] + float64(K)\n"),
    "two ahead": ("FORWARD", "0, -2", "        x[0, 0, 2] = x + b[0, 0, 1]\n"),
}
KEPT = {
    "beyond the domain": ("FORWARD", "...", "        x[0, 0, 1] = a\n"),
    "perhaps beyond it": ("FORWARD", "0, 2", "        x[0, 0, 1] = a\n"),
    "two levels": ("FORWARD", "0, -2", "        x[0, 0, 1] = a\n        x[0, 0, 2] = b\n"),
    "its own level too": ("FORWARD", "0, -1", "        x[0, 0, 1] = a\n        b = x\n"),
    "a level that is not known": (
        "FORWARD",
        "0, -1",
        "        x[0, 0, 1] = a[0, 0, int(b)]\n",
    ),
    "a temporary of other blocks": (
        "FORWARD",
        "0, -1",
        """
        t = a
        x[0, 0, 1] = t
    with computation(PARALLEL), interval(...):
        b = t
""",
    ),
}


def programs(order: str, interval: str, body: str) -> tuple[Program, Program]:
    text = HEAD.format(order=order, interval=interval) + body
    program = lower(parse(text))
    return program, visit_assigned_levels(program)


def assigns_levels(program: Program) -> bool:
    return any(one.level for body in program_bodies(program) for one in assignments(body))


@pytest.mark.parametrize("name", MOVED)
def test_no_level_is_left_that_only_a_run_knows(name: str) -> None:
    before, after = programs(*MOVED[name])
    assert assigns_levels(before)
    verify(after)
    assert not assigns_levels(after)


@pytest.mark.parametrize("name", KEPT)
def test_other_blocks_stay_as_they_are(name: str) -> None:
    before, after = programs(*KEPT[name])
    assert show(after) == show(before)


@pytest.mark.parametrize("name", MOVED)
def test_values_are_those_of_a_loop(run_stencil: Any, name: str) -> None:
    order, interval, body = MOVED[name]
    random = np.random.default_rng(7)
    a, b, x = (random.random((6, 3, 7)) for _ in range(3))
    y = random.random((6, 3))
    expected = [array.copy() for array in (a, b, x, y)]
    for i, j in np.ndindex(4, 3):
        LOOPS[name](i + 1, j, *expected)
    text = HEAD.format(order=order, interval=interval) + body
    run_stencil(text, a, b, x, y, origin=(1, 0, 0), domain=(4, 3, 7))
    for got, array in zip((a, b, x, y), expected, strict=True):
        assert np.array_equal(got, array)


def under_a_condition(i: int, j: int, a: Array, b: Array, x: Array, y: Array) -> None:
    for k in range(6):
        if a[i, j, k] > 0.5:
            d = b[i, j, k + 1] - b[i, j, k]
            x[i, j, k + 1] = x[i, j, k] + a[i, j, k] * d
            if x[i, j, k + 1] < b[i, j, k]:
                x[i, j, k + 1] = 0.5 * x[i, j, k] + a[i + 1, j, k]
            y[i, j] = y[i, j] + x[i, j, k + 1] * d


def backward(i: int, j: int, a: Array, _b: Array, x: Array, _y: Array) -> None:
    for k in range(6, 0, -1):
        x[i, j, k - 1] = x[i, j, k] * a[i, j, k] + x[i, j, k - 1] + k


def two_ahead(i: int, j: int, _a: Array, b: Array, x: Array, _y: Array) -> None:
    for k in range(5):
        x[i, j, k + 2] = x[i, j, k] + b[i, j, k + 1]


LOOPS = dict(zip(MOVED, (under_a_condition, backward, two_ahead), strict=True))
