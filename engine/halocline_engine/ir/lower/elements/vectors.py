"""Statements on whole arrays with data dimensions, which are one for each component.

`out = 2.0 * v + w` is an assignment of each component of `out`, in C order; `m @ v` is a sum of
products, and `m.T` exchanges two data dimensions. What has no data dimensions is the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from halocline_engine.errors import SyntaxRuleError
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.nodes import Components
from halocline_engine.language import syntax
from halocline_engine.language.source import Place, fault

__all__ = ["component_terms"]

_Index: TypeAlias = tuple[int, ...]

#: Work on a term that is written out for a component, in that of a term of the text.
_COST = 10


def component_terms(
    whole: Components, value: syntax.Term, symbols: Symbols
) -> Iterator[syntax.Term]:
    """Yield what is assigned to each component of an array, in C order."""
    found = _shape(value, symbols)
    if found not in ((), whole.shape):
        message = f"'{whole.name}' has the data dimensions {whole.shape}, but this has {found}."
        raise _unequal(message, value.place)
    count = math.prod(whole.shape)
    symbols.spend("terms", _COST * count * _size(value, symbols), value.place)
    for number in range(count):
        index = tuple(map(int, np.unravel_index(number, whole.shape)))
        yield _at(value, index, symbols)


def _shape(term: syntax.Term, symbols: Symbols) -> _Index:
    """Return the data dimensions of a term, () where it has none."""
    match term:
        case syntax.Name(name) | syntax.Subscript(syntax.Name(name)):
            whole = symbols.components.get(name)
            return () if whole is None else whole.shape
        case syntax.Apply(".T", (inner,)):
            return _shape(inner, symbols)[::-1]
        case syntax.Infix("@", left, right, place):
            one, two = _shape(left, symbols), _shape(right, symbols)
            if not one or not two or one[-1] != two[0]:
                message = f"'@' cannot multiply what has the data dimensions {one} and {two}."
                raise _unequal(message, place)
            return (*one[:-1], *two[1:])
        case syntax.Prefix(_, operand):
            return _shape(operand, symbols)
        case syntax.Infix(_, left, right, place):
            return _common((left, right), symbols, place)
        case syntax.Choice(condition, then, otherwise, place):
            return _common((condition, then, otherwise), symbols, place)
        case syntax.Apply(_, arguments, _, place):
            return _common(arguments, symbols, place)
        case _:
            return ()


def _common(parts: tuple[syntax.Term, ...], symbols: Symbols, place: Place) -> _Index:
    shapes = dict.fromkeys(shape for part in parts if (shape := _shape(part, symbols)))
    if len(shapes) > 1:
        one, two = [*shapes][:2]
        message = f"The operands have different data dimensions: {one} and {two}."
        raise _unequal(message, place)
    return next(iter(shapes), ())


def _size(term: syntax.Term, symbols: Symbols) -> int:
    """Return how many terms one component of a term has."""
    match term:
        case syntax.Infix("@", left, right):
            depth = _shape(right, symbols)[0]
            return depth * (_size(left, symbols) + _size(right, symbols) + 2)
        case syntax.Prefix(_, operand) | syntax.Apply(".T", (operand,)):
            return 1 + _size(operand, symbols)
        case syntax.Infix(_, left, right):
            return 1 + _size(left, symbols) + _size(right, symbols)
        case syntax.Choice(condition, then, otherwise):
            return 1 + sum(_size(part, symbols) for part in (condition, then, otherwise))
        case syntax.Apply(_, arguments):
            return 1 + sum(_size(part, symbols) for part in arguments)
        case _:
            return 1


def _at(term: syntax.Term, index: _Index, symbols: Symbols) -> syntax.Term:
    """Return a term for one component of all arrays in it."""

    def inner(part: syntax.Term) -> syntax.Term:
        return _at(part, index, symbols)

    match term:
        case syntax.Name(name, place) if name in symbols.components:
            return _element(syntax.Subscript(term, (), place), index)
        case syntax.Subscript(syntax.Name(name)) if name in symbols.components:
            return _element(term, index)
        case syntax.Apply(".T", (operand,)):
            return _at(operand, index[::-1], symbols)
        case syntax.Infix("@", left, right, place):
            depth, rank = _shape(right, symbols)[0], len(_shape(left, symbols)) - 1
            products = [
                syntax.Infix(
                    "*",
                    _at(left, (*index[:rank], k), symbols),
                    _at(right, (k, *index[rank:]), symbols),
                    place,
                )
                for k in range(depth)
            ]
            total: syntax.Term = products[0]
            for product in products[1:]:
                total = syntax.Infix("+", total, product, place)
            return total
        case syntax.Prefix() | syntax.Infix() | syntax.Choice() | syntax.Apply():
            return syntax.with_operands(term, inner)
        case _:
            return term


def _element(base: syntax.Subscript, index: _Index) -> syntax.Subscript:
    return syntax.Subscript(
        base, tuple(syntax.Literal(n, base.place, "int64") for n in index), base.place
    )


def _unequal(message: str, place: Place) -> SyntaxRuleError:
    hint = "Choose components with 'q.A[n]', or give both the same data dimensions."
    return fault(SyntaxRuleError, place, "data-dimensions", message, hint)
