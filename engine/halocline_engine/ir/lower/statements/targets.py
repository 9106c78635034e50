"""Targets of assignments: a name, a place and a component, and whether they are allowed."""

from __future__ import annotations

from halocline_engine.errors import SyntaxRuleError
from halocline_engine.ir.lower.elements.levels import level_of
from halocline_engine.ir.lower.terms import Terms, Where
from halocline_engine.ir.nodes import ANY_LEVEL, Number
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import Name, Subscript, Term

__all__ = ["check_axes", "read_target"]

_ALL = (Axis.I, Axis.J, Axis.K)


def read_target(target: Term, terms: Terms, order: Order) -> tuple[str, Where, tuple[Term, ...]]:
    """Return what is assigned to, after checking that it may be."""
    data: tuple[Term, ...] = ()
    if isinstance(target, Subscript) and isinstance(target.base, Subscript):
        data, target = target.indices, target.base
    base = target.base if isinstance(target, Subscript) else target
    if not isinstance(base, Name):
        message = "Only a field or a temporary can be assigned to."
        hint = "Write the name of one before the '='."
        raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
    name, symbols = base.name, terms.symbols
    if name in symbols.scalars:
        message = f"'{name}' is a scalar parameter and cannot be assigned to."
        hint = "Use a temporary with another name."
        raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
    if name in symbols.tables:
        message = f"'{name}' is a table and cannot be assigned to."
        hint = "Use a temporary with another name."
        raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
    if name in symbols.lookups:
        message = f"'{name}' is a 'GlobalTable' and cannot be assigned to."
        hint = "Use a temporary with another name."
        raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
    where = Where((0, 0, 0))
    if isinstance(target, Subscript):
        where = _offset(name, target, terms)
    _check_order(name, where, target.place, order)
    check_axes(name, target.place, terms, order)
    return name, where, data


def _offset(name: str, target: Subscript, terms: Terms) -> Where:
    """Return where a target is assigned: at the point, or at a level of its column."""
    where = terms.where(name, target.indices, target.place)
    i, j, k = where.offset
    if i or j:
        message = f"'{name}' is assigned at a horizontal offset, but only the point itself can be."
        hint = "Move the offset to what is read."
        raise fault(SyntaxRuleError, target.place, "assignments", message, hint)
    if not k or where.level is not None:
        return where
    symbols, place = terms.symbols, target.place
    level = level_of(Number(DType.INT64, k), symbols, place, relative=True)
    return Where((0, 0, ANY_LEVEL), level)


def _check_order(name: str, where: Where, place: Place, order: Order) -> None:
    if where.level is not None and order is Order.PARALLEL:
        message = f"'{name}' is assigned at a vertical offset in a PARALLEL computation."
        hint = "Write 'computation(FORWARD)' or 'computation(BACKWARD)'."
        raise fault(SyntaxRuleError, place, "assignments", message, hint)


def check_axes(name: str, place: Place, terms: Terms, order: Order) -> None:
    """Refuse a target that lacks an axis, where every point of it would write the same place."""
    axes = terms.axes(name)
    if axes == _ALL:
        return
    letters = ", ".join(axis.value for axis in axes)
    if axes != (Axis.I, Axis.J):
        message = f"The field '{name}' has only the axes {letters} and cannot be assigned to."
        hint = "Assign to a field with the axes I, J, K or I, J."
        raise fault(SyntaxRuleError, place, "assignments", message, hint)
    if order is Order.PARALLEL:
        message = (
            f"The field '{name}' has only the axes {letters} and cannot be assigned to in a "
            "PARALLEL computation: every level would write the same place."
        )
        hint = "Write 'computation(FORWARD)' or 'computation(BACKWARD)'."
        raise fault(SyntaxRuleError, place, "assignments", message, hint)
