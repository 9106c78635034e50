"""Every operator and function in CUDA C++, compiled for the host, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine

from halocline_engine.backends.cuda.text.expressions import TYPES, expression_text, literal
from halocline_engine.backends.cuda.text.prelude import prelude
from halocline_engine.backends.reference.values import evaluate
from halocline_engine.errors import InternalError
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.nodes import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
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

INTEGERS = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
FLOATS = (DType.FLOAT32, DType.FLOAT64)
TESTS = ("isnan", "isinf", "isfinite")
#: Functions that IEEE 754 defines, or that do nothing but choose and cut.
EXACT = ("abs", "min", "max", "sqrt", "floor", "ceil", "trunc", "round", "round_away_from_zero")


def read(name: str, dtype: DType) -> Read:
    return Read(name, (0, 0, 0), dtype)


def values(dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return every pair of some awkward numbers and some plain ones."""
    some: list[Any]
    if dtype is DType.BOOL:
        some = [False, True]
    elif dtype.is_integer:
        info = np.iinfo(dtype.value)
        some = [0, 1, -1, 2, -2, 3, 7, -7, 100, info.max, info.min]
    else:
        some = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 3.7, -3.7, 1e-3]
        some += [12.25, math.inf, -math.inf, math.nan]
    numbers = np.array(some, dtype.value)
    a, b = np.meshgrid(numbers, numbers)
    return a.ravel(), b.ravel()


def computed(machine: EmulatedMachine, exprs: list[Expr], a: Any, b: Any) -> list[Any]:
    """Return the values of expressions of 'a' and 'b', all from one translation unit."""
    kernels = ""
    kind = {"a": a.dtype, "b": b.dtype}
    for n, expr in enumerate(exprs):
        text = expression_text(expr, lambda r: f"{r.name}[i]", lambda name: name)
        kernels += (
            f'extern "C" __global__ void __launch_bounds__(256) kernel{n}(const int n,'
            f" const {TYPES[DType(kind['a'].name)]}* a, const {TYPES[DType(kind['b'].name)]}* b,"
            f" {TYPES[expr.dtype]}* out) {{\n"
            "  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);\n"
            f"  if (i < n) out[i] = {text};\n}}\n"
        )
    loaded = machine.load(machine.compile(prelude(kernels) + kernels))
    results: list[Any] = []
    for n, expr in enumerate(exprs):
        out = np.zeros(a.shape, expr.dtype.value)
        places = [np.uint64(machine.address(array)) for array in (a, b, out)]
        loaded.launch(f"kernel{n}", (a.size, 1, 1), (1, 1, 1), (np.int32(a.size), *places))
        results.append(out)
    return results


