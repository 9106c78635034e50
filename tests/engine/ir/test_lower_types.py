"""Types of expressions and temporaries: promotion as in C, and every conversion written out."""

from typing import Any

import numpy as np
import pytest
from lowered import lower

from halocline_engine.ir.nodes import Assign, If, Program
from halocline_engine.ir.show import show_expr
from halocline_engine.ir.types import DType
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse

F = "Field[np.float64]"


def body(statements: str, *, args: str = f"a: {F}, b: {F}, out: {F}", **options: Any) -> Program:
    lines = "".join(f"        {line}\n" for line in statements.split("\n"))
    text = f"HALF = np.float32(0.5)\ndef f({args}):\n"
    text += f"    with computation(PARALLEL), interval(...):\n{lines}"
    program = lower(parse(text), **options)
    verify(program)
    return program


def said(program: Program) -> list[str]:
    """Return the assignments of the first block as text."""
    statements = program.computations[0].blocks[0].body
    return [f"{s.target} = {show_expr(s.value)}" for s in statements if isinstance(s, Assign)]


def dtype_of(expression: str, **options: Any) -> DType:
    """Return the type of an expression, which is that of a temporary it is assigned to."""
    args = (
        "o: Field[np.bool_], i8: Field[np.int8], i32: Field[np.int32], i64: Field[np.int64], "
        f"f32: Field[np.float32], f64: {F}, out: {F}"
    )
    program = body(f"t = {expression}\nout = 1.0", args=args, **options)
    return program.temporaries[0].dtype


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("1", "int64"),
        ("1.0", "float64"),
        ("True", "bool"),
        ("i8 + i32", "int32"),
        ("i64 * f32", "float32"),
        ("f32 * f64", "float64"),
        ("f32 * 2.0", "float64"),
        ("f32 * 2", "float32"),
        ("o * 2.0", "float64"),
        ("o + i8", "int8"),
        ("i64 / i64", "float32"),
        ("i8 / i8", "float32"),
        ("i64 / f64", "float64"),
        ("i64 % i32", "int64"),
        ("mod(f32, i64)", "float32"),
        ("i32 ** i64", "int64"),
        ("f32 ** i64", "float32"),
        ("i64 ** f32", "float32"),
        ("o ** 2", "int64"),
        ("f32 ** o", "float32"),
        ("-i8", "int8"),
        ("+f32", "float32"),
        ("not o", "bool"),
        ("i8 < f64", "bool"),
        ("o and f64 > 0.0", "bool"),
        ("i8 if o else f32", "float32"),
        ("abs(i32)", "int32"),
        ("abs(o)", "bool"),
        ("min(i32, i64)", "int64"),
        ("max(f32, i64)", "float32"),
        ("min(o, o)", "bool"),
        ("sqrt(i64)", "float32"),
        ("sin(f64)", "float64"),
        ("floor(i64)", "int64"),
        ("floor(f32)", "float32"),
        ("round(i64)", "float32"),
        ("isnan(f32)", "bool"),
        ("isfinite(i64)", "bool"),
        ("int(f64)", "int64"),
        ("float(i8)", "float64"),
        ("int32(f64)", "int32"),
        ("float32(o)", "float32"),
        ("i32(f64)", "int32"),
        ("bool(f64)", "bool"),
    ],
)
def test_types_of_expressions(expression: str, dtype: str) -> None:
    assert dtype_of(expression).value == dtype


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [("1", "int32"), ("1.0", "float32"), ("int(f64)", "int32"), ("float(i8)", "float32")],
)
def test_literals_of_32_bits(expression: str, dtype: str) -> None:
    assert dtype_of(expression, literal_int=32, literal_float=32).value == dtype


def test_types_of_declared_temporaries() -> None:
    text = "p: float32 = a\nq: int = a\nr: Field[np.int8] = a\ns: float = a\nout = p + q + r + s"
    program = body(text, literal_float=32)
    kinds = [temporary.dtype.value for temporary in program.temporaries]
    assert kinds == ["float32", "int64", "int8", "float32"]


def test_the_first_assignment_in_the_text_gives_the_type() -> None:
    program = body("if a > 0.0:\n    t = 1\nelse:\n    t = 2.5\nout = t")
    assert program.temporaries[0].dtype is DType.INT64
    branch = program.computations[0].blocks[0].body[0]
    assert isinstance(branch, If)
    assert show_statement(branch.otherwise[0]) == "t = 2:int64"


def show_statement(statement: object) -> str:
    assert isinstance(statement, Assign)
    return f"{statement.target} = {show_expr(statement.value)}"


def test_constants_are_converted_where_they_stand() -> None:
    program = body("out = 1 + a * 3 - True")
    assert said(program) == ["out = ((1.0:float64 + (a[0, 0, 0] * 3.0:float64)) - 1.0:float64)"]


def test_float32_literals_are_rounded() -> None:
    program = body("out = 0.1", literal_float=32)
    assert said(program) == [f"out = {float(np.float32(0.1))}:float64"]


def test_conversions_are_explicit() -> None:
    args = f"n: Field[np.int64], g: Field[np.float32], out: {F}"
    assert said(body("out = n * g", args=args)) == [
        "out = float64((float32(n[0, 0, 0]) * g[0, 0, 0]))"
    ]


def test_the_exponent_stays_an_integer() -> None:
    assert said(body("out = a ** 2")) == ["out = pow(a[0, 0, 0], 2:int64):float64"]
    assert said(body("out = 2 ** a")) == ["out = pow(2.0:float64, a[0, 0, 0]):float64"]


def test_boolean_minimum_is_a_logical_operator() -> None:
    args = "p: Field[np.bool_], q: Field[np.bool_], out: Field[np.bool_]"
    assert said(body("out = min(p, q)", args=args)) == ["out = (p[0, 0, 0] and q[0, 0, 0])"]
    assert said(body("out = max(p, q)", args=args)) == ["out = (p[0, 0, 0] or q[0, 0, 0])"]


def test_a_numpy_constant_keeps_its_type() -> None:
    args = f"g: Field[np.float32], out: {F}"
    assert said(body("t = g * HALF\nout = t", args=args))[0] == ("t = (g[0, 0, 0] * 0.5:float32)")
