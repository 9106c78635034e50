"""Cost of expressions, in additions; equal subexpressions count once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from halocline_engine.ir import nodes
from halocline_engine.ir.walk import children

__all__ = ["operations"]

_DIVISION = 8
_FUNCTION = 24
_CHEAP = (
    nodes.FMA,
    "abs",
    "min",
    "max",
    "floor",
    "ceil",
    "trunc",
    "round",
    "isnan",
    "isinf",
    "isfinite",
)


def operations(values: Iterable[nodes.Expr]) -> int:
    """Return the cost of evaluating all values once, a load counting as an addition."""
    seen: set[nodes.Expr] = set()
    pending = list(values)
    total = 0
    while pending:
        expr = pending.pop()
        if expr not in seen:
            seen.add(expr)
            total += _weight(expr)
            pending.extend(children(expr))
    return total


def _weight(expr: nodes.Expr) -> int:
    match expr:
        case nodes.Number() | nodes.Parameter():
            return 0
        case nodes.Binary("/" | "%") | nodes.Call("sqrt"):
            return _DIVISION
        case nodes.Call(function) if function not in _CHEAP:
            return _FUNCTION
        case (
            nodes.Read()
            | nodes.Unary()
            | nodes.Binary()
            | nodes.Call()
            | nodes.Select()
            | nodes.Cast()
        ):
            return 1
        case _:
            assert_never(expr)
