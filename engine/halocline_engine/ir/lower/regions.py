"""Horizontal regions: bounds along I and J become tests of a point's indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np

from halocline_engine.errors import SyntaxRuleError
from halocline_engine.ir.lower.naming.fold import Value
from halocline_engine.ir.lower.naming.members import Level
from halocline_engine.ir.nodes import FAR
from halocline_engine.ir.types import Axis
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Area,
    Edge,
    Infix,
    Inside,
    Literal,
    Name,
    Prefix,
    Side,
    Subscript,
    Term,
)

__all__ = ["inside"]

_Constant: TypeAlias = "Callable[[Term], Value | Level | None]"
_FIRST, _END = (False, -FAR), (True, FAR)


def inside(area: Area, constant: _Constant) -> Term:
    """Return the condition of the points of a region; `constant` gives the value of a term."""
    i, j = _span(area.i, Axis.I, constant), _span(area.j, Axis.J, constant)
    both = [one for one in (i, j) if (one.low, one.high) != (_FIRST, _END)]
    if not both:
        return Literal(True, area.place)
    return both[0] if len(both) == 1 else Infix("and", both[0], both[1], area.place)


def _span(side: Side, axis: Axis, constant: _Constant) -> Inside:
    low = _FIRST if side.low is None else _edge(side.low, axis, constant)
    if side.point and side.low is not None and low[0] and not _is_index(side.low, constant):
        message = f"An index in a region counts from the first point, but got {low[1]}."
        hint = f"Write '{axis.value}[-1]' for the last point."
        raise fault(SyntaxRuleError, side.place, "regions", message, hint)
    if side.point:
        return Inside(axis.value, low, (low[0], low[1] + 1), side.place)
    high = _END if side.high is None else _edge(side.high, axis, constant)
    if low[0] == high[0] and low[1] >= high[1]:
        message = f"A region must hold a point, but this one is empty along {axis.value}."
        hint = "The end is not included: 'I[0]:I[0] + 2' has two points."
        raise fault(SyntaxRuleError, side.place, "regions", message, hint)
    return Inside(axis.value, low, high, side.place)


def _edge(term: Term, axis: Axis, constant: _Constant) -> Edge:
    """Return an index along an axis: `I[0] + 2`, `I[-1]`, 3, or an external with such a value."""
    match term:
        case Infix("+" | "-" as operator, left, right):
            from_end, offset = _edge(left, axis, constant)
            moved = _whole(constant(right), right.place)
            return from_end, offset + (moved if operator == "+" else -moved)
        case Subscript(Name(name), (index,)) if name in tuple(Axis):
            if name != axis.value:
                message = f"This part of a region is along {axis.value}, but got {name}."
                raise fault(SyntaxRuleError, term.place, "regions", message, _FORM)
            at = _index(index)
            if at is None:
                message = f"A region begins and ends at {name}[0] or {name}[-1]."
                raise fault(SyntaxRuleError, index.place, "regions", message, _FORM)
            return at < 0, at
        case _:
            found = constant(term)
    if not isinstance(found, Level):
        whole = _whole(found, term.place)
        return whole < 0, whole
    if found.axis is not axis or found.index not in (0, -1):
        message = f"This part of a region needs {axis.value}[0] or {axis.value}[-1]."
        raise fault(SyntaxRuleError, term.place, "regions", message, _FORM)
    return found.index < 0, found.index + found.offset


def _is_index(term: Term, constant: _Constant) -> bool:
    """Whether a term is made of an index of an axis, and is no number alone."""
    match term:
        case Infix(_, left):
            return _is_index(left, constant)
        case Subscript():
            return True
        case _:
            return isinstance(constant(term), Level)


def _index(term: Term) -> int | None:
    match term:
        case Literal(0):
            return 0
        case Prefix("-", Literal(1)):
            return -1
        case _:
            return None


def _whole(value: Value | Level | None, place: Place) -> int:
    whole = cast("int", value) if isinstance(value, (int, np.integer)) else None
    if whole is not None and not isinstance(value, (bool, np.bool_)) and abs(int(whole)) <= FAR:
        return int(whole)
    message = f"The bound of a region must be an integer, but got {value!r}."
    raise fault(SyntaxRuleError, place, "regions", message, _FORM)


_FORM = "Write for example 'region[I[0] + 1:I[-1], :]'."
