"""What is known of numbers in front of each statement of a body: the least and the greatest value.

Real numbers are followed only as far as integers come from them: the place in a table between a
`min` and a `max`, rounded down. NaN is in every range of theirs.

A loop counts where its condition, or one that is joined to it with `and`, keeps an integer of the
point below or above what the loop does not change, and where each turn adds to the integer in that
direction, by any path. Then the integer has a range, and the loop a greatest number of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from math import ceil, floor, inf, isfinite, isnan, trunc
from operator import add, mul, sub
from typing import TypeAlias, assert_never

import numpy as np

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
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import assignments, reads_of

__all__ = ["MOST_LEVELS", "Integers", "Known", "Range"]

#: The least and the greatest value.
Range: TypeAlias = tuple[float, float]
#: The ranges of temporaries at the point, of those that are known.
Known: TypeAlias = Mapping[str, Range]

#: The most levels of a column whose indices are values: with a few more, they fit 32 bits.
MOST_LEVELS = 2**31 - 2**17

_ANY: Range = (-inf, inf)
#: Integers up to this fit every type of a counter, with a number up to `_NEAR` beside them.
_SMALL, _NEAR = 2.0**31 - 2.0**16, 2.0**15
#: What rounding adds to or takes from an integer of 64 bits at most.
_ROUNDED = 2.0**11
_COUNTERS = (DType.INT32, DType.INT64)
#: Turns that are followed one after the other: a search through 32 bits halves them away.
_FOLLOWED = 34
#: Assignments that are followed in one outermost loop: ten in a search within a search, all turns.
_MOST_FOLLOWED = 20_000
_ARITHMETIC = {"+": add, "-": sub, "*": mul}
_WHOLE = {"floor": floor, "ceil": ceil, "trunc": trunc}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class _Followed:
    """Assignments that were followed within one outermost loop: nesting multiplies them."""

    assignments: int = 0


@dataclass(frozen=True, slots=True)
class Integers:
    """Ranges of integers, of which a type that they do not fit leaves nothing, and of reals.

    `given` are the ranges of fields and scalars that are known, such as the index along K.
    `temporaries` are what only assignments of the point itself change.
    """

    given: Known
    temporaries: Set[str]
    _followed: _Followed | None = None  # within a loop

    def turns(self, body: Iterable[Statement]) -> list[float]:
        """Return the most turns of each loop, in the order of the text; infinite if not known."""
        found: list[float] = []
        self.walk(body, {}, _ignore, lambda loop: found.append(loop.turns))
        return found

    def scan(
        self, body: Iterable[Statement], known: Known, see: Callable[[Statement, Known], None]
    ) -> Known:
        """Show each statement with what is known in front of it; return that behind all.

        Loops are shown before what they hold.
        """
        return self.walk(body, known, see, _ignore)

    def walk(
        self,
        body: Iterable[Statement],
        known: Known,
        see: Callable[[Statement, Known], None],
        see_loop: Callable[[_Loop], None],
    ) -> Known:
        """Scan, and show what is known of each loop as well."""
        for statement in body:
            see(statement, known)
            match statement:
                case Assign(target, value, _, level):
                    own = level is None and target in self.temporaries
                    known = _with(known, target, self.of(value, known) if own else _ANY)
                case If(_, then, otherwise):
                    one = self.walk(then, known, see, see_loop)
                    two = self.walk(otherwise, known, see, see_loop)
                    known = {name: _both(one[name], two[name]) for name in one if name in two}
                case While(_, inner):
                    within = self if self._followed else replace(self, _followed=_Followed())
                    loop = within.loop(statement, known)
                    see_loop(loop)
                    within.walk(inner, loop.inside, see, see_loop)
                    known = loop.behind
                case _:
                    assert_never(statement)
        return known

    def of(self, expr: Expr, known: Known) -> Range:
        """Return the range of an expression."""
        if not expr.dtype.is_integer:
            return _real(expr, known, self.of) if expr.dtype.is_float else _ANY
        low, high = self._range(expr, known)
        least, most = _type_range(expr.dtype)
        # Ends of 64 bits are rounded themselves: a sum beyond the type may look like its last one.
        wraps = _ROUNDED if isinstance(expr, Unary | Binary) and expr.dtype is DType.INT64 else 0
        fits = least + wraps <= low and high <= most - wraps
        return (low, high) if fits else (least, most)

    def _range(self, expr: Expr, known: Known) -> Range:
        match expr:
            case Number(_, value):
                return value, value
            case Read(name, (0, 0, 0), _, None) if name in known:
                return known[name]
            case Read(name) | Parameter(name) if name in self.given:
                return self.given[name]
            case Unary("-", operand):
                low, high = self.of(operand, known)
                return -high, -low
            case Binary("+", left, right):
                (a, b), (c, d) = self.of(left, known), self.of(right, known)
                return self._part_way(left, right, known) or (a + c, b + d)
            case Binary("-", left, right):
                (a, b), (c, d) = self.of(left, known), self.of(right, known)
                return a - d, b - c
            case Binary("*", left, right):
                return _product(self.of(left, known), self.of(right, known))
            case Call("min" | "max" as function, arguments):
                choose = min if function == "min" else max
                several = [self.of(argument, known) for argument in arguments]
                return choose(low for low, _ in several), choose(high for _, high in several)
            case Select(_, then, otherwise):
                return _both(self.of(then, known), self.of(otherwise, known))
            case Cast(_, operand) if operand.dtype.is_integer:
                return self.of(operand, known)
            case Cast(_, operand) if operand.dtype.is_float:
                low, high = self.of(operand, known)
                if not isfinite(high - low):
                    return _ANY
                ends = trunc(low), trunc(high)
                # NaN becomes zero.
                return ends if _is_number(operand) else _both(ends, (0, 0))
            case _:
                return _ANY

    def _part_way(self, start: Expr, beside: Expr, known: Known) -> Range | None:
        """Return the range of an integer that is `start` and at most half of the way to another.

        Half of a way, rounded to a float and then to an integer, is never longer than the way.
        """
        way = _halved(beside)
        match way and _plain(way):
            case Binary("-", end, begin) if _plain(begin) == _plain(start):
                one, two = self.of(start, known), self.of(end, known)
                least, most = _type_range(way.dtype) if way else _ANY
                fits = least <= two[0] - one[1] and two[1] - one[0] <= most
                return _both(one, two) if _is_small(one) and _is_small(two) and fits else None
            case _:
                return None

    def loop(self, loop: While, known: Known) -> _Loop:
        """Return what is known of a loop, from what is known in front of it."""
        assigned = tuple(assignments(loop.body))
        changed = frozenset(found.target for found in assigned)
        # Of real numbers that a loop assigns nothing is known: their sums are rounded.
        whole = frozenset(found.target for found in assigned if found.value.dtype.is_integer)
        starts = {name: known[name] for name in whole & known.keys()}
        outside = {name: there for name, there in known.items() if name not in changed}
        turning = _Turning(self, loop, outside, changed)
        counted = {
            name: min(several, key=lambda one: one.turns)
            for name, start in starts.items()
            if (several := [*turning.counters(name, start)])
        }
        turns = min((one.turns for one in counted.values()), default=inf)
        for name in starts.keys() - counted.keys():
            if (beside := turning.stepping(name, starts[name], turns)) is not None:
                counted[name] = beside
        others = {name: starts[name] for name in starts.keys() - counted.keys()}
        inside = {**outside, **{name: one.inside for name, one in counted.items()}}
        mixed = self._mixed(loop, inside, others, turns, len(assigned))
        return _Loop(
            inside={**inside, **mixed},
            behind={**outside, **mixed, **{name: one.behind for name, one in counted.items()}},
            turns=turns,
        )

    def _mixed(self, loop: While, inside: Known, starts: Known, turns: float, size: int) -> Known:
        """Return the ranges of integers that turns compute from each other, turn after turn.

        They are those of all turns once another turn adds nothing, as in a search that halves what
        is left. `starts` are the ranges in front of the loop, `inside` those of other names, and
        `size` is the number of assignments in it. Nothing is known where nested loops would be
        followed too often.
        """
        if not starts:
            return {}
        found = dict(starts)
        assert self._followed is not None
        for turn in range(_FOLLOWED):
            self._followed.assignments += size
            if self._followed.assignments > _MOST_FOLLOWED:
                return {}
            behind = self.scan(loop.body, {**inside, **found}, _ignore)
            wider = {name: _both(one, behind.get(name, _ANY)) for name, one in found.items()}
            wider = {name: one for name, one in wider.items() if _is_small(one)}
            if wider == found or turn >= turns:
                return found
            found = wider
        return {}


@dataclass(frozen=True, slots=True)
class _Turning:
    """A loop, what is known of what it leaves as it is, and the names that it assigns."""

    integers: Integers
    loop: While
    known: Known
    changed: Set[str]

    def counters(self, name: str, start: Range) -> Iterator[_Counter]:
        """Yield what a condition says of an integer that each turn changes in one direction."""
        steps = _steps(self.loop.body, name)
        if steps is None or (steps[0] <= 0 <= steps[1]):
            return
        up = steps[0] > 0
        for operator, bound in self._bounds(self.loop.condition, name):
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

    def stepping(self, name: str, start: Range, turns: float) -> _Counter | None:
        """Return what is known of an integer that each of so many turns adds numbers to."""
        steps = _steps(self.loop.body, name)
        if steps is None or not isfinite(turns):
            return None
        most = max(turns, 0)
        ends = (start[0] + most * min(steps[0], 0), start[1] + most * max(steps[1], 0))
        return _Counter(ends, ends, turns) if _is_small(ends) else None

    def _bounds(self, condition: Expr, name: str) -> Iterator[tuple[str, Range]]:
        """Yield comparisons of an integer with what a loop does not change, all of which hold."""
        match condition:
            case Binary("and", left, right):
                for side in (left, right):
                    yield from self._bounds(side, name)
            case Binary(operator, left, right) if operator in _MIRRORED:
                for how, one, other in (
                    (operator, left, right),
                    (_MIRRORED[operator], right, left),
                ):
                    beside = self._beside(_plain(one), name)
                    if beside is not None and self._is_steady(other):
                        low, high = self.integers.of(other, self.known)
                        yield how, (low - beside[1], high - beside[0])
            case _:
                pass

    def _beside(self, expr: Expr, name: str) -> Range | None:
        """Return what an expression adds to an integer; None where it is something else."""
        match expr:
            case Read(found, (0, 0, 0), dtype, None) if found == name:
                return (0, 0) if dtype in _COUNTERS else None
            case Binary("+" | "-" as operator, left, right, dtype) if dtype in _COUNTERS:
                sides = ((left, right), (right, left)) if operator == "+" else ((left, right),)
                for one, other in sides:
                    inner = self._beside(_plain(one), name)
                    if inner is not None and self._is_steady(other):
                        low, high = self.integers.of(other, self.known)
                        low, high = (low, high) if operator == "+" else (-high, -low)
                        low, high = inner[0] + low, inner[1] + high
                        fits = dtype is DType.INT64 or (low >= -_NEAR and high <= _NEAR)
                        return (low, high) if fits else None
                return None
            case _:
                return None

    def _is_steady(self, expr: Expr) -> bool:
        names = {read.name for read in reads_of(expr)}
        return expr.dtype.is_integer and names.isdisjoint(self.changed)


@dataclass(frozen=True, slots=True)
class _Loop:
    """What is known in front of each turn, and behind a loop; and the most turns."""

    inside: Known
    behind: Known
    turns: float


@dataclass(frozen=True, slots=True)
class _Counter:
    """An integer that a loop counts: its range in a turn and behind the loop, and most turns."""

    inside: Range
    behind: Range
    turns: float


def _steps(body: Iterable[Statement], name: str) -> Range | None:
    """Return what a body adds to an integer, at least and at most; None where it is not known."""
    low, high = 0.0, 0.0
    for statement in body:
        match statement:
            case Assign(target, value, _, level) if target == name:
                step = _step(value, name)
                if step is None or level is not None:
                    return None
                low, high = low + step[0], high + step[1]
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


def _step(value: Expr, name: str) -> Range | None:
    """Return what a value adds to an integer, at least and at most; None where it is not known."""
    match _plain(value):
        case Select(_, then, otherwise):
            one, two = _step(then, name), _step(otherwise, name)
            return None if one is None or two is None else _both(one, two)
        case Read(name=found, offset=(0, 0, 0), level=None) if found == name:
            return 0.0, 0.0
        case Binary(operator, left, right) if operator in ("+", "-"):
            sign = 1 if operator == "+" else -1
            match _plain(left), _plain(right):
                case Read(name=found, offset=(0, 0, 0), level=None), Number(_, by) if found == name:
                    return sign * float(by), sign * float(by)
                case Number(_, by), Read(name=found, offset=(0, 0, 0), level=None) if (
                    found == name and sign > 0
                ):
                    return float(by), float(by)
                case _:
                    return None
        case _:
            return None


def _halved(expr: Expr) -> Expr | None:
    """Return the integer of which an expression is at most half, rounded towards zero or down."""
    match expr:
        case Cast(_, Call("floor" | "trunc", (half,)) | (Binary() as half)):
            pass
        case _:
            return None
    match half:
        case Binary("*", Number(_, by), Cast(_, way)) | Binary("*", Cast(_, way), Number(_, by)):
            return way if 0 <= by <= 0.5 else None
        case Binary("/", Cast(_, way), Number(_, by)):
            return way if by >= 2 else None
        case _:
            return None


def _plain(expr: Expr) -> Expr:
    """Return an integer without conversions between types that hold every counter."""
    while isinstance(expr, Cast) and expr.dtype in _COUNTERS and expr.operand.dtype in _COUNTERS:
        expr = expr.operand
    return expr


def _real(expr: Expr, known: Known, of: Callable[[Expr, Known], Range]) -> Range:
    """Return the range of a real number where it is not NaN.

    `of` gives the ranges of operands. Rounding keeps an order, so that rounded ends are those of
    rounded numbers.
    """
    match expr:
        case Number(_, value):
            low = high = float(value)
        case Read(name, (0, 0, 0), _, None) if name in known:
            low, high = known[name]
        case Cast(_, operand):
            low, high = of(operand, known)
        case Unary("-", operand):
            high, low = (-end for end in of(operand, known))
        case Binary("+" | "-" | "*" as operator, left, right):
            one, two = of(left, known), of(right, known)
            if not isfinite(sum(map(abs, (*one, *two)))):
                return _ANY
            ends = [_ARITHMETIC[operator](a, b) for a in one for b in two]
            low, high = min(ends), max(ends)
        case Call("min" | "max" as function, arguments):
            several = [of(argument, known) for argument in arguments]
            choose = min if function == "min" else max
            low, high = (choose(ends) for ends in zip(*several, strict=True))
        case Call("floor" | "ceil" | "trunc" as function, (operand,)):
            ends = of(operand, known)
            low, high = (float(_WHOLE[function](e)) if isfinite(e) else e for e in ends)
        case _:
            return _ANY
    if expr.dtype is DType.FLOAT32:
        with np.errstate(over="ignore"):
            low, high = float(np.float32(low)), float(np.float32(high))
    return _ANY if isnan(low) or isnan(high) else (low, high)


def _is_number(expr: Expr) -> bool:
    """Whether a real number whose range has two ends is surely not NaN."""
    match expr:
        case Number(_, value):
            return not isnan(value)
        case Cast(_, operand):
            return operand.dtype.is_integer or _is_number(operand)
        case Unary(_, operand) | Call("floor" | "ceil" | "trunc", (operand,)):
            return _is_number(operand)
        case Binary("+" | "-" | "*", left, right):
            return _is_number(left) and _is_number(right)
        case _:
            return False


def _ignore(*_: object) -> None:
    """See nothing."""


def _with(known: Known, name: str, found: Range) -> Known:
    """Return what is known behind an assignment."""
    if found != _ANY:
        return {**known, name: found}
    return {one: there for one, there in known.items() if one != name} if name in known else known


def _product(one: Range, two: Range) -> Range:
    ends = [a * b for a in one for b in two]
    return min(ends), max(ends)


def _is_small(one: Range) -> bool:
    return one[0] >= -_SMALL and one[1] <= _SMALL


def _both(one: Range, two: Range) -> Range:
    return min(one[0], two[0]), max(one[1], two[1])


def _type_range(dtype: DType) -> Range:
    most = 2.0 ** (8 * dtype.itemsize - 1)
    return -most, most - 1
