"""Splitting an `if` changes no value, and leaves alone what needs no splitting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowered import lower
from numpy.typing import NDArray

from halocline_engine.ir.nodes import If
from halocline_engine.ir.show import show
from halocline_engine.ir.verify import verify
from halocline_engine.ir.walk import assignments, reads, statements
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.split_conditionals import split_conditionals

NESTED = """
def nested(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation({order}), interval(...):
        t = 2.0 * a
        if a[0, 1, 0] > 0.0:
            t = a
            b = t[1, 0, 0]
            if a > 0.5:
                t = t + 1.0
                b = b + t[-1, 0, 0]
            elif a > 0.25:
                t = 7.0
            else:
                b = t[0, 1, 0]
                t = -1.0
        else:
            b = t[0, -1, 0]
            t = 3.0
        c = t
"""


def shifted(x: Any, i: int, j: int) -> Any:
    moved: NDArray[Any] = np.roll(x, (-i, -j), (0, 1))
    return moved


def where(mask: Any, yes: Any, no: Any) -> Any:
    return np.array(np.where(mask, yes, no), np.float64)


def expected(a: Any) -> tuple[Any, Any]:
    """Run the statements one by one on a periodic plane; its inside is right everywhere."""
    b = np.full_like(a, np.nan)
    t = 2.0 * a
    yes = shifted(a, 0, 1) > 0.0
    t = where(yes, a, t)
    b = where(yes, shifted(t, 1, 0), b)
    first, second = yes & (a > 0.5), yes & ~(a > 0.5) & (a > 0.25)
    rest = yes & ~(a > 0.5) & ~(a > 0.25)
    t = where(first, t + 1.0, t)
    b = where(first, b + shifted(t, -1, 0), b)
    t = where(second, 7.0, t)
    b = where(rest, shifted(t, 0, 1), b)
    t = where(rest, -1.0, t)
    b = where(~yes, shifted(t, 0, -1), b)
    t = where(~yes, 3.0, t)
    return b, t


@pytest.mark.parametrize("order", ["PARALLEL", "FORWARD"])
def test_values(run_stencil: Any, order: str) -> None:
    a = np.random.default_rng(5).uniform(-1.0, 1.0, (16, 17, 3))
    b, c = np.full_like(a, np.nan), np.full_like(a, np.nan)
    run_stencil(NESTED.format(order=order), a, b, c, origin=(4, 4, 0), domain=(8, 9, 3))
    inside = (slice(4, 12), slice(4, 13))
    want_b, want_c = expected(a)
    assert np.array_equal(b[inside], want_b[inside])
    assert np.array_equal(c[inside], want_c[inside])
    assert np.isnan(b).sum() == b.size - 8 * 9 * 3


def test_nothing_is_entangled_afterwards() -> None:
    program = split_conditionals(lower(parse(NESTED.format(order="PARALLEL"))))
    verify(program)
    for block in program.computations[0].blocks:
        for statement in statements(block.body):
            if isinstance(statement, If):
                targets = {assign.target for assign in assignments((statement,))} - {"b", "c"}
                assert not any(
                    read.name in targets and read.offset[:2] != (0, 0)
                    for read in reads((statement,))
                )


def test_the_text_afterwards() -> None:
    text = """
def two(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a > 0.0:
            t = a
            b = t[1, 0, 0]
"""
    shown = show(split_conditionals(lower(parse(text))))
    assert shown == (
        "program two(a, b)\n"
        "field a: float64[I, J, K] read\n"
        "field b: float64[I, J, K] written\n"
        "temporary t: float64\n"
        "temporary mask.0: bool\n"
        "computation PARALLEL\n"
        "  interval [0, end)\n"
        "    mask.0 = (a[0, 0, 0] > 0.0:float64)\n"
        "    if mask.0[0, 0, 0]\n"
        "      t = a[0, 0, 0]\n"
        "    if mask.0[0, 0, 0]\n"
        "      b = t[1, 0, 0]\n"
    )


@pytest.mark.parametrize("chosen", [True, False])
def test_a_condition_of_scalars_needs_no_temporary(run_stencil: Any, chosen: bool) -> None:
    text = """
def two(a: Field[float64], b: Field[float64], s: bool):
    with computation(PARALLEL), interval(...):
        b = 0.0
        if s:
            t = a
            b = t[1, 0, 0]
"""
    assert {one.name for one in split_conditionals(lower(parse(text))).temporaries} == {"t"}
    a = np.random.default_rng(6).uniform(-1.0, 1.0, (5, 4, 3))
    b = np.full_like(a, np.nan)
    run_stencil(text, a, b, chosen, origin=(0, 0, 0), domain=(4, 4, 3))
    assert np.array_equal(b[:4], a[1:] if chosen else np.zeros((4, 4, 3)))


def test_a_program_that_needs_none_is_the_same_object() -> None:
    text = """
def one(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a
        if a > 0.0:
            b = t[1, 0, 0]
"""
    program = lower(parse(text))
    assert split_conditionals(program) is program
