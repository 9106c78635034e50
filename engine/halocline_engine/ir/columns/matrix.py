"""The rows of the banded matrix that a column program is, where it is linear in a variable.

An operator's row is the derivative of its formula with respect to the values that it reads; the row
of a composed expression is the product of the rows of its operators. Rows are computed as any other
column program is, band by band: band d of row k multiplies element k + d of the variable, both
counted in the order of the data along their own dimensions. What does not depend on the variable,
such as values of boundary conditions, is not part of the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from halocline_engine.errors import InternalError, LimitError, ProgramError, TypeRuleError
from halocline_engine.ir.columns.formulas.algebra import Real
from halocline_engine.ir.columns.formulas.metric import Metric
from halocline_engine.ir.columns.formulas.values import Reader, Values
from halocline_engine.ir.columns.lower import Lowering, assign, parts_of, program_of
from halocline_engine.ir.columns.nodes import Columns, Compute, Fold, Item, Leaf, Result, Stencil
from halocline_engine.ir.columns.points import Shape, Span
from halocline_engine.ir.columns.table import OPERATORS, At
from halocline_engine.ir.nodes import (
    Binary,
    Expr,
    Number,
    Program,
    Read,
    Select,
    Statement,
    Unary,
)
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import walk
from halocline_engine.language.source import Place, fault, locate

__all__ = ["Matrix", "band_name", "lower_matrix"]

#: Coefficients by the point of the variable that they multiply.
_Row: TypeAlias = dict[int, Real]

# What an operator's formula reads in the place of its linear argument, at the point in its offset.
_MARK = "linear.argument"
#: How many operations a coefficient is a product over, at most.
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Matrix:
    """A program that computes bands; `bands` are their names by d, in ascending order."""

    program: Program
    rows: At
    bands: Mapping[int, str]


def band_name(name: str, d: int) -> str:
    """Return what a band is called.

    >>> [band_name("m", d) for d in (-2, -1, 0, 1)]
    ['m_lower2', 'm_lower', 'm_diagonal', 'm_upper']
    """
    if d == 0:
        return f"{name}_diagonal"
    return f"{name}_{'lower' if d < 0 else 'upper'}{abs(d) if abs(d) > 1 else ''}"


def lower_matrix(
    columns: Columns,
    shape: Shape,
    metric: Metric,
    dtype: DType,
    variable: str,
    *,
    text: str = "",
) -> Matrix:
    """Return the bands of the program's only result as a linear function of a variable.

    Raises ProgramError where it has several results, or is not linear in the variable.
    """
    lowering = Lowering(columns, shape, Values(columns, shape, metric, dtype))
    try:
        result = _only(columns)
        depends = _dependents(columns, variable, result)
        _check_linear(columns, depends, variable)
        return _lowered(lowering, metric, result, depends)
    except ProgramError as error:
        raise locate(error, text) from None


def _only(columns: Columns) -> Result:
    if len(columns.results) != 1:
        message = f"A matrix is that of one result, but the program has {len(columns.results)}."
        hint = "Let the names of the others begin with '_'."
        raise fault(TypeRuleError, columns.results[1].place, "matrix", message, hint)
    return columns.results[0]


def _dependents(columns: Columns, variable: str, result: Result) -> frozenset[int]:
    """Return the items that depend on the variable, among them the result."""
    found: set[int] = set()
    for number, item in enumerate(columns.items):
        own = isinstance(item, Leaf) and item.name == variable
        if own or found.intersection(parts_of(item)):
            found.add(number)
    leaf = columns.items[min(found)] if found else None
    if result.value not in found or leaf is None:
        message = f"'{result.name}' does not depend on '{variable}', so it has no matrix."
        raise fault(TypeRuleError, result.place, "matrix", message, "Name a variable that it uses.")
    if leaf.at is At.FLAT:
        message = f"A matrix acts on a variable with levels, but '{variable}' has none."
        raise fault(TypeRuleError, result.place, "matrix", message, "Name one that has them.")
    return frozenset(found)


def _check_linear(columns: Columns, depends: frozenset[int], variable: str) -> None:
    """Raise at the first item that is not linear in what depends on the variable."""
    for number in sorted(depends):
        item = columns.items[number]
        inside = [operand in depends for operand in parts_of(item)]
        match item:
            case Stencil():
                linear = OPERATORS[item.operator].linear
                wrong = any(found and at != linear for at, found in enumerate(inside))
                what = f"The operator '{item.operator}'"
            case Compute(kind, name):
                wrong = not _is_linear(kind, name, inside)
                what = f"'{name}'" if name else "A choice"
            case Fold():
                wrong, what = True, "A reduction"
            case _:
                continue
        if wrong:
            message = f"{what} is not linear in '{variable}' here, or has no banded matrix."
            hint = "Sums, products with other values and linear operators of it have one."
            raise fault(TypeRuleError, item.place, "matrix", message, hint)


def _check_depth(columns: Columns, depends: frozenset[int]) -> None:
    """Raise where the variable goes through more operations than one expression has levels.

    A coefficient is a product over all of them, and is no value that a temporary could hold.
    """
    depths: dict[int, int] = {}
    for number in sorted(depends):
        item = columns.items[number]
        depths[number] = 1 + max((depths[n] for n in parts_of(item) if n in depends), default=0)
        if depths[number] > _DEEPEST and isinstance(item, Stencil | Compute):
            message = f"A matrix follows its variable through at most {_DEEPEST} operations, one"
            message = f"{message} behind the other, but here are more."
            hint = "Make matrices of two parts, and multiply them."
            raise fault(LimitError, item.place, "limits", message, hint)


def _is_linear(kind: str, name: str, depends: list[bool]) -> bool:
    match kind, name:
        case "unary", "-":
            return True
        case "binary", "+" | "-":
            # A sum with something else is linear up to a constant, which is no part of the matrix.
            return True
        case "binary", "*":
            return sum(depends) == 1
        case "binary", "/":
            return not depends[1]
        case "select", _:
            return not depends[0]
        case _:
            return False


def _lowered(lowering: Lowering, metric: Metric, result: Result, depends: frozenset[int]) -> Matrix:
    columns, shape = lowering.columns, lowering.shape
    _check_depth(columns, depends)
    lowering.keep(depends)
    at = columns.items[result.value].at
    rows: list[tuple[Span, dict[int, Expr]]] = []
    for span in shape.spans(at, lowering.reach(result.value)):
        reader = lowering.values.at(span.sample)
        row = _Rows(reader, depends).row(result.value, span.sample)
        rows.append((span, {_band(shape, span.sample, p): c.expr for p, c in row.items()}))
    bands = {d: band_name(result.name, d) for d in sorted({d for _, row in rows for d in row})}
    zero = Number(lowering.values.dtype, 0.0)
    place = result.place
    named = {span: _body(row, bands, zero, place) for span, row in rows}
    ordered = shape.ordered(list(named), upwards=True)
    results = tuple(Result(name, result.value, place) for name in bands.values())
    made = Lowering(
        Columns(columns.items, results),
        shape,
        lowering.values,
        lowering.computations,
        lowering.temporaries,
    )
    made.add(Order.PARALLEL, [(span, named[span]) for span in ordered])
    return Matrix(program_of(made, metric, "matrix"), at, bands)


def _body(
    row: Mapping[int, Expr], bands: Mapping[int, str], zero: Expr, place: Place
) -> tuple[Statement, ...]:
    return tuple(assign(name, row.get(d, zero), place) for d, name in bands.items())


def _band(shape: Shape, row: int, point: int) -> int:
    """Return d; the shorter way round in a periodic column."""
    d = shape.level(point) - shape.level(row)
    if not shape.periodic:
        return d
    half = (shape.levels - 1) // 2
    return (d + half) % shape.levels - half


@dataclass(slots=True)
class _Rows:
    """Makes the rows that stand in the statements of one point."""

    reader: Reader
    depends: frozenset[int]
    made: dict[tuple[int, int], _Row] = field(default_factory=dict[tuple[int, int], _Row])

    def row(self, number: int, h: int) -> _Row:
        """Return an item's row at a point."""
        if number not in self.depends:
            return {}
        key = (number, h)
        if key not in self.made:
            self.made[key] = self._make(self.reader.values.columns.items[number], h)
        return self.made[key]

    def _make(self, item: Item, h: int) -> _Row:
        match item:
            case Leaf():
                return {h: Real(Number(self.reader.values.dtype, 1.0))}
            case Compute():
                return self._compute(item, h)
            case Stencil():
                return self._stencil(item, h)
            case _:
                raise InternalError("An item that depends on a variable has no row.")

    def _compute(self, item: Compute, h: int) -> _Row:
        rows = [self.row(number, h) for number in item.operands]

        def value(at: int) -> Real:
            return Real(self.reader.expr(item.operands[at], h))

        match item.kind, item.name:
            case "unary", _:
                return _scaled(rows[0], None, negative=True)
            case "binary", "+":
                return _sum(rows[0], rows[1])
            case "binary", "-":
                return _sum(rows[0], _scaled(rows[1], None, negative=True))
            case "binary", "*":
                return _scaled(rows[0], value(1)) if rows[0] else _scaled(rows[1], value(0))
            case "binary", _:
                return {point: each / value(1) for point, each in rows[0].items()}
            case _:
                return _choice(self.reader.expr(item.operands[0], h), rows[1], rows[2])

    def _stencil(self, item: Stencil, h: int) -> _Row:
        """Return the product of the operator's row and those of its argument."""
        linear = OPERATORS[item.operator].linear
        dtype = self.reader.values.dtype

        def argument(m: int, point: int) -> Real:
            if m == linear:
                return Real(Read(_MARK, (0, 0, point), dtype))
            return Real(self.reader.expr(item.arguments[m], point))

        total: _Row = {}
        for point, weight in _derivative(self.reader.stencil(item, h, argument).expr).items():
            total = _sum(total, _scaled(self.row(item.arguments[linear], point), weight))
        return total


