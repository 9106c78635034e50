"""A program that breaks a promise of `ir.nodes` does not get further."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from halocline_engine.errors import InternalError
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Block,
    Bound,
    Call,
    Cast,
    Computation,
    Expr,
    Field,
    If,
    Interval,
    Number,
    Parameter,
    Program,
    Read,
    Scalar,
    Select,
    Statement,
    Temporary,
    Unary,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.verify import verify

F, G, N, T = DType.FLOAT64, DType.FLOAT32, DType.INT64, DType.BOOL
A, P = Read("a", (0, 0, 0), F), Parameter("c", F)
WHOLE = Interval(Bound(False, 0), Bound(True, 0))
TRUE = Number(T, True)


def program(*body: Statement, **changes: Any) -> Program:
    made = Program(
        name="p",
        arguments=("a", "b", "s", "c"),
        fields=(
            Field("a", F, tuple(Axis), True, False),
            Field("b", F, tuple(Axis), False, True),
            Field("s", F, (Axis.I, Axis.J), False, False),
        ),
        scalars=(Scalar("c", F),),
        temporaries=(Temporary("t", F),),
        computations=(Computation(Order.PARALLEL, (Block(WHOLE, (Assign("b", A), *body)),)),),
    )
    return replace(made, **changes)


GOOD: list[Expr] = [
    Number(F, 1.0),
    Cast(F, Number(N, 1)),
    Cast(F, Number(T, True)),
    Unary("-", A, F),
    Cast(F, Unary("not", TRUE, T)),
    Binary("%", A, P, F),
    Cast(F, Binary("<", A, P, T)),
    Cast(F, Binary("and", TRUE, TRUE, T)),
    Call("pow", (A, Number(N, 3)), F),
    Call("pow", (A, P), F),
    Cast(F, Call("isnan", (A,), T)),
    Cast(F, Call("max", (Number(N, 3), Number(N, 4)), N)),
    Select(TRUE, A, P, F),
    Read("a", (1, -1, 2), F),
]

BAD: list[Expr] = [
    Number(F, 1),
    Number(N, 1.0),
    Number(N, True),
    Read("a", (0, 0, 0), G),
    Read("zzz", (0, 0, 0), F),
    Parameter("c", G),
    Parameter("d", F),
    Unary("-", TRUE, T),
    Unary("not", A, F),
    Unary("+", A, F),
    Binary("+", A, Number(N, 1), F),
    Binary("+", TRUE, TRUE, T),
    Binary("/", Number(N, 1), Number(N, 2), N),
    Binary("<", A, P, F),
    Binary("<", A, Number(N, 1), T),
    Binary("and", A, TRUE, T),
    Binary("//", A, P, F),
    Call("sqrt", (A, P), F),
    Call("sqrt", (Number(N, 1),), N),
    Call("sqrt", (A,), G),
    Call("isnan", (A,), F),
    Call("pow", (Number(N, 1), P), F),
    Call("print", (A,), F),
    Select(A, A, P, F),
    Select(TRUE, A, Number(N, 1), F),
]


@pytest.mark.parametrize("expr", GOOD, ids=str)
def test_right_expressions(expr: Expr) -> None:
    verify(program(Assign("t", expr)))


@pytest.mark.parametrize("expr", BAD, ids=str)
def test_wrong_expressions(expr: Expr) -> None:
    with pytest.raises(InternalError) as caught:
        verify(program(Assign("t", Cast(F, expr))))
    assert str(caught.value).startswith("Wrong types or names in '")


def test_offsets_along_absent_axes() -> None:
    fields = program().fields
    used = (*fields[:2], replace(fields[2], read=True))
    verify(program(Assign("t", Read("s", (1, 0, 0), F)), fields=used))
    with pytest.raises(InternalError) as caught:
        verify(program(Assign("t", Read("s", (0, 0, 1), F)), fields=used))
    assert str(caught.value) == "Wrong types or names in 's[0, 0, 1]'."


def block(start: Bound, end: Bound) -> tuple[Computation, ...]:
    return (Computation(Order.FORWARD, (Block(Interval(start, end), (Assign("b", A),)),)),)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (Bound(False, 2), Bound(False, 2), "[2, 2)"),
        (Bound(True, -1), Bound(True, -2), "[end-1, end-2)"),
        (Bound(True, -1), Bound(False, 3), "[end-1, 3)"),
    ],
)
def test_empty_intervals(start: Bound, end: Bound, text: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(program(computations=block(start, end)))
    assert str(caught.value) == f"The interval {text} is empty."


def test_wrong_programs() -> None:
    fields = program().fields
    wrong: list[tuple[Program, str]] = [
        (program(arguments=("a", "b", "c")), "The arguments are not the parameters."),
        (program(temporaries=(Temporary("a", F),)), "A name is declared twice."),
        (
            program(fields=(replace(fields[0], written=True), *fields[1:])),
            "Field 'a' is declared (read, written) = (True, True), and is (True, False).",
        ),
        (program(Assign("zzz", A)), "'zzz' is not declared as float64."),
        (program(Assign("t", Number(N, 1))), "'t' is not declared as int64."),
        (program(If(A, (Assign("t", A),), ())), "The condition 'a[0, 0, 0]' is not a bool."),
        (program(If(TRUE, (), (Assign("t", A),))), "A condition decides on nothing."),
    ]
    for broken, message in wrong:
        with pytest.raises(InternalError) as caught:
            verify(broken)
        assert str(caught.value) == message
