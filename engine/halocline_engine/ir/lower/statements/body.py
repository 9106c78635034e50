"""Statements of one interval: targets are checked, temporaries get their types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from halocline_engine.errors import InternalError, SyntaxRuleError
from halocline_engine.ir.lower.elements.components import flat_index, stored
from halocline_engine.ir.lower.elements.levels import between, lies_between
from halocline_engine.ir.lower.elements.vectors import component_terms
from halocline_engine.ir.lower.statements.declarations import declare
from halocline_engine.ir.lower.statements.targets import check_axes, read_target
from halocline_engine.ir.lower.terms import Terms, Where
from halocline_engine.ir.lower.types import condition, convert
from halocline_engine.ir.lower.warnings import of_truncation
from halocline_engine.ir.nodes import (
    Assign,
    Components,
    Expr,
    If,
    Location,
    Number,
    Parameter,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Order
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Branch,
    Demand,
    Loop,
    Region,
    Step,
    Store,
    Term,
)

__all__ = ["Body"]

_NO_INDEX = "Remove the index."


@dataclass(frozen=True, slots=True)
class Body:
    """Lowers the inlined statements of one interval."""

    terms: Terms
    order: Order

    def statements(self, steps: Iterable[Step]) -> tuple[Statement, ...]:
        """Return the statements in order."""
        return tuple(one for step in steps for one in self._statement(step))

    def _statement(self, step: Step) -> tuple[Statement, ...]:
        match step:
            case Store():
                return self._store(step)
            case Loop(repeated, inner, place):
                test = self.terms.expression(repeated)
                checked = condition(test, repeated.place, "A condition")
                return (While(checked, self.statements(inner), _location(place)),)
            case Branch(mask, then, otherwise, place):
                checked = condition(self.terms.expression(mask), mask.place, "A condition")
                inner = Body(self.terms.under_condition(), self.order)
                bodies = inner.statements(then), inner.statements(otherwise)
                return (If(checked, *bodies, _location(place)),)
            case Demand() | Region():
                raise InternalError("A compile-time assertion or a region was left after inlining.")
            case _:
                assert_never(step)

    def _store(self, step: Store) -> tuple[Statement, ...]:
        target, symbols = step.targets[0], self.terms.symbols
        place, of = _location(step.place), step.values[0].place
        name, where, data = read_target(target, self.terms, self.order)
        if step.annotation is not None:
            value = self.terms.expression(step.values[0])
            declare(name, step.annotation, target.place, self.terms)
            check_axes(name, target.place, self.terms, self.order)
        whole = symbols.components.get(name)
        if whole is not None:
            return self._store_component(step, whole, where, data)
        if data:
            message = f"'{name}' has no data dimensions."
            raise fault(SyntaxRuleError, target.place, "data-dimensions", message, _NO_INDEX)
        value = self.terms.expression(step.values[0])
        if name not in symbols.fields and name not in symbols.temporaries:
            symbols.temporaries[name] = value.dtype
            symbols.untyped[name] = target.place
        return self._assign(name, where, value, place, of)

    def _store_component(
        self, step: Store, whole: Components, where: Where, data: Sequence[Term]
    ) -> tuple[Statement, ...]:
        """Return the assignments of components: the one that an index names, or all of them."""
        place, of = _location(step.place), step.values[0].place
        count = math.prod(whole.shape)
        if not data:
            self.terms.symbols.spend("statements", count, step.place)
            symbols, found = self.terms.symbols, list[Statement]()
            for number, term in enumerate(component_terms(whole, step.values[0], symbols)):
                part, value = symbols.component(whole.name, number), self.terms.expression(term)
                found += self._assign(part, where, value, place, of)
            return tuple(found)
        indices = [self.terms.expression(index) for index in data]
        number = flat_index(indices, whole.name, whole.shape, step.targets[0].place)
        if not isinstance(number, int):
            self.terms.symbols.spend("statements", count, step.place)
        value = self.terms.expression(step.values[0])

        def store(number: int) -> tuple[Statement, ...]:
            part = self.terms.symbols.component(whole.name, number)
            return self._assign(part, where, value, place, of)

        if isinstance(number, int):
            return store(number)
        held, value = self._held(value, place)
        return (*held, stored(number, count, store, place))

    def _held(self, value: Expr, place: Location) -> tuple[tuple[Statement, ...], Expr]:
        """Return a value for each of many branches, and what computes it once before them.

        A value that chooses components itself would grow with the square of their number.
        """
        if isinstance(value, Number | Parameter) or (isinstance(value, Read) and not value.level):
            return (), value
        temporaries = self.terms.symbols.temporaries
        name = f".held.{len(temporaries)}"
        temporaries[name] = value.dtype
        return (Assign(name, value, place),), Read(name, (0, 0, 0), value.dtype)

    def _assign(
        self, name: str, where: Where, value: Expr, place: Location, of: Place
    ) -> tuple[Statement, ...]:
        """Return the assignment of a value; at a level of the run, where the array has it."""
        symbols = self.terms.symbols
        field = symbols.fields.get(name)
        if field is not None:
            symbols.written.add(name)
        dtype = field.dtype if field else symbols.temporaries[name]
        symbols.warnings += of_truncation(
            name, dtype, value, symbols.untyped, of, is_field=field is not None
        )
        converted = convert(value, dtype, of)
        if where.level is None:
            return (Assign(name, converted, place),)
        bounded = between(where.level, name, symbols)
        there = lies_between(where.level, name, symbols)
        return (If(there, (Assign(name, converted, place, bounded),), (), place),)


def _location(place: Place) -> Location:
    return Location(place.line, place.column)
