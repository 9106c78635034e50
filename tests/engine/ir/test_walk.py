"""Going through expressions and statements, and sharing what does not change."""

from __future__ import annotations

import pickle
from dataclasses import replace

from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    If,
    Number,
    Parameter,
    Read,
    Select,
    Statement,
    Unary,
)
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import (
    accesses_of,
    assignments,
    children,
    expressions,
    irregular,
    reads,
    reads_of,
    rewrite,
    rewrite_body,
    rewrite_once,
    rewrite_statement,
    statements,
    targets_of,
    walk,
)

F = DType.FLOAT64
A, B, C = (Read(name, (0, 0, 0), F) for name in "abc")
ONE = Number(F, 1.0)
TEST = Binary("<", A, ONE, DType.BOOL)
SUM = Binary("+", B, Call("max", (C, Parameter("p", F)), F), F)
CHOICE = Select(TEST, SUM, Unary("-", Cast(F, ONE), F), F)
BODY: tuple[Statement, ...] = (
    Assign("t", CHOICE),
    If(TEST, (Assign("u", A), If(TEST, (Assign("v", B),), ())), (Assign("w", C),)),
)


def name_of(expr: Expr) -> str:
    return type(expr).__name__


def shifted(expr: Expr) -> Expr:
    if isinstance(expr, Read) and expr.name == "c":
        return replace(expr, offset=(1, 0, 0))
    return expr


def test_children_are_the_direct_operands() -> None:
    assert children(CHOICE) == (TEST, SUM, Unary("-", Cast(F, ONE), F))
    assert children(SUM) == (B, Call("max", (C, Parameter("p", F)), F))
    assert children(Cast(F, ONE)) == (ONE,)
    assert children(A) == children(ONE) == children(Parameter("p", F)) == ()


def test_walk_goes_from_left_to_right_parents_first() -> None:
    assert [name_of(e) for e in walk(CHOICE)] == [
        "Select",
        *["Binary", "Read", "Number"],
        *["Binary", "Read", "Call", "Read", "Parameter"],
        *["Unary", "Cast", "Number"],
    ]


def test_walk_is_not_limited_by_the_depth() -> None:
    deep: Expr = A
    for _ in range(50_000):
        deep = Unary("-", deep, F)
    assert sum(1 for _ in walk(deep)) == 50_001


def test_bodies_are_visited_in_text_order() -> None:
    assert [a.target for a in assignments(BODY)] == ["t", "u", "v", "w"]
    assert [name_of(e) for e in expressions(BODY)] == [
        *["Select", "Binary", "Read", "Binary", "Read", "Read"]
    ]
    assert sum(isinstance(s, If) for s in statements(BODY)) == 2
    assert [r.name for r in reads_of(CHOICE)] == ["a", "b", "c"]
    assert [r.name for r in reads(BODY)] == ["a", "b", "c", "a", "a", "a", "b", "c"]


def test_rewrite_that_changes_nothing_returns_the_same_objects() -> None:
    assert rewrite(CHOICE, lambda e: e) is CHOICE
    assert rewrite_body(BODY, lambda e: e) is BODY
    assert rewrite_statement(BODY[1], lambda e: e) is BODY[1]


def test_rewrite_shares_what_does_not_change() -> None:
    new = rewrite(CHOICE, shifted)
    assert isinstance(new, Select)
    assert new.condition is CHOICE.condition
    assert new.otherwise is CHOICE.otherwise
    assert [r.offset for r in reads_of(new)] == [(0, 0, 0), (0, 0, 0), (1, 0, 0)]
    body = rewrite_body(BODY, shifted)
    assert isinstance(body[1], If)
    assert isinstance(BODY[1], If)
    assert body[1].then is BODY[1].then
    assert body[1].otherwise != BODY[1].otherwise


def test_rewrite_changes_operands_first() -> None:
    seen: list[str] = []

    def note(expr: Expr) -> Expr:
        seen.append(name_of(expr))
        return Number(F, 2.0) if isinstance(expr, Number) else expr

    new = rewrite(Unary("-", Cast(F, ONE), F), note)
    assert seen == ["Number", "Cast", "Unary"]
    assert new == Unary("-", Cast(F, Number(F, 2.0)), F)


def test_equal_operands_are_rewritten_once() -> None:
    value: Expr = Read("a", (0, 0, 0), DType.FLOAT64)
    for _ in range(200):
        value = Binary("+", value, value, DType.FLOAT64)
    seen: list[Expr] = []

    def change(expr: Expr) -> Expr:
        seen.append(expr)
        return expr

    assert rewrite_once(value, change) is value
    assert len(seen) == 1 + 1 + 200


def test_what_a_body_touches_is_told_once_and_in_order() -> None:
    here = (0, 0, 0)
    assert accesses_of(BODY) == (("a", here), ("b", here), ("c", here))
    assert accesses_of(rewrite_body(BODY[:1], shifted))[-1] == ("c", (1, 0, 0))
    assert targets_of((*BODY, BODY[0])) == ("t", "u", "v", "w")


def test_what_was_found_inside_is_no_part_of_a_value() -> None:
    new, asked = replace(BODY[1]), BODY[1]
    assert accesses_of((asked,))
    assert (new, hash(new), repr(new)) == (asked, hash(asked), repr(asked))
    assert pickle.dumps(new) == pickle.dumps(asked)
    changed = rewrite_body((asked,), lambda e: replace(e, name="x") if e == A else e)
    assert [r.name for r in reads((asked,))] == ["a", "a", "a", "b", "c"]
    assert [r.name for r in reads(changed)] == ["x", "x", "x", "b", "c"]


def test_names_at_levels_that_only_a_run_knows() -> None:
    at = Parameter("n", DType.INT64)
    far = Read("a", (0, 0, ANY_LEVEL), F, Cast(DType.INT64, B))
    assert [r.name for r in reads_of(Unary("-", far, F))] == ["a", "b"]
    body = (If(TEST, (Assign("u", far), Assign("v", B, level=at)), ()), BODY[0])
    assert irregular(body) == {"a", "v"}
    assert irregular(BODY) == frozenset()
