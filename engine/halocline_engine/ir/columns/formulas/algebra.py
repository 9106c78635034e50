"""Arithmetic that writes expressions of the IR, so that formulas read as in a paper."""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.ir.nodes import Binary, Call, Expr, Number, Select, Unary
from halocline_engine.ir.types import DType

__all__ = ["Real", "Truth", "choose"]


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point expression; numbers take its type."""

    expr: Expr

    def number(self, value: float) -> Real:
        """Return a constant of the same type."""
        return Real(Number(self.expr.dtype, float(value)))

    def __add__(self, other: Real | float) -> Real:
        return self._with("+", other)

    def __radd__(self, other: float) -> Real:
        return self.number(other) + self

    def __sub__(self, other: Real | float) -> Real:
        return self._with("-", other)

    def __rsub__(self, other: float) -> Real:
        return self.number(other) - self

    def __mul__(self, other: Real | float) -> Real:
        return self._with("*", other)

    def __rmul__(self, other: float) -> Real:
        return self.number(other) * self

    def __truediv__(self, other: Real | float) -> Real:
        return self._with("/", other)

    def __neg__(self) -> Real:
        return Real(Unary("-", self.expr, self.expr.dtype))

    def __abs__(self) -> Real:
        return Real(Call("abs", (self.expr,), self.expr.dtype))

    def __lt__(self, other: Real | float) -> Truth:
        return self._than("<", other)

    def __gt__(self, other: Real | float) -> Truth:
        return self._than(">", other)

    def __le__(self, other: Real | float) -> Truth:
        return self._than("<=", other)

    def __ge__(self, other: Real | float) -> Truth:
        return self._than(">=", other)

    def least(self, *others: Real | float) -> Real:
        """Return the minimum; NaN wins."""
        return self._fold("min", others)

    def most(self, *others: Real | float) -> Real:
        """Return the maximum; NaN wins."""
        return self._fold("max", others)

    def _fold(self, function: str, others: tuple[Real | float, ...]) -> Real:
        found = self.expr
        for other in others:
            found = Call(function, (found, self._same(other)), self.expr.dtype)
        return Real(found)

    def _same(self, other: Real | float) -> Expr:
        return other.expr if isinstance(other, Real) else self.number(other).expr

    def _with(self, operator: str, other: Real | float) -> Real:
        return Real(Binary(operator, self.expr, self._same(other), self.expr.dtype))

    def _than(self, operator: str, other: Real | float) -> Truth:
        return Truth(Binary(operator, self.expr, self._same(other), DType.BOOL))


def choose(condition: Truth, then: Real, otherwise: Real | float) -> Real:
    """Return one of two values, point by point."""
    other = otherwise if isinstance(otherwise, Real) else then.number(otherwise)
    return Real(Select(condition.expr, then.expr, other.expr, then.expr.dtype))
