"""Expressions of several sections merged into one, with selects where they differ.

Sections differ in little: a flux of zero stands for one that is computed. Threads of one warp that
take different branches wait for each other, so they choose operands, and what all do with them,
a division above all, stands once behind the choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cuda.kernels.levels.values import headed
from halocline_engine.backends.cuda.text.expressions import expression_text
from halocline_engine.ir.nodes import Expr, Number, Parameter, Read
from halocline_engine.schedule.levels.exchange import LevelPlan
from halocline_engine.schedule.levels.terms import Ref, same_head

__all__ = ["Common", "Head", "Select", "Tree", "commons", "merged", "select_text", "selects"]


@dataclass(frozen=True, slots=True)
class Common:
    """A value that is the same in all sections."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Select:
    """A value for each section."""

    refs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """An operator that all sections have there."""

    node: Expr
    parts: tuple[Tree, ...]


Tree: TypeAlias = Common | Select | Head


def merged(plan: LevelPlan, refs: Sequence[Ref]) -> Tree:
    """Return values of several sections, as far as they are the same operators."""
    if all(ref == refs[0] for ref in refs):
        return Common(refs[0])
    terms = [plan.terms[number] for number, _ in refs]
    looked_up = any(plan.node_of(ref) is not None for ref in refs)
    if looked_up or not terms[0].operands or not all(same_head(terms[0], t) for t in terms):
        return Select(tuple(refs))
    operands = [
        [(n, 0 if plan.terms[n].invariant else shift + at) for n, at in term.operands]
        for term, (_, shift) in zip(terms, refs, strict=True)
    ]
    places: list[tuple[Ref, ...]] = list(zip(*operands, strict=True))
    # Conversions and comparisons of other types have the same operator.
    if any(len({plan.terms[number].node.dtype for number, _ in each}) > 1 for each in places):
        return Select(tuple(refs))
    return Head(terms[0].node, tuple(merged(plan, each) for each in places))


def selects(tree: Tree) -> Iterator[Select]:
    """Yield the choices of a tree, from left to right."""
    if isinstance(tree, Select):
        yield tree
    elif isinstance(tree, Head):
        for part in tree.parts:
            yield from selects(part)


def commons(tree: Tree) -> Iterator[Ref]:
    """Yield what a tree has that is the same everywhere."""
    if isinstance(tree, Common):
        yield tree.ref
    elif isinstance(tree, Head):
        for part in tree.parts:
            yield from commons(part)


def select_text(
    tree: Tree, plan: LevelPlan, known: dict[Select | Ref, str], scalars: dict[str, str]
) -> str:
    """Return a tree as text; `known` gives what choices and common values are called."""

    def part(tree: Tree) -> Expr:
        if isinstance(tree, Common):
            node = plan.terms[tree.ref[0]].node
            return node if isinstance(node, Number | Parameter) else _named(node, known[tree.ref])
        if isinstance(tree, Select):
            return _named(plan.terms[tree.refs[0][0]].node, known[tree])
        return headed(tree.node, [part(each) for each in tree.parts])

    return expression_text(part(tree), lambda read: read.name, scalars.__getitem__)


def _named(node: Expr, text: str) -> Read:
    return Read(text, (0, 0, 0), node.dtype)
