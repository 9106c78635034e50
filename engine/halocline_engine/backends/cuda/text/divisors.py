"""Divisors whose reciprocal pays, because a point divides by them several times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from halocline_engine.ir.nodes import Assign, Binary, Expr, If, Read, Select, Statement
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import bodies_of, children, head, targets_of
from halocline_engine.schedule.nodes import Kernel

__all__ = ["shared_divisors"]

#: A division takes some fifteen instructions, a product with what makes it exact seven.
_LEAST = 3


def shared_divisors(kernel: Kernel) -> frozenset[Expr]:
    """Return the values by which a kernel multiplies the reciprocal, where points divide often.

    They are float64 and read. Columns wait for what they computed a level before, so that a longer
    way to a quotient costs them more than its instructions: a kernel of columns has none.
    """
    if kernel.order is not Order.PARALLEL:
        return frozenset()
    bodies = [body for section in kernel.sections for body in _bodies(section.body)]
    return frozenset(divisor for body in bodies for divisor in _often(body))


def _bodies(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Yield a body and all that its statements hold."""
    yield body
    for statement in body:
        for inner in bodies_of(statement):
            yield from _bodies(inner)


def _often(body: tuple[Statement, ...]) -> Iterator[Read]:
    """Yield what straight-line code divides by several times, and does not change after that."""
    found: Counter[Read] = Counter()
    changed: set[str] = set()
    for statement in body:
        for expr in head(statement) if isinstance(statement, Assign | If) else ():
            found.update(_divisors(expr))
        changed.update({read.name for read in found} & {*targets_of((statement,))})
    yield from (read for read, n in found.items() if n >= _LEAST and read.name not in changed)


def _divisors(expr: Expr) -> Iterator[Read]:
    """Yield what an expression divides by wherever it is evaluated, repeated as in the text.

    Divisions that only some points make are left out: compilers move nothing in front of a branch.
    """
    match expr:
        case Binary("/", _, Read(level=None) as divisor, DType.FLOAT64):
            yield divisor
        case _:
            pass
    for child in (expr.condition,) if isinstance(expr, Select) else children(expr):
        yield from _divisors(child)
