"""What only points of a few rows or columns read, because it is inside narrow regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from halocline_engine.ir.nodes import Assign, Binary, Expr, If, Program, Read, Select, Statement
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import Access, assignments, bodies_of, children, head

__all__ = ["narrow_masks", "rare_reads"]


def narrow_masks(program: Program) -> frozenset[str]:
    """Return the masks that hold at a number of rows or columns which no domain changes."""
    return frozenset(
        position.name
        for position in program.positions
        if position.span is not None
        and position.axis is not Axis.K
        and position.span.start.from_end == position.span.end.from_end
    )


def rare_reads(body: Sequence[Statement], narrow: Set[str]) -> frozenset[Access]:
    """Return the reads of a body that are all under conditions which need one of the masks.

    Registers may stand for masks and conditions.
    """
    if not narrow:
        return frozenset()
    times = Counter(assign.target for assign in assignments(body))
    found = _Found({*narrow} - times.keys())
    for statement in body:
        found.visit(statement, rare=False)
        if isinstance(statement, Assign) and times[statement.target] == 1:
            found.name(statement)
    return frozenset(found.rare - found.usual)


class _Found:
    """Reads that are under such a condition, and those that are not."""

    def __init__(self, masks: set[str]) -> None:
        self._masks = masks
        self.rare: set[Access] = set()
        self.usual: set[Access] = set()

    def name(self, statement: Assign) -> None:
        """Take the target for a mask if the value is one."""
        if self._is_rare(statement.value):
            self._masks.add(statement.target)

    def visit(self, statement: Statement, *, rare: bool) -> None:
        """Add the reads of a statement."""
        for expr in head(statement):
            self._look(expr, rare=rare)
        under = isinstance(statement, If) and self._is_rare(statement.condition)
        for first, body in zip((True, False), bodies_of(statement), strict=False):
            for inner in body:
                self.visit(inner, rare=rare or (under and first))

    def _look(self, value: Expr, *, rare: bool) -> None:
        pending = [(value, rare)]
        while pending:
            expr, under = pending.pop()
            if isinstance(expr, Read):
                (self.rare if under else self.usual).add((expr.name, expr.offset))
            if isinstance(expr, Select) and self._is_rare(expr.condition):
                pending += [(expr.condition, under), (expr.then, True), (expr.otherwise, under)]
            else:
                pending += [(child, under) for child in children(expr)]

    def _is_rare(self, condition: Expr) -> bool:
        match condition:
            case Read(name):
                return name in self._masks
            case Binary("and", left, right):
                return self._is_rare(left) or self._is_rare(right)
            case Binary("or", left, right):
                return self._is_rare(left) and self._is_rare(right)
            case _:
                return False
