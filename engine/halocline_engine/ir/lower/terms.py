"""Terms become typed expressions: names are looked up, and offsets are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from halocline_engine.errors import LimitError, NameRuleError, SyntaxRuleError, TypeRuleError
from halocline_engine.ir.lower.naming.fold import CASTS
from halocline_engine.ir.lower.naming.names import Names, nearest
from halocline_engine.ir.lower.naming.scope import AXES, CONSTANTS, REDUCTIONS
from halocline_engine.ir.lower.symbols import Symbols
from halocline_engine.ir.lower.tables import (
    as_index,
    at_slot,
    combined,
    gathered,
    no_column,
    slots_of,
)
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
from halocline_engine.ir.nodes import Binary, Bound, Expr, Interval, Offset, Parameter, Read
from halocline_engine.ir.types import Axis, DType
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import (
    Apply,
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
from halocline_engine.language.terms import not_yet

__all__ = ["Terms"]

_SPACE = (Axis.I, Axis.J, Axis.K)
_PLAIN = {spelled: Axis(axis) for axis, spelled in AXES.items()}
_DATA = "Pass each component as a field of its own."


@dataclass(frozen=True, slots=True)
class Terms:
    """Turns terms into expressions, for the statements of one interval."""

    names: Names
    symbols: Symbols
    interval: Interval

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
                first, second = self.expression(then), self.expression(otherwise)
                return select(self.expression(mask), first, second, mask.place)
            case Apply():
                return self._apply(term)
            case Inside(axis, low, high, place):
                name = self.symbols.position(Axis(axis), Interval(Bound(*low), Bound(*high)))
                return self._read(name, (0, 0, 0), place)
            case Text(place=place):
                message = "A string is not a value of the language."
                raise fault(SyntaxRuleError, place, "strings", message, "Write a number.")
            case Pack(place=place):
                message = "A tuple is not an expression of the language."
                hint = "Write one constant offset for each axis, like 'q[1, 0, 0]'."
                raise fault(SyntaxRuleError, place, "expressions", message, hint)
            case _:
                assert_never(term)

    def offset(self, name: str, indices: Sequence[Term], place: Place) -> Offset:
        """Return the offset that the indices of a field or temporary mean."""
        axes = self.axes(name)
        if not indices:
            return (0, 0, 0)
        if any(_axis_of(index) for index in indices):
            shifts = self._named_shifts(name, indices)
        elif len(indices) == len(axes):
            shifts = {a: self._shift(t, a) for a, t in zip(axes, indices, strict=True)}
        else:
            letters = ", ".join(axis.value for axis in axes)
            message = (
                f"'{_shown(name)}' has the axes {letters} and needs {len(axes)} offsets, but got "
                f"{len(indices)}."
            )
            hint = (
                f"Write '{_shown(name)}[{', '.join('0' for _ in axes)}]' with an offset for each."
            )
            raise fault(SyntaxRuleError, place, "offsets", message, hint)
        return shifts.get(Axis.I, 0), shifts.get(Axis.J, 0), shifts.get(Axis.K, 0)

    def axes(self, name: str) -> tuple[Axis, ...]:
        """Return the axes of a field; a temporary has all three."""
        field = self.symbols.fields.get(name)
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
        if name in _PLAIN:
            axis = _PLAIN[name]
            if axis is Axis.K:
                return self._read(self.symbols.position(axis), (0, 0, 0), place)
            message = f"The axis '{axis.value}' has no value: only offsets may name it."
            hint = "Pass a field with the index as its value."
            raise fault(SyntaxRuleError, place, "names", message, hint)
        if name in self.symbols.tables:
            raise no_column(self.symbols.tables[name], place)
        if name in CONSTANTS:
            message = f"'{name}' has no value here."
            raise fault(SyntaxRuleError, place, "expressions", message, "Write a number.")
        return self._read(name, (0, 0, 0), place)

    def _read(self, name: str, offset: Offset, place: Place) -> Read:
        field = self.symbols.fields.get(name)
        if field is not None:
            self.symbols.read.add(name)
            return Read(name, offset, field.dtype)
        dtype = self.symbols.temporaries.get(name)
        if dtype is not None:
            self._check_levels(name, offset[2], place)
            return Read(name, offset, dtype)
        message = f"The temporary '{_shown(name)}' is read before it is assigned."
        known = [*self.symbols.fields, *self.symbols.scalars, *self.symbols.temporaries]
        hint = nearest(name, known) or "Assign it first, or make it a parameter."
        raise fault(NameRuleError, place, "names", message, hint)

    def _check_levels(self, name: str, shift: int, place: Place) -> None:
        """Refuse a read that is outside of the levels of every domain: they are a temporary's."""
        start, end = self.interval.start, self.interval.end
        low = not start.from_end and start.offset + shift < 0
        high = end.from_end and end.offset + shift > 0
        if low or high:
            side = "below the first" if low else "above the last"
            message = f"The temporary '{_shown(name)}' is read {side} level, where it has no value."
            hint = "Make the interval smaller, or make it a field."
            raise fault(SyntaxRuleError, place, "temporaries", message, hint)

    def _subscript(self, term: Subscript) -> Expr:
        base, place = term.base, term.place
        if isinstance(base, Subscript):
            raise not_yet(place, "data dimensions 'q[0, 0, 0][n]'", _DATA)
        if not isinstance(base, Name) or base.name in (*_PLAIN, *CONSTANTS):
            message = "Only a field or a temporary can be read at an offset."
            hint = "Assign the expression to a temporary before."
            raise fault(SyntaxRuleError, place, "offsets", message, hint)
        if base.name in self.symbols.scalars:
            message = f"'{base.name}' is a scalar, and only fields can be read at an offset."
            raise fault(SyntaxRuleError, place, "offsets", message, f"Write '{base.name}'.")
        index = as_index(term, self.symbols)
        if base.name in self.symbols.tables:
            assert index is not None
            return self._read(index, (0, 0, 0), place)
        found = as_index(term.indices[0], self.symbols) if term.indices else None
        if found is not None:
            return gathered(self.symbols, base.name, found, term)
        self._read(base.name, (0, 0, 0), base.place)
        offset = self.offset(base.name, term.indices, place)
        if self.symbols.shifted is None and offset[:2] != (0, 0):
            self.symbols.shifted = place
        return self._read(base.name, offset, place)

    def _named_shifts(self, name: str, indices: Sequence[Term]) -> dict[Axis, int]:
        """Read `q[I + 1, K - 1]`: axes in order, those left out are 0."""
        shifts: dict[Axis, int] = {}
        for index in indices:
            axis = _axis_of(index)
            if axis is None:
                message = "An offset names its axis, as the others of this read do."
                hint = "Write 'q[I + 1, K - 1]' or 'q[1, 0, -1]'."
                raise fault(SyntaxRuleError, index.place, "offsets", message, hint)
            if axis not in self.axes(name):
                letters = ", ".join(each.value for each in self.axes(name))
                message = f"'{_shown(name)}' has no axis {axis.value}."
                hint = f"Its axes are {letters}."
                raise fault(SyntaxRuleError, index.place, "offsets", message, hint)
            if any(_SPACE.index(other) >= _SPACE.index(axis) for other in shifts):
                message = "The axes of an offset must be in the order I, J, K."
                hint = "Write 'q[I + 1, J, K - 1]'."
                raise fault(SyntaxRuleError, index.place, "offsets", message, hint)
            shifts[axis] = self._axis_shift(index, axis)
        return shifts

    def _axis_shift(self, index: Term, axis: Axis) -> int:
        if not isinstance(index, Infix):
            return 0
        shift = self._shift(index.right, axis)
        return shift if index.operator == "+" else -shift

    def _shift(self, term: Term, axis: Axis) -> int:
        """Return a constant offset: an integer, with a sign or not."""
        match term:
            case Literal(bool()):
                pass
            case Literal(int() as value, place):
                return _bounded(value, self.symbols.limits.halo, place)
            case Prefix("-", Literal(int() as value), place) if not isinstance(value, bool):
                return _bounded(-value, self.symbols.limits.halo, place)
            case Prefix("+", Literal(int() as value), place) if not isinstance(value, bool):
                return _bounded(value, self.symbols.limits.halo, place)
            case _:
                pass
        if axis is Axis.K and _is_variable(term):
            dtype = self.expression(term).dtype
            if not dtype.is_integer:
                message = f"A vertical offset must be an integer, but this is {dtype.value}."
                hint = "Use a constant integer, like 'q[0, 0, -1]'."
                raise fault(TypeRuleError, term.place, "offsets", message, hint)
            hint = "Use constant offsets, with 'if' to choose between them."
            raise not_yet(term.place, "vertical offsets at run time 'q[0, 0, n]'", hint)
        message = "An offset must be one constant integer."
        hint = "Write the number itself, like 'q[2, 0, 0]', or an external."
        raise fault(SyntaxRuleError, term.place, "offsets", message, hint)

    def _infix(self, operator: str, left: Term, right: Term, place: Place) -> Expr:
        first, second = self.expression(left), self.expression(right)
        if operator in ("and", "or"):
            where = f"An operand of '{operator}'"
            checked = condition(first, left.place, where), condition(second, right.place, where)
            return Binary(operator, *checked, DType.BOOL)
        if operator in ("<", "<=", ">", ">=", "==", "!="):
            return comparison(operator, first, second, place)
        return arithmetic(operator, first, second, place)

    def _apply(self, term: Apply) -> Expr:
        if term.function in REDUCTIONS:
            slots, indices = slots_of(term, self.symbols)
            columns = [
                [
                    self._read(self.symbols.tables[name].columns[slot], (0, 0, 0), term.place)
                    for name in indices
                ]
                for slot in range(slots)
            ]
            values = [
                self.expression(at_slot(term.arguments[0], slot, self.symbols))
                for slot in range(slots)
            ]
            return combined(term, values, columns)
        arguments = tuple(self.expression(argument) for argument in term.arguments)
        if term.function not in CASTS:
            return apply(term.function, arguments, term.place)
        if len(arguments) != 1:
            message = f"'{term.function}' takes 1 argument, but got {len(arguments)}."
            raise fault(TypeRuleError, term.place, "calls", message, f"Write '{term.function}(a)'.")
        target = CASTS[term.function]
        kinds = {"int": self.names.integer, "float": self.names.floating}
        return convert(arguments[0], kinds.get(target) or DType(target), term.place)


def _bounded(value: int, most: int, place: Place) -> int:
    """Return an offset that is not too large."""
    if abs(value) > most:
        message = f"An offset is at most {most} cells, but got {value}."
        hint = "Move data over larger distances outside of the program."
        raise fault(LimitError, place, "limits", message, hint)
    return value


def _axis_of(index: Term) -> Axis | None:
    """Return the axis that an index names, as in `I`, `J + 1` and `K - 2`."""
    match index:
        case Name(name) | Infix("+" | "-", Name(name)):
            return _PLAIN.get(name)
        case _:
            return None


def _is_variable(term: Term) -> bool:
    """Say whether a term holds a field, temporary or scalar."""
    match term:
        case Name(name):
            return name not in (*_PLAIN, *CONSTANTS)
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


def _shown(name: str) -> str:
    """Return a temporary's name as its function's text spells it."""
    return name.rsplit(".", maxsplit=1)[-1]
