"""Exponentials and logarithms of the CPU target: errors, limits, and bits that no loop changes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from differential import front, inputs, run

from halocline_engine.backends.cpu import code
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cpu.elementary import exponential, logarithm
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

Jit = Callable[..., Any]


def over(function: Any) -> Jit:
    """Return a loop that calls a function for each element, in vectors where it can be."""

    @numba.njit(error_model="numpy")
    def each(x: Any, y: Any) -> None:
        for n in range(x.size):
            y[n] = function(x[n])

    return each


def one_by_one(function: Any) -> Jit:
    """Return a loop with an end that each element decides, so that there are no vectors."""

    @numba.njit(error_model="numpy")
    def each(x: Any, y: Any) -> None:
        n = 0
        while n < x.size and y[n] != 7.0:
            y[n] = function(x[n])
            n += 1

    return each


def drawn(function: str) -> Any:
    random = np.random.default_rng(11)
    if function == "exp":
        far, near = random.uniform(-745.1, 709.7, 2000), random.normal(size=2000)
        return np.concatenate([far, near, near * 1e-9])
    far, near = np.exp(random.uniform(-740, 709, 2000)), random.uniform(0.5, 2, 2000)
    return np.concatenate([far, near, 1 + random.normal(size=500) * 1e-6])


FUNCTIONS = {"exp": (exponential, Decimal.exp), "log": (logarithm, Decimal.ln)}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_are_below_a_unit_in_the_last_place(function: str) -> None:
    ours, exact = FUNCTIONS[function]
    x = drawn(function)
    found = np.empty_like(x)
    over(ours)(x, found)
    with localcontext() as context:
        context.prec = 40
        units = map(Decimal, np.spacing(np.abs(found)).tolist())
        values = map(exact, map(Decimal, x.tolist()))
        several = zip(map(Decimal, found.tolist()), values, units, strict=True)
        errors = [abs(got - value) / unit for got, value, unit in several]
    assert max(errors) < 1


LIMITS = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, 1e-310, 2.3e-308, 1.7e308]
#: Beside the largest and the least exponential, and where those with all their digits end.
BESIDE = [709.782712893384, 709.7827128933841, 710.1, 1e300, -708.4, -740.0, -745.13, -745.14]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_limits_are_those_of_numpy(function: str, dtype: str) -> None:
    x = np.array([*LIMITS, *BESIDE, -1e300])
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
        expected = getattr(np, function)(x)
    found = np.empty_like(x)
    over(FUNCTIONS[function][0])(x, found)
    np.testing.assert_allclose(found, expected, rtol=2 * float(np.finfo(dtype).eps), atol=5e-324)
    assert found.dtype == dtype


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_are_the_same_in_vectors_and_one_by_one(function: str) -> None:
    ours = FUNCTIONS[function][0]
    with np.errstate(over="ignore"):
        several = drawn(function), drawn(function).astype("float32")
    for x in several:
        found, expected = np.zeros_like(x), np.zeros_like(x)
        one_by_one(ours)(x, expected)
        over(ours)(x, found)
        np.testing.assert_array_equal(found, expected)
        over(ours)(x[3:-2], found[3:-2])
        np.testing.assert_array_equal(found, expected)


TEXT = """
def functions(a: Field[float64], b: Field[float64]):
    with computation(PARALLEL), interval(...):
        {}
"""


def test_loops_are_vectorised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Numba shows no code that it has loaded.
    monkeypatch.setattr(code, "code_folder", tmp_path.joinpath)
    program, facts = front(TEXT.format("b = exp(a) + log(a)"))
    executable = CpuBackend().build(plan(program, facts)).load()
    run(executable, inputs(program, facts, (40, 2, 2)), (40, 2, 2), {})
    (found,) = executable.machine_code()
    assert re.search(r"vfn?madd\d+pd|fmla\tv", found)


def test_loops_whose_turns_differ_call_the_library() -> None:
    """They have no vectors, and it takes less time for an element."""
    program, facts = front(
        TEXT.format("b = a\n        while b > 0.5:\n            b = exp(b) * 0.1")
    )
    for inner in (Axis.I, Axis.K):
        text = emit(plan(program, facts), contiguous(program, inner)).text
        assert "math.exp(" in text
        assert "exponential(" not in text
