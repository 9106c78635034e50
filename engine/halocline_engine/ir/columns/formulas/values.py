"""Expressions of the values of a column program at one point of the column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from halocline_engine.errors import InternalError, ProgramError, TypeRuleError
from halocline_engine.ir.columns.formulas.algebra import Real
from halocline_engine.ir.columns.formulas.limited import LIMITED
from halocline_engine.ir.columns.formulas.linear import LINEAR
from halocline_engine.ir.columns.formulas.metric import SURFACE, Metric, width_at
from halocline_engine.ir.columns.formulas.window import Window
from halocline_engine.ir.columns.nodes import (
    Columns,
    Compute,
    Constant,
    Element,
    Fold,
    Input,
    Leaf,
    Slot,
    Stencil,
    Weight,
)
from halocline_engine.ir.columns.points import Shape
from halocline_engine.ir.columns.table import OPERATORS, At
from halocline_engine.ir.lower.types import convert, number
from halocline_engine.ir.nodes import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Expr,
    Number,
    Parameter,
    Read,
    Select,
    Unary,
)
from halocline_engine.ir.types import DType
from halocline_engine.language.source import START, fault

__all__ = ["Keep", "Reader", "Values"]

_FORMULAS = {**LINEAR, **LIMITED}
_WHOLE = 64


@dataclass(frozen=True, slots=True)
class Keep:
    """A temporary that holds an item; `flat` where it is the same on all levels.

    `holes` are the points at which the item has no value, and why.
    """

    name: str
    flat: bool
    holes: Mapping[int, ProgramError]


@dataclass(slots=True)
class Values:
    """A program and what of it is in temporaries already: `kept` items, states of `folds`."""

    columns: Columns
    shape: Shape
    metric: Metric
    dtype: DType
    kept: dict[int, Keep] = field(default_factory=dict[int, Keep])
    folds: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    def at(self, h: int) -> Reader:
        """Return what makes expressions for the level of a point."""
        return Reader(self, h)


@dataclass(slots=True)
class Reader:
    """Makes the expressions that stand in the statement of one point, `base`."""

    values: Values
    base: int
    made: dict[tuple[int, int], Expr] = field(default_factory=dict[tuple[int, int], Expr])

    def expr(self, number: int, h: int | None = None) -> Expr:
        """Return an item's value at a point, by default the reader's own."""
        h = self.base if h is None else self.values.shape.wrap(h)
        key = (number, h)
        if key not in self.made:
            self.made[key] = self._kept(number, h) or self._make(number, h)
        return self.made[key]

    def read(self, name: str, h: int, dtype: DType | None = None) -> Expr:
        """Return what a field or temporary with levels holds at a point."""
        shape = self.values.shape
        offset = shape.level(shape.wrap(h)) - shape.level(self.base)
        return Read(name, (0, 0, offset), dtype or self.values.dtype)

    def inside(self, number: int, state: Sequence[Expr], elements: Sequence[Expr], h: int) -> Expr:
        """Return what stands in the lambda of a fold, for a state and the level it takes in."""
        item = self.values.columns.items[number]
        match item:
            case Slot(_, part):
                return state[part]
            case Element(_, part):
                return elements[part]
            case Compute():
                operands = [self.inside(n, state, elements, h) for n in item.operands]
                return self._compute(item, operands)
            case _:
                return self.expr(number, h)

    def _kept(self, number: int, h: int) -> Expr | None:
        kept = self.values.kept.get(number)
        if kept is None:
            return None
        if h in kept.holes:
            raise kept.holes[h]
        truth = self.values.columns.is_truth(number)
        dtype = DType.BOOL if truth else self.values.dtype
        return Read(kept.name, (0, 0, 0), dtype) if kept.flat else self.read(kept.name, h, dtype)

    def _make(self, number: int, h: int) -> Expr:
        item = self.values.columns.items[number]
        match item:
            case Constant(value):
                return self._constant(value)
            case Input(name):
                return Parameter(name, self.values.dtype)
            case Leaf():
                return self._leaf(item, h)
            case Compute():
                return self._compute(item, [self.expr(n, h) for n in item.operands])
            case Stencil():
                return self.stencil(item, h).expr
            case Weight(at):
                return self._weight(at, h).expr
            case Fold():
                names = self.values.folds[number]
                state = [self.read(name, h) for name in names]
                return self.inside(item.finish, state, [], h)
            case Slot() | Element():
                raise InternalError("A part of a fold's state stands outside of it.")
            case _:
                assert_never(item)

    def _constant(self, value: bool | float) -> Expr:
        dtype = DType.BOOL if isinstance(value, bool) else self.values.dtype
        return number(value, dtype, START)

    def _leaf(self, leaf: Leaf, h: int) -> Expr:
        own = Read(leaf.name, (0, 0, 0), leaf.dtype)
        if leaf.at is not At.FLAT:
            read = self.read(leaf.name, h, leaf.dtype)
            assert isinstance(read, Read)
            own = read
        return own if leaf.dtype is DType.BOOL else convert(own, self.values.dtype, START)

    def _compute(self, item: Compute, operands: list[Expr]) -> Expr:
        dtype = DType.BOOL if item.truth else self.values.dtype
        match item.kind:
            case "unary":
                return Unary(item.name, operands[0], dtype)
            case "select":
                return Select(operands[0], operands[1], operands[2], dtype)
            case "call":
                if item.name == "pow":
                    operands = [operands[0], _exponent(operands[1])]
                return Call(item.name, tuple(operands), dtype)
            case _:
                truth = item.name in (*COMPARISONS, *LOGICAL)
                kind = DType.BOOL if truth else self.values.dtype
                return Binary(item.name, operands[0], operands[1], kind)

    def stencil(
        self, item: Stencil, h: int, argument: Callable[[int, int], Real] | None = None
    ) -> Real:
        """Return an operator's value at a point; `argument` gives its arguments, or they do."""

        def given(m: int, point: int) -> Real:
            inside = self._inside(item, point, h)
            if argument is not None:
                return argument(m, inside)
            return Real(self.expr(item.arguments[m], inside))

        def level(number: int) -> Real:
            return Real(self.expr(number, h))

        shape = self.values.shape
        window = Window(item, h, shape.size, shape.periodic, given, self._width, level)
        return _FORMULAS[item.operator](window)

    def _inside(self, item: Stencil, point: int, h: int) -> int:
        """Return a point of the column, or raise where the operator has nothing to read."""
        shape = self.values.shape
        if shape.periodic or 0 <= point <= shape.size:
            return shape.wrap(point)
        side = "bottom" if point < 0 else "top"
        raise _missing(item, side, near=min(h, shape.size - h))

    def _width(self, h: int) -> Real:
        values = self.values
        point = values.shape.wrap(h)

        def read(name: str, at: int) -> Real:
            if name == SURFACE:
                return Real(Read(name, (0, 0, 0), values.dtype))
            return Real(self.read(name, at))

        return width_at(values.metric, point, values.shape.size, read)

    def _weight(self, at: At, h: int) -> Real:
        """Return the width of a cell or face; a face at an end has half of its cell."""
        shape = self.values.shape
        width = self._width(h)
        ends = at is At.FACE and not shape.periodic and h in (0, shape.size)
        return 0.5 * width if ends else width


