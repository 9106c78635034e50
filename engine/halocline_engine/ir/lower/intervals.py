"""Vertical intervals: their bounds, and that blocks are in order and do not overlap."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np

from halocline_engine.errors import SyntaxRuleError
from halocline_engine.ir.lower.inline import Inliner
from halocline_engine.ir.lower.naming.fold import Value
from halocline_engine.ir.lower.naming.members import Level
from halocline_engine.ir.lower.naming.scope import Scope
from halocline_engine.ir.nodes import Bound, Interval
from halocline_engine.ir.types import Axis, Order
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import Apply, Infix, Literal, Name, Prefix, Subscript, Term

__all__ = ["bounds_of", "check_order", "read_interval"]

_END = Bound(True, 0)
_FORMS = "Write 'interval(...)', 'interval(start, end)' or 'interval(level)'."


def read_interval(
    call: Apply, inliner: Inliner, scope: Scope, own: Sequence[str], deep: Collection[str]
) -> tuple[Interval, Term | None]:
    """Return the levels of `interval(...)`; `own` are the names of the stencil's arguments.

    Those that are `deep` have the axis K.

    Where an argument is a bound, the levels are those up to the end of the domain on that side, and
    the condition that levels must meet as well comes with them.
    """
    terms = _terms(call)
    if terms is None:
        return Interval(Bound(False, 0), _END), None
    known, tests = list(terms), list[Term]()
    for number, term in enumerate(terms if len(terms) == 2 else ()):
        if _is_of(term, own):
            _check_flat(term, deep)
            known[number] = Literal(0, term.place) if number == 0 else Name("None", term.place)
            level = Name("K", term.place)
            tests.append(Infix("<" if number else ">=", level, term, term.place))
    test = tests[0] if len(tests) == 1 else None
    if len(tests) > 1:
        test = Infix("and", tests[0], tests[1], call.place)
    return _constant_interval(call, known, inliner, scope, own), test


def bounds_of(call: Apply) -> set[str]:
    """Return the names of fields and scalars that an interval begins or ends at."""
    bases = [_base(term) for term in _terms(call) or ()]
    return {base.name for base in bases if isinstance(base, Name)}


def _check_flat(term: Term, deep: Collection[str]) -> None:
    """Refuse a bound that differs from level to level."""
    base = _base(term)
    if isinstance(base, Name) and base.name in deep:
        message = (
            f"'{base.name}' has the axis K, and an interval has the same bounds on all levels."
        )
        hint = f"Compare it with 'K' in an interval of all levels, as in 'if K < {base.name}:'."
        raise fault(SyntaxRuleError, term.place, "intervals", message, hint)


def _constant_interval(
    call: Apply, terms: Sequence[Term], inliner: Inliner, scope: Scope, own: Sequence[str]
) -> Interval:
    first, *rest = (_value(term, inliner, scope, own) for term in terms)
    if first is None:
        message = "An interval must have a first level, but got None."
        raise fault(SyntaxRuleError, terms[0].place, "intervals", message, "Write 0.")
    start = _bound(first, terms[0].place)
    end = _END if rest and rest[0] is None else _bound(rest[0] if rest else first, terms[-1].place)
    if not rest:
        end = Bound(start.from_end, start.offset + 1)
    if start.from_end and not end.from_end:
        message = (
            "An interval must go upwards, but this one begins at the end and ends at the start."
        )
        raise fault(SyntaxRuleError, call.place, "intervals", message, "Exchange its bounds.")
    if start.from_end == end.from_end and start.offset >= end.offset:
        message = f"An interval must hold a level, but this one is empty: {_show(start, end)}."
        hint = "The end is not included: 'interval(2, 3)' is level 2."
        raise fault(SyntaxRuleError, call.place, "intervals", message, hint)
    return Interval(start, end)


def check_order(intervals: Sequence[tuple[Interval, Place]], order: Order) -> None:
    """Raise where blocks of one computation overlap, or do not stand in order of execution."""
    for (before, _), (after, place) in pairwise(intervals):
        low, high = (after, before) if order is Order.BACKWARD else (before, after)
        if _below(low.end, high.start):
            continue
        if _below(high.end, low.start):
            way = "downwards" if order is Order.BACKWARD else "upwards"
            message = (
                f"The intervals of a {order.value} computation must go {way}, but these do not."
            )
            hint = "Exchange the two blocks."
            raise fault(SyntaxRuleError, place, "intervals", message, hint)
        message = "Two intervals of one computation overlap."
        hint = "The end is not included: 'interval(0, 2)' is followed by 'interval(2, None)'."
        raise fault(SyntaxRuleError, place, "intervals", message, hint)


def _below(end: Bound, start: Bound) -> bool:
    """Say whether a block may end where another one starts, in a domain with enough levels."""
    if end.from_end == start.from_end:
        return end.offset <= start.offset
    return start.from_end


def _terms(call: Apply) -> tuple[Term, ...] | None:
    """Return the bounds as they are written, None for all levels."""
    match call:
        case Apply(_, (Name("..."),), ()):
            return None
        case Apply(_, (_,) | (_, _) as terms, ()):
            return terms
        case Apply(_, arguments, keywords):
            given = dict(zip(("start", "end"), arguments, strict=False))
            given |= {keyword.name: keyword.value for keyword in keywords}
            if len(arguments) + len(keywords) == 2 and set(given) == {"start", "end"}:
                return given["start"], given["end"]
            message = "'interval' takes a start and an end."
            raise fault(SyntaxRuleError, call.place, "intervals", message, _FORMS)


def _value(term: Term, inliner: Inliner, scope: Scope, own: Sequence[str]) -> Value | Level | None:
    if _is_of(term, own):
        message = "A level that only a run knows cannot be the only one of an interval."
        hint = "Write 'if K == n:' in an interval of all levels."
        raise fault(SyntaxRuleError, term.place, "intervals", message, hint)
    if isinstance(term, Subscript):
        message = "An axis index cannot be written in an interval."
        hint = "Write its level: 'K[1]' is 1, 'K[-1]' is -1; or give it as an external."
        raise fault(SyntaxRuleError, term.place, "intervals", message, hint)
    if isinstance(term, Infix | Prefix) and _is_of_some(term, own):
        message = "A bound of a run must be a parameter by itself, but this one is computed."
        hint = (
            "Pass the level as an argument, or write 'if K < n + 1:' in an interval of all levels."
        )
        raise fault(SyntaxRuleError, term.place, "intervals", message, hint)
    return inliner.constant(term, scope)


def _is_of_some(term: Term, own: Sequence[str]) -> bool:
    """Whether an argument of the stencil stands in an expression."""
    match term:
        case Infix(_, left, right):
            return _is_of_some(left, own) or _is_of_some(right, own)
        case Prefix(_, operand):
            return _is_of_some(operand, own)
        case _:
            return _is_of(term, own)


def _is_of(term: Term, own: Sequence[str]) -> bool:
    """Whether a bound is an argument of the stencil."""
    base = _base(term)
    return isinstance(base, Name) and base.name in own


def _base(term: Term) -> Term:
    while isinstance(term, Subscript):
        term = term.base
    return term


def _bound(value: Value | Level | None, place: Place) -> Bound:
    match value:
        case Level(Axis.K, index, offset):
            return Bound(index < 0, index + offset)
        case Level(axis):
            message = f"An interval is made of levels of K, but got an index of {axis.value}."
            hint = "Give an index like K[1], or an integer."
            raise fault(SyntaxRuleError, place, "intervals", message, hint)
        case bool() | np.bool_() | None:
            pass
        case int() | np.integer():
            level = int(value)
            return Bound(level < 0, level)
        case _:
            pass
    message = f"The bound of an interval must be an integer, but got {value!r}."
    raise fault(SyntaxRuleError, place, "intervals", message, _FORMS)


def _show(start: Bound, end: Bound) -> str:
    return f"from {_show_bound(start)} up to, not including, {_show_bound(end)}"


def _show_bound(bound: Bound) -> str:
    if not bound.from_end:
        return str(bound.offset)
    return f"the end{bound.offset:+d}" if bound.offset else "the end"