def _derivative(expr: Expr) -> _Row:
    """Return the coefficients of the marks in a formula that is linear in them."""
    if not any(isinstance(node, Read) and node.name == _MARK for node in walk(expr)):
        return {}
    match expr:
        case Read(offset=offset):
            return {offset[2]: Real(Number(expr.dtype, 1.0))}
        case Unary(operand=operand):
            return _scaled(_derivative(operand), None, negative=expr.operator == "-")
        case Binary(operator="+", left=left, right=right):
            return _sum(_derivative(left), _derivative(right))
        case Binary(operator="-", left=left, right=right):
            return _sum(_derivative(left), _scaled(_derivative(right), None, negative=True))
        case Binary(operator="*", left=left, right=right):
            row = _derivative(left)
            return _scaled(row, Real(right)) if row else _scaled(_derivative(right), Real(left))
        case Binary(operator="/", left=left, right=right):
            return {point: each / Real(right) for point, each in _derivative(left).items()}
        case Select(condition, then, otherwise):
            return _choice(condition, _derivative(then), _derivative(otherwise))
        case _:
            raise InternalError("A linear operator's formula is not linear.")


def _sum(one: _Row, two: _Row) -> _Row:
    both = dict(one)
    for point, each in two.items():
        both[point] = both[point] + each if point in both else each
    return both


def _scaled(row: _Row, factor: Real | None, *, negative: bool = False) -> _Row:
    """Return a row times a factor; factors of one leave no trace."""
    found: _Row = {}
    for point, each in row.items():
        if factor is None:
            product = each
        elif _is_one(each):
            product = factor
        elif _is_one(factor):
            product = each
        else:
            product = factor * each
        found[point] = -product if negative else product
    return found


def _is_one(value: Real) -> bool:
    return isinstance(value.expr, Number) and value.expr.value == 1.0


def _choice(condition: Expr, then: _Row, otherwise: _Row) -> _Row:
    found: _Row = {}
    for point in {**then, **otherwise}:
        some = then.get(point) or otherwise[point]
        zero = some.number(0.0)
        one, two = then.get(point, zero).expr, otherwise.get(point, zero).expr
        found[point] = Real(Select(condition, one, two, one.dtype))
    return found