def _exponent(expr: Expr) -> Expr:
    """Return a whole constant as an integer, which powers are exact for."""
    if isinstance(expr, Number) and float(expr.value).is_integer() and abs(expr.value) <= _WHOLE:
        return Number(DType.INT64, int(expr.value))
    return expr


def _missing(item: Stencil, side: str, near: int) -> TypeRuleError:
    """Say that an operator reads beyond an end of the column."""
    name, operator = item.operator, OPERATORS[item.operator]
    allowed = operator.bottom if side == "bottom" else operator.top
    end = item.bottom if side == "bottom" else item.top
    outer = "DivergenceF2C" if operator.result is At.FACE else "SetBoundaryOperator"
    outside = f"let an outer operator set that end, as '{outer}({side}=SetValue(...))' does"
    if end is not None and near == 0:
        message = f"'{name}' has no value on the outermost face at the {side},"
        message = f"{message} even with '{end.kind}', but it is needed."
        hint = f"{outside[0].upper()}{outside[1:]}."
    elif end is not None:
        message = f"'{name}' reads beyond the {side} even with '{end.kind}':"
        message = f"{message} the column has too few levels."
        hint = "Use more levels."
    elif allowed:
        message = f"'{name}' needs a boundary condition at the {side}, but has none."
        value = "0.0" if allowed[0].startswith("Set") else ""
        hint = f"Write '{name}({side}={allowed[0]}({value}))', or {outside}."
    else:
        message = f"'{name}' reads beyond the {side} and takes no boundary condition there."
        hint = f"{outside[0].upper()}{outside[1:]}."
    return fault(TypeRuleError, item.place, "boundary", message, hint)
