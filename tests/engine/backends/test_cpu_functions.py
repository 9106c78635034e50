"""Operators and functions of the CPU target, on rough and on special numbers.

What IEEE 754 defines has the reference's bits. Functions of the C library are compared in units in
the last place; NumPy has code of its own for most of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differential import distance
from numpy.typing import NDArray

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.ir.functions import FUNCTIONS
from halocline_engine.ir.nodes import (
    ARITHMETIC,
    COMPARISONS,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Computation,
    Expr,
    Field,
    Program,
    Read,
    Unary,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.stages import WHOLE

EXACT = ("abs", "min", "max", "sqrt", "floor", "ceil", "trunc", "round", "round_away_from_zero")
TESTS = ("isnan", "isinf", "isfinite")
WHOLE_NUMBERS = ("abs", "min", "max", "pow", "floor", "ceil", "trunc", *TESTS)
#: Units in the last place; both libraries round these less carefully.
ULPS = {"gamma": 10.0}
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e300, 1e-310)
HALF = 0.49999999999999994
DOMAIN = (24, 20, 3)


def node(function: str, dtype: DType) -> Expr:
    a, b = Read("a", (0, 0, 0), dtype), Read("b", (0, 0, 0), dtype)
    if function in ARITHMETIC:
        return Binary(function, a, b, dtype)
    if function in COMPARISONS:
        return Binary(function, a, b, DType.BOOL)
    if function == "negative":
        return Unary("-", a, dtype)
    if function in tuple(DType):
        return Cast(DType(function), a)
    arguments = (a, b) if FUNCTIONS[function] == 2 else (a,)
    return Call(function, arguments, DType.BOOL if function in TESTS else dtype)


def results(functions: tuple[str, ...], dtype: DType, target: Any) -> dict[str, NDArray[Any]]:
    values = {name: node(name, dtype) for name in functions}
    fields = [Field(name, dtype, tuple(Axis), read=True, written=False) for name in "ab"]
    fields += [Field(f, e.dtype, tuple(Axis), read=False, written=True) for f, e in values.items()]
    body = tuple(Assign(name, value) for name, value in values.items())
    names = tuple(field.name for field in fields)
    computation = Computation(Order.PARALLEL, (Block(WHOLE, body),))
    program = Program("functions", names, tuple(fields), (), (), (computation,))
    arrays = {f.name: np.zeros(DOMAIN, f.dtype.value, order="F") for f in fields}
    arrays["a"][...], arrays["b"][...] = operands(dtype)
    origins = dict.fromkeys(names, (0, 0, 0))
    target.build(plan(program, analyse(program))).load()(arrays, {}, origins, DOMAIN)
    return {name: arrays[name] for name in functions}


def operands(dtype: DType) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(5)
    if dtype.is_integer:
        a, b = random.integers(-9, 10, (2, *DOMAIN)).astype(dtype.value)
        limits = np.iinfo(dtype.value)
        a[:, :, 1] = random.integers(limits.min, limits.max, DOMAIN[:2], dtype.value)
        a[0, :2, 0], b[0, :2, 0] = limits.min, (-1, 0)
        return a, b
    a, b = random.normal(size=(2, *DOMAIN)) * np.exp(random.normal(size=(2, *DOMAIN)))
    for i, x in enumerate((*SPECIAL, HALF, 3.0, -3.0)):
        for j, y in enumerate((*SPECIAL, HALF, 3.0, -3.0)):
            a[i, j, 0], b[i, j, 0] = x, y
    with np.errstate(over="ignore", under="ignore"):
        return a.astype(dtype.value), b.astype(dtype.value)


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
def test_what_is_defined_exactly_is_exact(dtype: DType) -> None:
    functions = (*ARITHMETIC, *COMPARISONS, *EXACT, *TESTS, "negative", "bool")
    expected = results(functions, dtype, ReferenceBackend())
    for name, got in results(functions, dtype, CpuBackend()).items():
        np.testing.assert_array_equal(got, expected[name], err_msg=name)
        if got.dtype.kind == "f":
            numbers = ~np.isnan(got)
            signs = np.signbit(got) == np.signbit(expected[name])
            assert np.all(signs[numbers]), name


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
def test_functions_of_the_library_are_within_four_units_in_the_last_place(dtype: DType) -> None:
    functions = tuple(name for name in FUNCTIONS if name not in (*EXACT, *TESTS))
    expected = results(functions, dtype, ReferenceBackend())
    for name, got in results(functions, dtype, CpuBackend()).items():
        assert distance(got, expected[name]) <= ULPS.get(name, 4.0), name


@pytest.mark.parametrize("dtype", [DType.INT64, DType.INT8])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whole_numbers_wrap_and_divide_as_in_the_reference(dtype: DType) -> None:
    casts = ("bool", "int8", "int64", "float32")
    functions = ("+", "-", "*", "%", *COMPARISONS, *WHOLE_NUMBERS, "negative", *casts)
    expected = results(functions, dtype, ReferenceBackend())
    for name, got in results(functions, dtype, CpuBackend()).items():
        np.testing.assert_array_equal(got, expected[name], err_msg=name)
