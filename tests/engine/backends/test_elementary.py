"""Exponentials, logarithms and powers on cores: errors, limits, and bits that no loop changes."""

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
from halocline_engine.backends.cpu.elementary import exponential, logarithm, power
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
def test_errors_are_about_a_unit_in_the_last_place(function: str) -> None:
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
    assert max(errors) < 1.1


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


def over_pairs(x: Any, y: Any) -> Any:
    """Return all powers of some numbers with some exponents, of their type."""

    @numba.njit(error_model="numpy")
    def each(x: Any, y: Any, found: Any) -> None:
        for m in range(y.size):
            for n in range(x.size):
                found[m, n] = power(x[n], y[m])

    found = np.empty((y.size, x.size), x.dtype)
    each(x, y, found)
    return found


@pytest.mark.parametrize(
    ("bases", "exponents"),
    [((-13, 13), (-20, 20)), ((-0.7, 0.7), (-900, 900)), ((-600, 600), (-1.1, 1.1))],
)
def test_errors_of_powers_are_about_a_unit_in_the_last_place(
    bases: tuple[float, float], exponents: tuple[float, float]
) -> None:
    random = np.random.default_rng(5)
    x, y = np.exp(random.uniform(*bases, 40)), random.uniform(*exponents, 40)
    found = over_pairs(x, y)
    seen = 0
    with localcontext() as context:
        context.prec = 50
        for got, base, exponent in zip(found.flat, np.tile(x, 40), np.repeat(y, 40), strict=True):
            value = (Decimal(float(base)).ln() * Decimal(float(exponent))).exp()
            if Decimal("1e-300") < value < Decimal("1e300"):
                seen += 1
                unit = Decimal(float(np.spacing(got)))
                assert abs(Decimal(float(got)) - value) / unit < Decimal("1.2")
    assert seen > 800


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_limits_of_powers_are_those_of_numpy(dtype: str) -> None:
    whole = [0.0, 1.0, 2.0, 3.0, 9007199254740993.0, 1e30, math.inf]
    others = [math.nan, 0.5, 2.5, 5e-324, 1e-310, 0.9999999999999999, 1.0000000000000002, 1.7e308]
    with np.errstate(all="ignore"):
        x = np.array([sign * one for sign in (1, -1) for one in (*whole, *others)]).astype(dtype)
        expected = np.power(x[None, :], x[:, None])
    found = over_pairs(x, x)
    least = 2e-45 if dtype == "float32" else 5e-324
    rtol = 2 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=least)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(expected[there]))


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


ALL = "exp(a) * log(a) * a ** 1.5"
LIBRARY = {
    f"b = {ALL}": frozenset[str](),
    f"b = a\n        while b > 0.5:\n            b = {ALL}": frozenset[str](),
    f"b = a\n        while b > 0.5:\n            b = {ALL} + sin(b)": {"exp", "log", "pow"},
    f"b = {ALL} + a.at(K=0)": {"pow"},
}
OWN = {"exp": "exponential", "log": "logarithm", "pow": "power"}


@pytest.mark.parametrize("body", LIBRARY)
def test_loops_that_may_have_no_vectors_call_the_library(body: str) -> None:
    """It takes less time for an element; what is called does not depend on the order of axes."""
    program, facts = front(TEXT.format(body))
    for inner in (Axis.I, Axis.K):
        text = emit(plan(program, facts), contiguous(program, inner)).text
        for name, own in OWN.items():
            called = f"math.{name}" if name in LIBRARY[body] else own
            assert re.search(rf"(?<![.\w]){re.escape(called)}\(", text)
