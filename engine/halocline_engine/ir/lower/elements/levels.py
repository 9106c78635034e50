"""Levels that only a run knows: `q[0, 0, n]`, `q.at(K=n)`, and what is assigned there.

A level outside of the array is read as the nearest one that it has, and is not assigned.
"""

from __future__ import annotations

import math

from halocline_engine.errors import SyntaxRuleError, TypeRuleError
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.lower.types import convert
from halocline_engine.ir.nodes import Binary, Call, Expr, Number, Parameter, Read
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language.source import Place, fault

__all__ = ["between", "level_of", "lies_between", "no_levels"]


def level_of(index: Expr, symbols: Symbols, place: Place, *, relative: bool) -> Expr:
    """Return the level that an index means, which counts from the point's if it is `relative`."""
    if not index.dtype.is_integer:
        message = f"A level must be an integer, but this is {index.dtype.value}."
        hint = "Convert it, like 'q[0, 0, int(n)]'."
        raise fault(TypeRuleError, place, "levels", message, hint)
    level = convert(index, DType.INT64, place)
    if not relative:
        return level
    here = symbols.position(Axis.K)
    symbols.read.add(here)
    return Binary("+", Read(here, (0, 0, 0), DType.INT64), level, DType.INT64)


def between(level: Expr, name: str, symbols: Symbols) -> Expr:
    """Return a level, or the nearest one that an array has."""
    first, last = _limits(name, symbols)
    return Call("min", (Call("max", (level, first), DType.INT64), last), DType.INT64)


def lies_between(level: Expr, name: str, symbols: Symbols) -> Expr:
    """Return the condition that an array has a level."""
    first, last = _limits(name, symbols)
    above = Binary(">=", level, first, DType.BOOL)
    return Binary("and", above, Binary("<=", level, last, DType.BOOL), DType.BOOL)


def no_levels(name: str, place: Place) -> SyntaxRuleError:
    """Return the error for a field that is the same on all levels."""
    message = f"'{name}' has no levels: it has no axis K."
    return fault(SyntaxRuleError, place, "levels", message, f"Write '{name}'.")


def _limits(name: str, symbols: Symbols) -> tuple[Expr, Expr]:
    """Return the first and the last level of an array; temporaries begin with the domain.

    Those of a `GlobalTable` are its elements, as many as its type says.
    """
    if name in symbols.lookups:
        count = math.prod(symbols.lookups[name].shape)
        return Number(DType.INT64, 0), Number(DType.INT64, count - 1)
    last = Parameter(symbols.limit(name, last=True), DType.INT64)
    if name not in symbols.fields:
        return Number(DType.INT64, 0), last
    return Parameter(symbols.limit(name, last=False), DType.INT64), last
