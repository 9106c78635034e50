"""Terms become typed expressions: names are looked up, and offsets are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from halocline_engine.errors import NameRuleError, ProgramError, SyntaxRuleError, TypeRuleError
from halocline_engine.ir.lower.elements.components import (
    chosen,
    flat_index,
    no_component,
    no_product,
)
from halocline_engine.ir.lower.elements.levels import between, level_of, no_levels
from halocline_engine.ir.lower.elements.offsets import PLAIN, axis_of, read_offset, shown
from halocline_engine.ir.lower.elements.tables import (
    as_index,
    at_slot,
    check_components,
    combined,
    gathered,
    no_column,
    slots_of,
)
from halocline_engine.ir.lower.naming.elsewhere import hint_of_attribute
from halocline_engine.ir.lower.naming.names import Names, nearest
from halocline_engine.ir.lower.naming.scope import CONSTANTS, REDUCTIONS
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.lower.types import (
    apply,
    arithmetic,
    comparison,
    condition,
    convert,
    negation,
    number,
    select,
)
from halocline_engine.ir.lower.warnings import of_integers
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Binary,
    Bound,
    Expr,
    Interval,
    Number,
    Offset,
    Parameter,
    Read,
)
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Apply,
    At,
    Choice,
    Infix,
    Inside,
    Literal,
    Name,
    Pack,
    Prefix,
    Subscript,
    Term,
    Text,
)

__all__ = ["Terms", "Where"]

_SPACE = (Axis.I, Axis.J, Axis.K)

#: Work on a component that may be chosen, in that of a term of the text.
_COST = 8


@dataclass(frozen=True, slots=True)
class Where:
    """Place of a read or an assignment: an offset, and along K instead of it a level of the run."""

    offset: Offset
    level: Expr | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """Turns terms into expressions, for the statements of one interval.

    They are `guarded` where a condition chooses whether they count.
    """

    names: Names
    symbols: Symbols
    interval: Interval
    guarded: bool = False

    def expression(self, term: Term) -> Expr:
        """Return a term as a typed expression."""
        match term:
            case Literal(value, place, dtype):
                return number(value, DType(dtype) if dtype else self._literal(value), place)
            case Name():
                return self._name(term)
            case Subscript():
                return self._subscript(term)
            case Prefix(operator, operand, place):
                return negation(operator, self.expression(operand), place)
            case Infix(operator, left, right, place):
                return self._infix(operator, left, right, place)
            case Choice(mask, then, otherwise):
                branches = self.under_condition()
                first, second = branches.expression(then), branches.expression(otherwise)
                return select(self.expression(mask), first, second, mask.place)
            case Apply():
                return self._apply(term)
            case At(base, level, data, place):
                return self._element(base, self._absolute(level), data, place)
            case Inside(axis, low, high, place):
                name = self.symbols.position(Axis(axis), Interval(Bound(*low), Bound(*high)))
                return self._read(name, Where((0, 0, 0)), place)
            case Text(place=place):
                message = "A string is not a value of the language."
                raise fault(SyntaxRuleError, place, "strings", message, "Write a number.")
            case Pack(place=place):
                message = "A tuple is not an expression of the language."
                hint = "Write one constant offset for each axis, like 'q[1, 0, 0]'."
                raise fault(SyntaxRuleError, place, "expressions", message, hint)
            case _:
                assert_never(term)

    def under_condition(self) -> Terms:
        """Return the same for a branch."""
        return replace(self, guarded=True)

    def where(self, name: str, indices: Sequence[Term], place: Place) -> Where:
        """Return what the indices of a field or temporary mean: an offset, or a level of a run."""
        axes = self.axes(name)
        if len(indices) == len(axes) and axes and axes[-1] is Axis.K:
            index = indices[-1]
            if _is_variable(index) and axis_of(index) is None:
                i, j, _ = self._offset(name, (*indices[:-1], Literal(0, index.place)), place)
                level = level_of(self.expression(index), self.symbols, index.place, relative=True)
                return Where((i, j, ANY_LEVEL), level)
        return Where(self._offset(name, indices, place))

    def _offset(self, name: str, indices: Sequence[Term], place: Place) -> Offset:
        return read_offset(name, self.axes(name), indices, place, self.symbols.limits)

    def axes(self, name: str) -> tuple[Axis, ...]:
        """Return the axes of a field; a temporary has all three."""
        field = self.symbols.fields.get(name) or self.symbols.components.get(name)
        return field.axes if field else _SPACE

    def _literal(self, value: bool | int | float) -> DType:
        if isinstance(value, bool):
            return DType.BOOL
        return self.names.integer if isinstance(value, int) else self.names.floating

    def _name(self, term: Name) -> Expr:
        name, place = term.name, term.place
        scalar = self.symbols.scalars.get(name)
        if scalar is not None:
            return Parameter(name, scalar.dtype)
        if name in PLAIN:
            axis = PLAIN[name]
            if axis is Axis.K:
                return self._read(self.symbols.position(axis), Where((0, 0, 0)), place)
            message = f"The axis '{axis.value}' has no value: only offsets may name it."
            hint = "Pass a field with the index as its value."
            raise fault(SyntaxRuleError, place, "names", message, hint)
        if name in self.symbols.tables:
            raise no_column(self.symbols.tables[name], place)
        if name in CONSTANTS:
            message = f"'{name}' has no value here."
            raise fault(SyntaxRuleError, place, "expressions", message, "Write a number.")
        return self._element(term, Where((0, 0, 0)), (), place)

    def _element(self, base: Term, where: Where, data: Sequence[Term], place: Place) -> Expr:
        """Return the read of a field or temporary, and of one of its components."""
        if not isinstance(base, Name):
            message = "Only a field or a temporary can be read at a level, or by components."
            hint = "Assign the expression to a temporary before."
            raise fault(SyntaxRuleError, place, "levels", message, hint)
        name, symbols = base.name, self.symbols
        if name in symbols.scalars:
            message = f"'{name}' is a scalar, which has neither levels nor components."
            raise fault(SyntaxRuleError, place, "levels", message, f"Write '{name}'.")
        if name in symbols.lookups:
            return self._looked_up(name, data, place)
        whole = symbols.components.get(name)
        if whole is None:
            if data:
                message = f"'{shown(name)}' has no data dimensions."
                raise fault(SyntaxRuleError, place, "data-dimensions", message, "Remove the index.")
            return self._read(name, where, place)
        if not data:
            raise no_component(whole, place)
        indices = [self.expression(index) for index in data]
        number = flat_index(indices, name, whole.shape, place)
        if isinstance(number, int):
            return self._read(symbols.component(name, number), where, place)
        count = math.prod(whole.shape)
        symbols.spend("terms", _COST * count, place)
        parts = [self._read(symbols.component(name, n), where, place) for n in range(count)]
        return chosen(number, parts)

    def _looked_up(self, name: str, data: Sequence[Term], place: Place) -> Expr:
        """Return the read of an element of a `GlobalTable`."""
        shape = self.symbols.lookups[name].shape
        number = flat_index([self.expression(index) for index in data], name, shape, place)
        level = Number(DType.INT64, number) if isinstance(number, int) else number
        return self._read(name, Where((0, 0, ANY_LEVEL), level), place)

    def _absolute(self, term: Term) -> Where:
        """Return the level that `q.at(K=term)` means."""
        if isinstance(term, Name) and PLAIN.get(term.name) is Axis.K:
            message = "'at' counts levels from the first one, so 'at(K=K)' is the point itself."
            raise fault(SyntaxRuleError, term.place, "levels", message, "Write 'q'.")
        level = level_of(self.expression(term), self.symbols, term.place, relative=False)
        return Where((0, 0, ANY_LEVEL), level)

    def _read(self, name: str, where: Where, place: Place) -> Read:
        offset, level = where.offset, where.level
        if level is not None:
            if Axis.K not in self.axes(name):
                raise no_levels(shown(name), place)
            bounded = between(level, name, self.symbols)
            plain = self._read(name, Where((0, 0, 0)), place)
            return Read(name, offset, plain.dtype, bounded)
        field = self.symbols.fields.get(name)
        if field is not None:
            self.symbols.read.add(name)
            return Read(name, offset, field.dtype)
        dtype = self.symbols.temporaries.get(name)
        if dtype is not None and _is_outside(self.interval, offset[2]):
            if not self.guarded:
                raise _no_value(name, offset[2], place)
            # The condition says where there is such a level; elsewhere the nearest one is read.
            step = level_of(Number(DType.INT64, offset[2]), self.symbols, place, relative=True)
            return self._read(name, Where((offset[0], offset[1], ANY_LEVEL), step), place)
        if dtype is not None:
            return Read(name, offset, dtype)
        message = f"The temporary '{shown(name)}' is read before it is assigned."
        known = [*self.symbols.fields, *self.symbols.scalars, *self.symbols.temporaries]
        hint = nearest(name, known) or "Assign it first, or make it a parameter."
        raise fault(NameRuleError, place, "names", message, hint)

    def _subscript(self, term: Subscript) -> Expr:
        base, place = term.base, term.place
        if isinstance(base, Subscript) and isinstance(base.base, Name):
            name, lookups = base.base.name, self.symbols.lookups
            check_components(name, base, self.symbols)
            where = Where((0, 0, 0)) if name in lookups else self.where(name, base.indices, place)
            return self._element(base.base, where, term.indices, place)
        if not isinstance(base, Name) or base.name in (*PLAIN, *CONSTANTS):
            message = "Only a field or a temporary can be read at an offset."
            hint = "Assign the expression to a temporary before."
            raise fault(SyntaxRuleError, place, "offsets", message, hint)
        if base.name in self.symbols.scalars:
            message = f"'{base.name}' is a scalar, and only fields can be read at an offset."
            raise fault(SyntaxRuleError, place, "offsets", message, f"Write '{base.name}'.")
        index = as_index(term, self.symbols)
        if base.name in self.symbols.tables:
            assert index is not None
            return self._read(index, Where((0, 0, 0)), place)
        found = as_index(term.indices[0], self.symbols) if term.indices else None
        if found is not None:
            return gathered(self.symbols, base.name, found, term)
        where = self._known(base, term.indices, place)
        if self.symbols.shifted is None and where.offset[:2] != (0, 0):
            self.symbols.shifted = place
        return self._element(base, where, (), place)

    def _known(self, base: Name, indices: Sequence[Term], place: Place) -> Where:
        """Return what the indices of a name mean, that there is."""
        if base.name not in self.symbols.components:
            self._read(base.name, Where((0, 0, 0)), base.place)
        return self.where(base.name, indices, place)

    def _infix(self, operator: str, left: Term, right: Term, place: Place) -> Expr:
        first, second = self.expression(left), self.expression(right)
        if operator == "@":
            raise no_product(place)
        if operator in ("and", "or"):
            where = f"An operand of '{operator}'"
            checked = condition(first, left.place, where), condition(second, right.place, where)
            return Binary(operator, *checked, DType.BOOL)
        if operator in ("<", "<=", ">", ">=", "==", "!="):
            return comparison(operator, first, second, place)
        found = arithmetic(operator, first, second, place)
        self.symbols.warnings += of_integers("A quotient", (first, second), found, place)
        return found

    def _apply(self, term: Apply) -> Expr:
        if term.function in REDUCTIONS:
            return self._reduced(term)
        if term.function == ".T":
            message = "A field without data dimensions has no attribute 'T'."
            raise fault(SyntaxRuleError, term.place, "expressions", message, hint_of_attribute("T"))
        arguments = tuple(self.expression(argument) for argument in term.arguments)
        target = self.names.casts.get(term.function)
        if target is None:
            found, what = apply(term.function, arguments, term.place), f"'{term.function}'"
            self.symbols.warnings += of_integers(what, arguments, found, term.place)
            return found
        if len(arguments) != 1:
            message = f"'{term.function}' takes 1 argument, but got {len(arguments)}."
            raise fault(TypeRuleError, term.place, "calls", message, f"Write '{term.function}(a)'.")
        kinds = {"int": self.names.integer, "float": self.names.floating}
        return convert(arguments[0], kinds.get(target) or DType(target), term.place)

    def _reduced(self, term: Apply) -> Expr:
        """Return a sum, or an extreme, over the columns of tables."""
        (slots, indices), symbols = slots_of(term, self.symbols), self.symbols
        values, columns = list[Expr](), list[list[Read]]()
        for slot in range(slots):
            numbers = [symbols.tables[name].columns[slot] for name in indices]
            columns.append([self._read(each, Where((0, 0, 0)), term.place) for each in numbers])
            values.append(self.expression(at_slot(term.arguments[0], slot, symbols)))
        return combined(term, values, columns)


def _is_variable(term: Term) -> bool:
    """Say whether a term holds a field, temporary or scalar."""
    match term:
        case Name(name):
            return name not in (*PLAIN, *CONSTANTS)
        case Prefix(_, operand):
            return _is_variable(operand)
        case Infix(_, left, right):
            return _is_variable(left) or _is_variable(right)
        case Choice(mask, then, otherwise):
            return any(_is_variable(part) for part in (mask, then, otherwise))
        case Apply(_, arguments):
            return any(_is_variable(argument) for argument in arguments)
        case Subscript():
            return True
        case _:
            return False


def _is_outside(interval: Interval, shift: int) -> bool:
    """Whether a read leaves the levels of every domain: they are a temporary's."""
    start, end = interval.start, interval.end
    low = not start.from_end and start.offset + shift < 0
    return low or (end.from_end and end.offset + shift > 0)


def _no_value(name: str, shift: int, place: Place) -> ProgramError:
    side = "below the first" if shift < 0 else "above the last"
    message = f"The temporary '{shown(name)}' is read {side} level, where it has no value."
    hint = "Make the interval smaller, or make it a field."
    return fault(SyntaxRuleError, place, "temporaries", message, hint)
