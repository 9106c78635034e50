"""Values that a thread computes for its own level, in CUDA C++."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from halocline_engine.backends.cuda.text.expressions import TYPES, expression_text
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir import nodes
from halocline_engine.schedule.levels.exchange import LevelPlan, Node
from halocline_engine.schedule.levels.terms import Ref

__all__ = ["Values", "headed"]

#: Operators in one statement: longer text is split, so that it stays readable.
_LONG = 24


@dataclass(slots=True)
class Values:
    """Writes out values, each once: `results` are what they are called afterwards.

    `at_hand` gives the text of what was made or loaded before, and None for what is to be computed;
    `loaded` that of a read, be it shared or not.
    """

    plan: LevelPlan
    scope: Scope
    at_hand: Callable[[Ref], str | None]
    loaded: Callable[[Ref], str]
    results: list[str] = field(default_factory=list[str])
    _uses: Counter[Ref] = field(default_factory=Counter[Ref])
    _known: dict[Ref, tuple[str, int]] = field(default_factory=dict[Ref, tuple[str, int]])
    _lines: list[str] = field(default_factory=list[str])

    def lines(self, refs: Sequence[Ref], own: Node | None = None) -> list[str]:
        """Return the statements that `results` need; `own` is computed and not looked up."""
        top = None if own is None else (own.term, 0)
        for ref in refs:
            self._count(ref, top)
        for ref in refs:
            self.results.append(self._value(ref, top)[0])
        return self._lines

    def last(self) -> str:
        """Return the last result."""
        return self.results[-1]

    def _count(self, ref: Ref, top: Ref | None) -> None:
        self._uses[ref] += 1
        if self._uses[ref] > 1 or self._is_at_hand(ref, top):
            return
        for operand in self._operands(ref):
            self._count(operand, top)

    def _is_at_hand(self, ref: Ref, top: Ref | None) -> bool:
        node = self.plan.terms[ref[0]].node
        if isinstance(node, nodes.Read | nodes.Number | nodes.Parameter):
            return True
        return ref != top and self.at_hand(ref) is not None

    def _operands(self, ref: Ref) -> list[Ref]:
        terms = self.plan.terms
        return [
            (number, 0 if terms[number].invariant else ref[1] + shift)
            for number, shift in terms[ref[0]].operands
        ]

    def _value(self, ref: Ref, top: Ref | None) -> tuple[str, int]:
        """Return the text of a value, and how many operators are in it."""
        if ref in self._known:
            return self._known[ref]
        node = self.plan.terms[ref[0]].node
        if isinstance(node, nodes.Number | nodes.Parameter):
            return expression_text(node, lambda read: read.name, self.scope.scalars.__getitem__), 0
        known = self._looked_up(ref, top)
        if known is not None:
            return known, 0
        parts = [self._value(operand, top) for operand in self._operands(ref)]
        size = 1 + sum(count for _, count in parts)
        text = self._value_text(node, [part for part, _ in parts], self._operands(ref))
        if self._uses[ref] > 1 or size > _LONG:
            name = f"v{len(self._lines)}"
            self._lines.append(f"const {TYPES[node.dtype]} {name} = {text};")
            text, size = name, 0
        self._known[ref] = text, size
        return text, size

    def _looked_up(self, ref: Ref, top: Ref | None) -> str | None:
        """Return where a value is, if it is anywhere; a node that is filled is a load at most."""
        if ref != top:
            return self.at_hand(ref)
        return self.loaded(ref) if isinstance(self.plan.terms[ref[0]].node, nodes.Read) else None

    def _value_text(self, node: nodes.Expr, parts: Sequence[str], operands: Sequence[Ref]) -> str:
        """Return a node with its operands as text; numbers stay what they are."""
        given: list[nodes.Expr] = []
        for text, (number, _) in zip(parts, operands, strict=True):
            own = self.plan.terms[number].node
            keep = isinstance(own, nodes.Number | nodes.Parameter)
            given.append(own if keep else nodes.Read(text, (0, 0, 0), own.dtype))
        return expression_text(
            headed(node, given), lambda read: read.name, self.scope.scalars.__getitem__
        )


def headed(node: nodes.Expr, operands: Sequence[nodes.Expr]) -> nodes.Expr:
    """Return a node with other operands."""
    match node:
        case nodes.Number() | nodes.Read() | nodes.Parameter():
            return node
        case nodes.Unary() | nodes.Cast():
            return replace(node, operand=operands[0])
        case nodes.Binary():
            return replace(node, left=operands[0], right=operands[1])
        case nodes.Call():
            return replace(node, arguments=tuple(operands))
        case nodes.Select():
            return replace(node, condition=operands[0], then=operands[1], otherwise=operands[2])
        case _:
            assert_never(node)
