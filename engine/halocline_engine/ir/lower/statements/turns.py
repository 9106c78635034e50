"""Limits of the turns of loops, for those that do not count to a bound (see `ir.integers`).

A loop such as `while n < min(K + 4, last) and ...: n += 1` is over after as many turns as lie
between what the integer is before the loop and that bound, so that nobody needs to count them.
Columns are taken to have at most `USUAL_LEVELS` levels: in higher ones such a loop has more turns,
but not without end. A loop to a bound that a caller gives counts its turns, which need not be
looked at where the caller gives no larger number than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from halocline_engine.ir.integers import Integers
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.nodes import Assign, Binary, If, Number, Read, Statement, While
from halocline_engine.ir.types import Axis, DType

__all__ = ["USUAL_LEVELS", "limit_turns"]

USUAL_LEVELS = 50_000


def limit_turns(body: Iterable[Statement], symbols: Symbols) -> tuple[Statement, ...]:
    """Return a body whose loops that do not count to a bound have a limit of turns."""
    body = tuple(body)
    levels = {
        one.name: (0, USUAL_LEVELS)
        for one in symbols.positions.values()
        if one.axis is Axis.K and one.span is None
    }
    small = (-USUAL_LEVELS, USUAL_LEVELS)
    given = {one.name: small for one in symbols.scalars.values() if one.dtype.is_integer}
    limits = dict.fromkeys(symbols.level_limits, small)
    most, temporaries = symbols.limits.turns, frozenset(symbols.temporaries)
    ends = [turns <= most for turns in Integers({**levels, **limits}, temporaries).turns(body)]
    usual = Integers({**levels, **given}, temporaries).turns(body)
    symbols.endless |= any(turns > most for turns in usual)
    return tuple(_limited(body, iter(ends), symbols))


def _limited(
    body: Iterable[Statement], ends: Iterator[bool], symbols: Symbols
) -> Iterator[Statement]:
    """Yield statements with limits; `ends` says which loops need none, in the order of the text."""
    for statement in body:
        match statement:
            case Assign():
                yield statement
            case If(_, then, otherwise):
                yes = tuple(_limited(then, ends, symbols))
                no = tuple(_limited(otherwise, ends, symbols))
                yield replace(statement, then=yes, otherwise=no)
            case While(_, inner):
                is_bounded = next(ends)
                loop = replace(statement, body=tuple(_limited(inner, ends, symbols)))
                yield from ((loop,) if is_bounded else _with_limit(loop, symbols))
            case _:
                assert_never(statement)


def _with_limit(loop: While, symbols: Symbols) -> tuple[Statement, ...]:
    """Return a loop that counts its turns, and says where there were too many."""
    place = loop.location
    flag, number = symbols.limited(place)
    count = f".turns.{number}"
    symbols.temporaries[count] = DType.INT32
    turns = Read(count, (0, 0, 0), DType.INT32)
    most = Number(DType.INT32, symbols.limits.turns)
    more = Binary("<=", turns, most, DType.BOOL)
    condition = Binary("and", loop.condition, more, DType.BOOL)
    next_turn = Binary("+", turns, Number(DType.INT32, 1), DType.INT32)
    body = (*loop.body, Assign(count, next_turn, place))
    over = Assign(flag, Number(DType.INT16, number), place)
    return (
        Assign(count, Number(DType.INT32, 0), place),
        While(condition, body, place),
        If(Binary(">", turns, most, DType.BOOL), (over,), (), place),
    )
