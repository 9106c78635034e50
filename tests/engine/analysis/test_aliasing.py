"""One array for two fields: only where every order of computing gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from halocline_engine.analysis.aliasing import may_share
from halocline_engine.analysis.extents import analyse
from halocline_engine.ir.nodes import Program

ProgramOf = Callable[[str], Program]
PARALLEL = "with computation(PARALLEL), interval(...):\n"

ALLOWED = {
    "one statement": PARALLEL + "    b = 2.0 * a + c",
    "a choice": PARALLEL + "    b = a if a > c else -a",
    "through temporaries": PARALLEL + "    t = a * c\n    u = t - a\n    b = u + t\n    d = b",
    "masked": PARALLEL + "    if a > 0.0:\n        b = a",
    "onto itself": PARALLEL + "    b = b + a",
    "its own levels": (
        "with computation(FORWARD):\n"
        "    with interval(0, 1):\n        b = a\n"
        "    with interval(1, None):\n        t = 2.0 * a\n        b = t + c[0, 0, -1]"
    ),
}

REFUSED = {
    "beside the point": PARALLEL + "    b = a[1, 0, 0]",
    "beside the point through a temporary": PARALLEL + "    t = a\n    b = t[0, 1, 0]",
    "another level": "with computation(FORWARD), interval(1, None):\n    b = a[0, 0, -1]",
    "another level through a temporary": (
        "with computation(PARALLEL), interval(...):\n    t = a\n"
        "with computation(FORWARD), interval(1, None):\n    b = t[0, 0, -1]"
    ),
    "another level of the result": (
        "with computation(FORWARD), interval(1, None):\n    b = a + b[0, 0, -1]"
    ),
    "needed for another field": PARALLEL + "    c = a\n    b = a",
    "needed afterwards": PARALLEL + "    b = 2.0 * a\n    c = a",
    "a copy is needed afterwards": PARALLEL + "    t = a\n    b = 2.0 * a\n    c = t",
    "assigned in both branches": (
        PARALLEL + "    if a > 0.0:\n        b = -1.0\n    else:\n        b = 1.0"
    ),
    "assigned twice": PARALLEL + "    b = 2.0 * a\n    b = b + a",
    "a condition is needed afterwards": (
        PARALLEL + "    if a > 0.0:\n        b = 1.0\n        t = 2.0\n    c = t"
    ),
    "assigned in two computations": PARALLEL + "    b = a\n" + PARALLEL + "    b = b + c",
    "needed in a later computation": PARALLEL + "    b = c\n" + PARALLEL + "    t = a",
    "both are written": PARALLEL + "    a = c\n    b = a",
}


@pytest.mark.parametrize("case", ALLOWED)
def test_allowed(program_of: ProgramOf, case: str) -> None:
    program = program_of(ALLOWED[case])
    assert may_share(program, analyse(program), read="a", written="b")


@pytest.mark.parametrize("case", REFUSED)
def test_refused(program_of: ProgramOf, case: str) -> None:
    program = program_of(REFUSED[case])
    assert not may_share(program, analyse(program), read="a", written="b")


def test_fields_of_other_axes_are_refused(program_of: ProgramOf) -> None:
    program = program_of("with computation(FORWARD), interval(...):\n    b = z + p")
    facts = analyse(program)
    assert not may_share(program, facts, read="z", written="b")
    assert not may_share(program, facts, read="p", written="b")


@pytest.mark.parametrize("case", ["one statement", "through temporaries", "its own levels"])
def test_the_values_are_those_of_two_arrays(run_stencil: Any, case: str) -> None:
    body = "".join(f"    {line}\n" for line in ALLOWED[case].split("\n"))
    names = "abcd" if "d = b" in body else "abc"
    text = f"def p({', '.join(f'{n}: Field[float64]' for n in names)}):\n{body}"
    generator = np.random.default_rng(4)
    a, c = generator.normal(size=(2, 5, 4, 6))
    apart, together, rest = np.full_like(a, np.nan), a.copy(), np.full_like(a, np.nan)
    run_stencil(text, *[{"a": a, "b": apart, "c": c, "d": rest}[n] for n in names])
    run_stencil(text, *[{"a": together, "b": together, "c": c, "d": rest}[n] for n in names])
    assert np.array_equal(apart, together)
    assert np.isfinite(apart).all()
