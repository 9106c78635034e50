"""Values of expressions on the reference target, against plain Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from halocline_engine.backends.reference.values import evaluate
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.nodes import (
    Binary,
    Call,
    Cast,
    Expr,
    Number,
    Parameter,
    Read,
    Select,
    Unary,
)
from halocline_engine.ir.types import DType

F, G, N, T = DType.FLOAT64, DType.FLOAT32, DType.INT64, DType.BOOL
TESTS = ("isnan", "isinf", "isfinite")


def read(name: str, dtype: DType) -> Read:
    return Read(name, (0, 0, 0), dtype)


def value(expr: Expr, **arrays: Any) -> Any:
    with np.errstate(all="ignore"):
        got = evaluate(expr, lambda node: arrays[node.name], {"p": 0.1})
    assert got.dtype == expr.dtype.value
    return got


def call(function: str, dtype: DType) -> Call:
    names = "ab"[: FUNCTIONS[function]]
    result = T if function in TESTS else dtype
    return Call(function, tuple(read(name, dtype) for name in names), result)


def away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


PLAIN: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "cbrt": math.cbrt,
    "exp": math.exp,
    "log": math.log,
    "log10": math.log10,
    "pow": math.pow,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "round_away_from_zero": away,
    "erf": math.erf,
    "erfc": math.erfc,
    "gamma": math.gamma,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
}


def test_every_function_is_compared() -> None:
    assert set(PLAIN) == set(FUNCTIONS)


@pytest.mark.parametrize("dtype", [F, G])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str, dtype: DType) -> None:
    generator = np.random.default_rng(len(function))
    low, high = {
        "asin": (-1, 1),
        "acos": (-1, 1),
        "atanh": (-1, 1),
        "acosh": (1, 50),
        "sqrt": (0, 50),
        "log": (0, 50),
        "log10": (0, 50),
        "pow": (0, 5),
        "gamma": (0.1, 9),
    }.get(function, (-5, 5))
    a = generator.uniform(low, high, 41).astype(dtype.value)
    b = generator.uniform(-2, 2, 41).astype(dtype.value)
    got = value(call(function, dtype), a=a, b=b)
    plain = PLAIN[function]
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    expected = [plain(x, y) if FUNCTIONS[function] == 2 else plain(x) for x, y in pairs]
    assert got == pytest.approx(expected, rel=4 * float(np.finfo(dtype.value).eps))


@pytest.mark.parametrize("dtype", [F, G])
@pytest.mark.parametrize("function", sorted(set(FUNCTIONS) - {"erf", "erfc", "gamma"}))
def test_bits_do_not_depend_on_the_neighbours(function: str, dtype: DType) -> None:
    """The same number gives the same bits in any array, at any place, with any stride."""
    generator = np.random.default_rng(9)
    a = (generator.normal(size=600) * np.exp(generator.normal(0.0, 9.0, 600))).astype(dtype.value)
    b = np.roll(a, 17)
    a[:200] = generator.uniform(-1.0, 1.0, 200)
    whole = value(call(function, dtype), a=a, b=b).tobytes()
    size = len(whole) // len(a)
    for length in (1, 2, 3, 5, 8, 13, 31):
        for start in range(0, len(a) - length, 41):
            part = slice(start, start + length)
            got = value(call(function, dtype), a=a[part].copy(), b=b[part].copy())
            assert got.tobytes() == whole[start * size : (start + length) * size]
    backward = value(call(function, dtype), a=a[::-3], b=b[::-3])
    array = np.frombuffer(whole, np.dtype((np.void, size)))
    assert backward.tobytes() == array[::-3].tobytes()


def test_special_values() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e308])
    assert str(value(call("gamma", F), a=x).tolist()) == "[nan, inf, nan, inf, -inf, nan, inf]"
    assert value(call("erf", F), a=x)[1:3].tolist() == [1.0, -1.0]
    assert np.isnan(value(call("log", F), a=x)[[0, 2, 5]]).all()
    pair = np.full(7, 2.0)
    assert np.isnan(value(call("min", F), a=x, b=pair)[0])
    assert np.isnan(value(call("max", F), a=pair, b=x)[0])
    assert value(call("isfinite", F), a=x).tolist() == [False, False, False, *[True] * 4]


def test_rounding() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, -2.7])
    assert value(call("round", F), a=x).tolist() == [0.0, 2.0, 2.0, -0.0, -2.0, 0.0, -3.0]
    away = [1.0, 2.0, 3.0, -1.0, -2.0, 1.0, -3.0]
    assert value(call("round_away_from_zero", F), a=x).tolist() == away
    n = np.array([-3, 2**53 + 1])
    for function in ("floor", "ceil", "trunc", "round", "round_away_from_zero"):
        assert value(call(function, N), a=n).tolist() == [-3, 2**53 + 1]


@pytest.mark.parametrize(("exponent", "form"), [(2, "x*x"), (3, "x*x*x"), (4, "(x*x)*(x*x)")])
def test_small_powers_are_products(exponent: int, form: str) -> None:
    x = np.random.default_rng(1).normal(size=500)
    got = value(Call("pow", (read("a", F), Number(N, exponent)), F), a=x)
    assert np.array_equal(got, eval(form))


def test_powers() -> None:
    base, exponent = np.array([2, -2, 3, 1, -1, -1, 2, 0]), np.array([10, 3, 0, -5, -3, -2, -1, -1])
    got = value(Call("pow", (read("a", N), read("b", N)), N), a=base, b=exponent)
    assert got.tolist() == [1024, -8, 1, 1, -1, 1, 0, 0]
    x = np.array([1.5, -2.0], np.float32)
    n = np.array([-2, 5])
    got = value(Call("pow", (read("a", G), read("b", N)), G), a=x, b=n)
    assert got.tolist() == [float(np.float32(1.5) ** np.float32(-2)), -32.0]


def test_remainder_has_the_sign_of_the_divisor() -> None:
    a, b = np.array([7, -7, 7, -7, 5]), np.array([3, 3, -3, -3, 0])
    assert value(Binary("%", read("a", N), read("b", N), N), a=a, b=b).tolist() == [1, 2, -2, -1, 0]
    got = value(Binary("%", read("a", F), read("b", F), F), a=a * 0.5, b=b * 1.0)
    assert got[:4].tolist() == [0.5, 2.5, -2.5, -0.5]
    assert math.isnan(got[4])


def test_casts_keep_within_the_type() -> None:
    x = np.array([2.9, -2.9, 0.0, 0.1, 1e300])
    assert value(Cast(N, read("a", F)), a=x).tolist() == [2, -2, 0, 0, 2**63 - 1]
    nan = np.array([math.nan, 0.0, -0.0, 3.0])
    assert value(Cast(T, read("a", F)), a=nan).tolist() == [True, False, False, True]
    assert value(Cast(DType.INT32, read("a", F)), a=nan).tolist() == [0, 0, 0, 3]
    assert value(Cast(DType.INT8, read("a", N)), a=np.array([300, -129])).tolist() == [44, 127]
    assert value(Cast(G, read("a", T)), a=np.array([True, False])).tolist() == [1.0, 0.0]


def test_integers_wrap() -> None:
    a = np.array([2**63 - 1])
    assert value(Binary("+", read("a", N), Number(N, 1), N), a=a).tolist() == [-(2**63)]
    assert value(Unary("-", read("a", N), N), a=np.array([-(2**63)])).tolist() == [-(2**63)]


def test_parameters_and_choices() -> None:
    assert value(Parameter("p", G)).tolist() == float(np.float32(0.1))
    test = Binary("<", read("a", F), Number(F, 0.0), T)
    both = Select(Unary("not", test, T), call("sqrt", F), Unary("-", read("a", F), F), F)
    assert value(both, a=np.array([4.0, -4.0])).tolist() == [2.0, 4.0]
    either = Binary("or", test, Binary("and", test, test, T), T)
    assert value(either, a=np.array([4.0, -4.0])).tolist() == [False, True]


def test_nothing_is_promoted_on_the_way() -> None:
    a = np.array([1, 2], np.float32)
    got = value(Binary("*", read("a", G), Number(G, 0.1), G), a=a)
    assert got.tolist() == [float(np.float32(0.1)), float(np.float32(0.2))]
