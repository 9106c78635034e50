"""Statements of one interval: targets are checked, temporaries get their types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from halocline_engine.errors import InternalError, SyntaxRuleError, TypeRuleError
from halocline_engine.ir.lower.annotations import FieldType, TableType, read_type
from halocline_engine.ir.lower.terms import Terms
from halocline_engine.ir.lower.types import condition, convert
from halocline_engine.ir.nodes import Assign, If, Location, Statement
from halocline_engine.ir.types import Axis, Order
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Branch,
    Demand,
    Name,
    Region,
    Step,
    Store,
    Subscript,
    Term,
)
from halocline_engine.language.terms import not_yet

__all__ = ["Body"]

_ALL = (Axis.I, Axis.J, Axis.K)
_FLAT = (Axis.I, Axis.J)


@dataclass(frozen=True, slots=True)
class Body:
    """Lowers the inlined statements of one interval."""

    terms: Terms
    order: Order

    def statements(self, steps: Iterable[Step]) -> tuple[Statement, ...]:
        """Return the statements in order."""
        return tuple(self._statement(step) for step in steps)

    def _statement(self, step: Step) -> Statement:
        match step:
            case Store():
                return self._store(step)
            case Branch(mask, then, otherwise, place):
                checked = condition(self.terms.expression(mask), mask.place, "A condition")
                bodies = self.statements(then), self.statements(otherwise)
                return If(checked, *bodies, _location(place))
            case Demand() | Region():
                raise InternalError("A compile-time assertion or a region was left after inlining.")
            case _:
                assert_never(step)

    def _store(self, step: Store) -> Assign:
        target = step.targets[0]
        name = self._target(target)
        value = self.terms.expression(step.values[0])
        symbols = self.terms.symbols
        if step.annotation is not None:
            self._declare(name, step.annotation, target.place)
        field = symbols.fields.get(name)
        if step.annotation is not None:
            self._check_axes(name, target.place)
        elif field is None and name not in symbols.temporaries:
            symbols.temporaries[name] = value.dtype
        if field is not None:
            symbols.written.add(name)
        dtype = field.dtype if field else symbols.temporaries[name]
        return Assign(name, convert(value, dtype, step.values[0].place), _location(step.place))

    def _declare(self, name: str, annotation: Term, place: Place) -> None:
        """Make a temporary of a type; it may be declared again with the same one."""
        symbols = self.terms.symbols
        if name in symbols.fields and name not in symbols.scratch:
            message = f"'{name}' is a parameter, so its type cannot be declared here."
            hint = "Declare the type of a temporary at its first assignment."
            raise fault(TypeRuleError, place, "temporaries", message, hint)
        kind = read_type(annotation, self.terms.names, temporary=True)
        if isinstance(kind, TableType):
            message = f"'{name}' is a temporary, and only a parameter can be a table."
            hint = "Make it a parameter of the stencil."
            raise fault(TypeRuleError, annotation.place, "tables", message, hint)
        kind = kind if isinstance(kind, FieldType) else FieldType(kind, _ALL)
        if kind.axes not in (_ALL, _FLAT):
            message = f"A temporary has all axes, or I and J, but '{name}' has other ones."
            hint = "Make it a parameter of the stencil, or use a temporary with all axes."
            raise fault(TypeRuleError, annotation.place, "temporaries", message, hint)
        dtype = symbols.temporaries.get(name)
        known = symbols.fields.get(name) if dtype is None else FieldType(dtype, _ALL)
        if known is not None and known != kind:
            message = f"'{name}' is {_kind(known)} already, and cannot be {_kind(kind)} here."
            hint = "Declare the type of a temporary at its first assignment."
            raise fault(TypeRuleError, place, "temporaries", message, hint)
        if kind.axes == _ALL:
            symbols.temporaries[name] = kind.dtype
        else:
            symbols.fields[name] = kind
            symbols.scratch.add(name)

    def _target(self, target: Term) -> str:
        """Return what is assigned to, after checking that it may be."""
        base = target.base if isinstance(target, Subscript) else target
        if isinstance(base, Subscript):
            hint = "Pass each component as a field of its own."
            raise not_yet(target.place, "data dimensions 'q[0, 0, 0][n]'", hint)
        if not isinstance(base, Name):
            message = "Only a field or a temporary can be assigned to."
            hint = "Write the name of one before the '='."
            raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
        name, symbols = base.name, self.terms.symbols
        if name in symbols.scalars:
            message = f"'{name}' is a scalar parameter and cannot be assigned to."
            hint = "Use a temporary with another name."
            raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
        if name in symbols.tables:
            message = f"'{name}' is a table and cannot be assigned to."
            hint = "Use a temporary with another name."
            raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
        if isinstance(target, Subscript):
            self._check_offset(name, target)
        self._check_axes(name, target.place)
        return name

    def _check_offset(self, name: str, target: Subscript) -> None:
        i, j, k = self.terms.offset(name, target.indices, target.place)
        if i or j:
            message = (
                f"'{name}' is assigned at a horizontal offset, but only the point itself can be."
            )
            hint = "Move the offset to what is read."
            raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
        if k and self.order is Order.PARALLEL:
            message = f"'{name}' is assigned at a vertical offset in a PARALLEL computation."
            hint = "Move the offset to what is read."
            raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
        if k:
            hint = "Assign at the point, and read at the opposite offset on the next level."
            raise not_yet(target.place, "assignments at a vertical offset", hint)

    def _check_axes(self, name: str, place: Place) -> None:
        axes = self.terms.axes(name)
        if axes == _ALL:
            return
        letters = ", ".join(axis.value for axis in axes)
        if axes != (Axis.I, Axis.J):
            message = f"The field '{name}' has only the axes {letters} and cannot be assigned to."
            hint = "Assign to a field with the axes I, J, K or I, J."
            raise fault(SyntaxRuleError, place, "assignments", message, hint)
        if self.order is Order.PARALLEL:
            message = (
                f"The field '{name}' has only the axes {letters} and cannot be assigned to in a "
                "PARALLEL computation: every level would write the same place."
            )
            hint = "Write 'computation(FORWARD)' or 'computation(BACKWARD)'."
            raise fault(SyntaxRuleError, place, "assignments", message, hint)


def _kind(kind: FieldType) -> str:
    """Return a type as a message names it."""
    return kind.dtype.value if kind.axes == _ALL else f"Field[IJ, {kind.dtype.value}]"


def _location(place: Place) -> Location:
    return Location(place.line, place.column)
