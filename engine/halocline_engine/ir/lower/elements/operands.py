"""Terms with other operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, assert_never

from halocline_engine.language import syntax

__all__ = ["Operation", "with_operands"]

Operation: TypeAlias = syntax.Prefix | syntax.Infix | syntax.Choice | syntax.Apply


def with_operands(term: Operation, change: Callable[[syntax.Term], syntax.Term]) -> syntax.Term:
    """Return an operation on what `change` makes of each of its operands."""
    match term:
        case syntax.Prefix():
            return replace(term, operand=change(term.operand))
        case syntax.Infix():
            return replace(term, left=change(term.left), right=change(term.right))
        case syntax.Choice(condition, then, otherwise, place):
            return syntax.Choice(change(condition), change(then), change(otherwise), place)
        case syntax.Apply():
            return replace(term, arguments=tuple(change(one) for one in term.arguments))
        case _:
            assert_never(term)