def expected(expr: Expr, a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return evaluate(expr, lambda r: {"a": a, "b": b}[r.name], {})


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_operators(machine: EmulatedMachine, dtype: DType) -> None:
    a, b = read("a", dtype), read("b", dtype)
    arithmetic = [op for op in ARITHMETIC if op != "/" or dtype.is_float]
    exprs: list[Expr] = [Binary(op, a, b, dtype) for op in arithmetic]
    tests: list[Expr] = [Binary(op, a, b, DType.BOOL) for op in COMPARISONS]
    exprs += [*tests, Unary("-", a, dtype), Select(tests[0], a, b, dtype)]
    exprs += [Binary(op, tests[0], tests[4], DType.BOOL) for op in LOGICAL]
    exprs += [Unary("not", tests[2], DType.BOOL)]
    x, y = values(dtype)
    for expr, got in zip(exprs, computed(machine, exprs, x, y), strict=True):
        np.testing.assert_array_equal(got, expected(expr, x, y), err_msg=repr(expr))


@pytest.mark.parametrize("divisor", [3.0, -7.0, 0.1, 9.81e5, 1e-300, 1e300, 5e-324, 0.0, 4.0])
def test_quotients_by_one_number_have_the_bits_of_a_division(
    machine: EmulatedMachine, divisor: float
) -> None:
    edges = [0.0, 1.0, divisor, 5e-324, 2.3e-308, 2.0**-900, 2.0**900, 1.7e308, math.inf, math.nan]
    random = np.random.default_rng()
    bits = random.integers(0, 2**63, 4000).view(np.float64)
    usual = random.uniform(0.5, 2.0, 4000) * 10.0 ** random.integers(-9, 9, 4000)
    x = np.concatenate([edges, np.nextafter(edges, 0.0), bits, usual])
    x = np.concatenate([x, -x])
    expr = Binary("/", read("a", DType.FLOAT64), Number(DType.FLOAT64, divisor), DType.FLOAT64)
    (got,) = computed(machine, [expr], x, x)
    with np.errstate(all="ignore"):
        want = x / divisor
    np.testing.assert_array_equal(got, want)
    given = ~np.isnan(want)
    assert (got[given].view(np.int64) == want[given].view(np.int64)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_floats(machine: EmulatedMachine, dtype: DType) -> None:
    a, b = read("a", dtype), read("b", dtype)
    exprs: list[Expr] = [
        Call(name, (a, b)[:count], DType.BOOL if name in TESTS else dtype)
        for name, count in FUNCTIONS.items()
    ]
    exprs += [Call("pow", (a, Number(DType.INT64, n)), dtype) for n in (2, 3, 4, 5, -1)]
    exprs += [Call("pow", (a, Cast(DType.INT32, Number(DType.INT64, 3))), dtype)]
    x, y = values(dtype)
    tolerance = 1e-5 if dtype is DType.FLOAT32 else 1e-13
    for expr, got in zip(exprs, computed(machine, exprs, x, y), strict=True):
        want = expected(expr, x, y)
        assert isinstance(expr, Call)
        if expr.function in (*EXACT, *TESTS):
            np.testing.assert_array_equal(got, want, err_msg=expr.function)
            signs = np.signbit(got) == np.signbit(want)
            assert (signs | np.isnan(want.astype(float)) | (x == y)).all(), expr.function
        else:
            np.testing.assert_allclose(got, want, tolerance, err_msg=expr.function)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_integers(machine: EmulatedMachine, dtype: DType) -> None:
    a, b = read("a", dtype), read("b", dtype)
    names = ("abs", "min", "max", "floor", "ceil", "trunc", "round", "round_away_from_zero")
    exprs: list[Expr] = [Call(name, (a, b)[: FUNCTIONS[name]], dtype) for name in names]
    exprs += [Call(name, (a,), DType.BOOL) for name in TESTS]
    exprs += [Call("pow", (a, Number(DType.INT64, n)), dtype) for n in (2, 3, 4)]
    x, y = values(dtype)
    for expr, got in zip(exprs, computed(machine, exprs, x, y), strict=True):
        np.testing.assert_array_equal(got, expected(expr, x, y), err_msg=repr(expr))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_powers(machine: EmulatedMachine, dtype: DType) -> None:
    x = np.array([0, 1, -1, 2, -3, 5, 1, -1, -1, 2, 0], dtype.value)
    y = np.array([0, 5, 3, 6, 3, 2, -4, -3, -2, -1, 3], dtype.value)
    expr = Call("pow", (read("a", dtype), read("b", dtype)), dtype)
    (got,) = computed(machine, [expr], x, y)
    np.testing.assert_array_equal(got, [1, 1, -1, 64, -27, 25, 1, -1, 1, 0, 0])
    np.testing.assert_array_equal(got, expected(expr, x, y))


@pytest.mark.parametrize("dtype", list(DType))
def test_casts(machine: EmulatedMachine, dtype: DType) -> None:
    x = np.array([0, 1, 1, 0] if dtype is DType.BOOL else [0, 1, 7, 100], dtype.value)
    if dtype in (*INTEGERS, *FLOATS):
        x = np.concatenate([x, -x])
    if dtype.is_float:
        x = np.concatenate([x + np.array(0.7, dtype.value), x])
    exprs: list[Expr] = [Cast(to, read("a", dtype)) for to in DType]
    for expr, got in zip(exprs, computed(machine, exprs, x, x), strict=True):
        np.testing.assert_array_equal(got, expected(expr, x, x), err_msg=repr(expr))


def test_literals_are_exact(machine: EmulatedMachine) -> None:
    rng = np.random.default_rng(1)
    numbers = [
        Number(DType.FLOAT64, float(v))
        for v in rng.normal(0, 1, 20) * 10.0 ** rng.integers(-300, 300, 20)
    ]
    numbers += [Number(DType.FLOAT32, float(v)) for v in rng.normal(0, 1, 20)]
    numbers += [
        Number(dtype, v)
        for dtype in FLOATS
        for v in (0.1, math.inf, -math.inf, math.nan, 5e-324, -0.0, 1e300)
    ]
    numbers += [
        Number(dtype, int(v))
        for dtype in INTEGERS
        for v in (np.iinfo(dtype.value).min, np.iinfo(dtype.value).max, 0, -1)
    ]
    numbers += [Number(DType.BOOL, True), Number(DType.BOOL, False)]
    one = np.zeros(1)
    for number, got in zip(numbers, computed(machine, list(numbers), one, one), strict=True):
        with np.errstate(over="ignore"):
            want = np.array([number.value], number.dtype.value)
        np.testing.assert_array_equal(got, want, err_msg=literal(number))
        assert np.signbit(got[0].astype(float)) == np.signbit(want[0].astype(float)) or np.isnan(
            float(want[0])
        )


def test_parameters_and_reads_are_named_by_the_caller() -> None:
    expr = Binary("+", Parameter("limit", DType.FLOAT64), read("a", DType.FLOAT64), DType.FLOAT64)
    assert expression_text(expr, lambda _: "f0[o0]", lambda _: "p0") == "(p0 + f0[o0])"


def test_what_has_no_meaning_is_a_fault_of_the_compiler() -> None:
    a = read("a", DType.INT32)
    with pytest.raises(InternalError) as caught:
        expression_text(Binary("/", a, a, DType.INT32), lambda _: "a", lambda _: "p")
    assert str(caught.value) == "Division in 'int32' reached code generation: expected floats."
    with pytest.raises(InternalError) as caught:
        expression_text(Call("sin", (a,), DType.INT32), lambda _: "a", lambda _: "p")
    assert str(caught.value) == "Function 'sin' of 'int32' reached code generation."
