"""Limits of the turns of loops, for those that do not count to a bound.

A loop counts where its condition keeps an integer of the point below something, and each turn adds
to that integer: `while n < min(K + 4, last) and ...: n += 1`. It is over after as many turns as lie
between what the integer is before the loop and that bound, so that nobody needs to count them. The
values of integers are known as ranges, and columns are taken to have at most `_LEVELS` levels: in
higher ones such a loop has more turns, but not without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TypeAlias, assert_never

from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.nodes import (
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
    While,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import assignments, reads_of

__all__ = ["limit_turns"]

#: The least and the greatest value.
_Range: TypeAlias = tuple[float, float]
#: The ranges of temporaries at the point, of those that are known.
_Known: TypeAlias = Mapping[str, _Range]

_LEVELS = 50_000
_ANY: _Range = (-inf, inf)
#: Of two integers up to this, the sum fits every type of a counter.
_SMALL = 2.0**30
_COUNTERS = (DType.INT32, DType.INT64)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def limit_turns(body: Iterable[Statement], symbols: Symbols) -> tuple[Statement, ...]:
    """Return a body whose loops that do not count to a bound have a limit of turns."""
    return _Limiter(symbols).body(body, {})[0]


@dataclass(frozen=True, slots=True)
class _Limiter:
    """Goes through statements in order, with what is known of integers in front of each."""

    symbols: Symbols

    def body(
        self, body: Iterable[Statement], known: _Known
    ) -> tuple[tuple[Statement, ...], _Known]:
        """Return statements with limits where loops need them, and what is known behind them."""
        found: list[Statement] = []
        for statement in body:
            match statement:
                case Assign(target, value, _, level):
                    ranges = _Ranges(self.symbols, known)
                    own = level is None and target in self.symbols.temporaries
                    known = {**known, target: ranges.of(value) if own else _ANY}
                    found.append(statement)
                case If(_, then, otherwise):
                    (yes, one), (no, two) = self.body(then, known), self.body(otherwise, known)
                    known = {name: _both(one[name], two[name]) for name in one if name in two}
                    found.append(replace(statement, then=yes, otherwise=no))
                case While():
                    limited, known = self._loop(statement, known)
                    found += limited
                case _:
                    assert_never(statement)
        return tuple(found), known

    def _loop(self, loop: While, known: _Known) -> tuple[tuple[Statement, ...], _Known]:
        changed = {found.target for found in assignments(loop.body)}
        outside = {name: there for name, there in known.items() if name not in changed}
        ranges = _Ranges(self.symbols, outside)
        counted = {
            name: min(several, key=lambda one: one.turns)
            for name, start in known.items()
            if name in changed and (several := [*_counters(loop, name, start, ranges, changed)])
        }
        inside = {**outside, **{name: one.inside for name, one in counted.items()}}
        again = replace(loop, body=self.body(loop.body, inside)[0])
        behind = {**outside, **{name: one.behind for name, one in counted.items()}}
        if any(one.turns <= self.symbols.limits.turns for one in counted.values()):
            return (again,), behind
        return _limited(again, self.symbols), behind


@dataclass(frozen=True, slots=True)
class _Counter:
    """An integer that a loop counts: its range in a turn and behind the loop, and most turns."""

    inside: _Range
    behind: _Range
    turns: float


def _counters(
    loop: While, name: str, start: _Range, ranges: _Ranges, changed: set[str]
) -> Iterator[_Counter]:
    """Yield what a condition says of an integer that each turn changes in one direction."""
    steps = _steps(loop.body, name)
    if steps is None or (steps[0] <= 0 <= steps[1]):
        return
    up = steps[0] > 0
    for operator, bound in _bounds(loop.condition, name, ranges, changed):
        if operator in ("<", "<=") and up:
            last = bound[1] - (operator == "<")
            inside = (start[0], max(start[0], last))
            behind = (start[0], max(start[1], last + steps[1]))
            turns = (last - start[0]) / steps[0] + 1
        elif operator in (">", ">=") and not up:
            last = bound[0] + (operator == ">")
            inside = (min(start[1], last), start[1])
            behind = (min(start[0], last + steps[0]), start[1])
            turns = (last - start[1]) / steps[1] + 1
        else:
            continue
        if isfinite(turns) and _is_small(behind):
            yield _Counter(inside, behind, turns)


def _steps(body: Iterable[Statement], name: str) -> _Range | None:
    """Return what a body adds to an integer, at least and at most; None where it is not known."""
    low, high = 0.0, 0.0
    for statement in body:
        match statement:
            case Assign(target, value, _, level) if target == name:
                step = _step(value, name)
                if step is None or level is not None:
                    return None
                low, high = low + step, high + step
            case If(_, then, otherwise):
                one, two = _steps(then, name), _steps(otherwise, name)
                if one is None or two is None:
                    return None
                low, high = low + min(one[0], two[0]), high + max(one[1], two[1])
            case While(_, inner) if any(found.target == name for found in assignments(inner)):
                return None
            case _:
                pass
    return low, high


def _step(value: Expr, name: str) -> float | None:
    """Return the number that a value adds to an integer."""
    match _plain(value):
        case Binary(operator, left, right) if operator in ("+", "-"):
            sign = 1 if operator == "+" else -1
            match _plain(left), _plain(right):
                case Read(name=found, offset=(0, 0, 0), level=None), Number(_, by) if found == name:
                    return sign * float(by)
                case Number(_, by), Read(name=found, offset=(0, 0, 0), level=None) if (
                    found == name and sign > 0
                ):
                    return float(by)
                case _:
                    return None
        case _:
            return None


def _plain(expr: Expr) -> Expr:
    """Return an integer without conversions between types that hold every counter."""
    while isinstance(expr, Cast) and expr.dtype in _COUNTERS and expr.operand.dtype in _COUNTERS:
        expr = expr.operand
    return expr


def _bounds(
    condition: Expr, name: str, ranges: _Ranges, changed: set[str]
) -> Iterator[tuple[str, _Range]]:
    """Yield the comparisons of an integer with what a loop does not change, all of which hold."""
    match condition:
        case Binary("and", left, right):
            for side in (left, right):
                yield from _bounds(side, name, ranges, changed)
        case Binary(operator, left, right) if operator in _MIRRORED:
            for how, one, other in ((operator, left, right), (_MIRRORED[operator], right, left)):
                beside = _beside(_plain(one), name, ranges, changed)
                if beside is not None and _is_small(beside) and _is_steady(other, changed):
                    low, high = ranges.of(other)
                    yield how, (low - beside[1], high - beside[0])
        case _:
            pass


def _beside(expr: Expr, name: str, ranges: _Ranges, changed: set[str]) -> _Range | None:
    """Return what an expression adds to an integer; None where it is something else."""
    match expr:
        case Read(name=found, offset=(0, 0, 0), level=None) if found == name:
            return (0, 0) if expr.dtype in _COUNTERS else None
        case Binary("+" | "-" as operator, left, right, dtype) if dtype in _COUNTERS:
            inner = _beside(_plain(left), name, ranges, changed)
            if inner is not None and _is_steady(right, changed):
                low, high = ranges.of(right)
                low, high = (low, high) if operator == "+" else (-high, -low)
                return inner[0] + low, inner[1] + high
            inner = _beside(_plain(right), name, ranges, changed)
            if inner is not None and operator == "+" and _is_steady(left, changed):
                low, high = ranges.of(left)
                return inner[0] + low, inner[1] + high
            return None
        case _:
            return None


def _is_steady(expr: Expr, changed: set[str]) -> bool:
    return expr.dtype.is_integer and not any(read.name in changed for read in reads_of(expr))


def _is_small(one: _Range) -> bool:
    return one[0] >= -_SMALL and one[1] <= _SMALL


def _both(one: _Range, two: _Range) -> _Range:
    return min(one[0], two[0]), max(one[1], two[1])


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Ranges of integers, of which a type that they do not fit leaves nothing."""

    symbols: Symbols
    known: _Known

    def of(self, expr: Expr) -> _Range:
        """Return the range of an expression."""
        if not expr.dtype.is_integer:
            return _ANY
        low, high = self._range(expr)
        least, most = _type_range(expr.dtype)
        return (low, high) if least <= low and high <= most else (least, most)

    def _range(self, expr: Expr) -> _Range:
        match expr:
            case Number(_, value):
                return value, value
            case Read(name, (0, 0, 0), _, None) if name in self.known:
                return self.known[name]
            case Read(name) if name in self.symbols.positions:
                one = self.symbols.positions[name]
                return (0, _LEVELS) if one.axis is Axis.K and one.span is None else _ANY
            case Parameter(name) if name in self.symbols.level_limits:
                return -_LEVELS, _LEVELS
            case Unary("-", operand):
                low, high = self.of(operand)
                return -high, -low
            case Binary("+", left, right):
                (a, b), (c, d) = self.of(left), self.of(right)
                return a + c, b + d
            case Binary("-", left, right):
                (a, b), (c, d) = self.of(left), self.of(right)
                return a - d, b - c
            case Call("min" | "max" as function, arguments):
                choose = min if function == "min" else max
                several = [self.of(argument) for argument in arguments]
                return choose(low for low, _ in several), choose(high for _, high in several)
            case Select(_, then, otherwise):
                return _both(self.of(then), self.of(otherwise))
            case Cast(_, operand) if operand.dtype.is_integer:
                return self.of(operand)
            case _:
                return _ANY


def _type_range(dtype: DType) -> _Range:
    most = 2.0 ** (8 * dtype.itemsize - 1)
    return -most, most - 1


def _limited(loop: While, symbols: Symbols) -> tuple[Statement, ...]:
    """Return a loop that counts its turns, and says where there were too many."""
    place = loop.location
    flag, number = symbols.endless(place)
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
