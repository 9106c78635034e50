"""From staggered operators to levels: what a column program computes at every level.

Every value is written out as what it reads, level by level near the ends and once for all levels
between them. An operator's boundary condition takes the place of what lies outside, so an inner
operator is never computed where an outer one does not look, and needs no condition there. Values
that would make a statement too large become temporaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from halocline_engine.errors import ProgramError
from halocline_engine.ir.columns.formulas.metric import Metric, metric_fields
from halocline_engine.ir.columns.formulas.values import Keep, Values
from halocline_engine.ir.columns.nodes import (
    Columns,
    Element,
    Fold,
    Item,
    Leaf,
    Result,
    Slot,
    Stencil,
)
from halocline_engine.ir.columns.nodes import Compute as _Compute
from halocline_engine.ir.columns.points import Shape, Span
from halocline_engine.ir.columns.table import OPERATORS, At
from halocline_engine.ir.nodes import (
    Assign,
    Block,
    Computation,
    Expr,
    Field,
    Location,
    Parameter,
    Program,
    Read,
    Scalar,
    Statement,
    Temporary,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import assignments, expressions, program_bodies, walk
from halocline_engine.language.source import Place, locate

__all__ = ["Lowering", "assign", "lower_columns", "parts_of", "program_of"]

#: About how many nodes a value may have before it is kept in a temporary.
_LARGE = 1000
#: How deeply the items of a value may be nested before what is inside is kept in a temporary.
_DEEP = 24
#: How often an operator's formula names each of its arguments, at most; others do it 4 times.
_USES = {"FCTZalesak": 60, "LinVanLeerC2F": 20, "Upwind3rdOrderBiasedProductC2F": 6}

_SPACE = (Axis.I, Axis.J, Axis.K)


def lower_columns(
    columns: Columns,
    shape: Shape,
    metric: Metric,
    dtype: DType,
    *,
    text: str = "",
) -> Program:
    """Return the meaning of a column program for columns of one shape.

    Everything is computed in `dtype`. The program has a level for every face (`Shape.domain`);
    results are fields of its own, along I, J and K, or I and J where they have no level. Fields
    on centres are neither read nor written at the last level. Raises ProgramError where a value is
    needed for which no boundary condition is given.
    """
    lowering = Lowering(columns, shape, Values(columns, shape, metric, dtype))
    try:
        lowering.keep()
        for result in columns.results:
            lowering.result(result)
    except ProgramError as error:
        raise locate(error, text) from None
    return program_of(lowering, metric, "column")


@dataclass(slots=True)
class Lowering:
    """Collects computations and temporaries."""

    columns: Columns
    shape: Shape
    values: Values
    computations: list[Computation] = field(default_factory=list[Computation])
    temporaries: list[Temporary] = field(default_factory=list[Temporary])

    def keep(self, never: Set[int] = frozenset()) -> None:
        """Compute what is kept in temporaries: folds, large and deep values, operands first.

        Items of `never` are not kept.
        """
        sizes: dict[int, int] = {}
        depths: dict[int, int] = {}
        direct = {result.value for result in self.columns.results}
        used = self.used()
        bound: set[int] = set(never)
        for number in sorted(used):
            item = self.columns.items[number]
            if isinstance(item, Slot | Element) or (
                isinstance(item, _Compute) and bound.intersection(item.operands)
            ):
                bound.add(number)
            if isinstance(item, Fold):
                inside = any(number in parts_of(self.columns.items[n]) for n in used)
                if inside or not (number in direct and _is_plain(item)):
                    self.keep_fold(number, item)
                sizes[number] = depths[number] = 1
                continue
            size = 1
            for operand in parts_of(item):
                uses = _USES.get(item.operator, 4) if isinstance(item, Stencil) else 1
                large = uses * sizes[operand] > _LARGE and sizes[operand] > 1
                if (large or depths[operand] >= _DEEP) and operand not in bound:
                    self._keep_value(operand)
                    sizes[operand] = depths[operand] = 1
                size += uses * sizes[operand]
            sizes[number] = size
            depths[number] = 1 + max((depths[part] for part in parts_of(item)), default=0)

    def used(self) -> set[int]:
        """Return the items that the results need."""
        found: set[int] = set()
        pending = [result.value for result in self.columns.results]
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending.extend(parts_of(self.columns.items[number]))
        return found

    def result(self, result: Result) -> None:
        """Compute a result into its field."""
        item = self.columns.items[result.value]
        if isinstance(item, Fold) and item.total and result.value not in self.values.kept:
            self._total(item, result)
        elif item.at is At.FLAT:
            value = self._value(result.value, 0)
            self.add(Order.FORWARD, [(Span(0, 0, 0), (assign(result.name, value, result.place),))])
        else:
            spans = self.shape.spans(item.at, self.reach(result.value))
            parts = [(span, self._value(result.value, span.sample)) for span in spans]
            self._parallel(result.name, parts, result.place)

    def _keep_value(self, number: int) -> None:
        """Keep an item in a temporary, at the points where it has a value."""
        if number in self.values.kept:
            return
        item = self.columns.items[number]
        name = f"kept.{number}"
        at = At.FACE if item.at is At.FLAT else item.at
        parts: list[tuple[Span, Expr]] = []
        holes: dict[int, ProgramError] = {}
        for span in self.shape.spans(at, self.reach(number)):
            try:
                parts.append((span, self._value(number, span.sample)))
            except ProgramError as error:
                holes |= dict.fromkeys(range(span.low, span.high + 1, 2), error)
        if parts:
            place = item.place if isinstance(item, Stencil | _Compute) else None
            self.temporaries.append(Temporary(name, parts[0][1].dtype))
            self._parallel(name, parts, place)
        self.values.kept[number] = Keep(name, item.at is At.FLAT, holes)

    def _value(self, number: int, h: int) -> Expr:
        return self.values.at(h).expr(number)

    def _parallel(self, name: str, parts: Sequence[tuple[Span, Expr]], place: Place | None) -> None:
        """Add a computation of all points."""
        values = dict(parts)
        ordered = self.shape.ordered(list(values), upwards=True)
        found = [(span, (assign(name, values[span], place),)) for span in ordered]
        self.add(Order.PARALLEL, found)

    def add(self, order: Order, parts: Sequence[tuple[Span, tuple[Statement, ...]]]) -> None:
        """Add a computation; neighbouring spans that do the same become one."""
        merged: list[tuple[Span, tuple[Statement, ...]]] = []
        for span, body in parts:
            last = merged[-1][0] if merged else span
            beside = span.low == last.high + 2 or span.high == last.low - 2
            if merged and beside and merged[-1][1] == body:
                low, high = min(last.low, span.low), max(last.high, span.high)
                merged[-1] = (Span(span.sample, low, high), body)
            else:
                merged.append((span, body))
        blocks = tuple(Block(self.shape.interval(span), body) for span, body in merged)
        self.computations.append(Computation(order, blocks))

    def reach(self, number: int) -> int:
        """Return how many half levels around a value depends on, temporaries being values."""
        found: dict[int, int] = {}
        for each in range(number + 1):
            item = self.columns.items[each]
            if each in self.values.kept or isinstance(item, Fold):
                found[each] = 2
                continue
            own = OPERATORS[item.operator].reach if isinstance(item, Stencil) else 0
            # An operator that is copied from the next point reads two half levels more.
            own += 2 if isinstance(item, Stencil) else 0
            found[each] = own + max((found[operand] for operand in parts_of(item)), default=0)
        return found[number]

    def keep_fold(self, number: int, fold: Fold) -> None:
        """Keep the states of a fold in temporaries, and its last value on every level."""
        names = [f"fold.{number}.{part}" for part in range(len(fold.start))]
        self.temporaries.extend(Temporary(name, self.values.dtype) for name in names)
        blocks: list[tuple[Span, tuple[Statement, ...]]] = []
        for span, first in self._sweep(fold):
            step = -2 if fold.reverse else 2
            reader = self.values.at(span.sample)
            state = (
                [reader.expr(start) for start in fold.start]
                if first
                else [reader.read(name, span.sample - step) for name in names]
            )
            state = self._taken_in(fold, span.sample, state, first=first)
            body = tuple(
                assign(name, part, fold.place) for name, part in zip(names, state, strict=True)
            )
            blocks.append((span, body))
        self.add(self._order(fold.reverse), blocks)
        self.values.folds[number] = tuple(names)
        if fold.total:
            self._spread(number, fold)

    def _sweep(self, fold: Fold) -> list[tuple[Span, bool]]:
        """Return the spans of a fold's points in its order, and which is the first."""
        at = fold.source if fold.total else fold.at
        reach = 2 + max((self.reach(n) for n in (*fold.arguments, *fold.step)), default=0)
        spans = self.shape.spans(at, reach)
        ordered = spans[::-1] if fold.reverse else spans
        return [(span, number == 0) for number, span in enumerate(ordered)]

    def _taken_in(
        self, fold: Fold, h: int, state: Sequence[Expr], *, first: bool
    ) -> Sequence[Expr]:
        """Return the state at a point from the one before: what lies between is taken in."""
        side = -1 if fold.reverse else 1
        at = fold.source if fold.total else fold.at
        if at is fold.source:
            taken = (h,)
        elif at is At.FACE:
            taken = () if first else (h - side,)
        else:
            taken = (h - side, h + side) if first else (h + side,)
        for point in taken:
            reader = self.values.at(h)
            elements = [reader.expr(argument, point) for argument in fold.arguments]
            state = [reader.inside(part, state, elements, point) for part in fold.step]
        return state

    def _order(self, reverse: bool) -> Order:
        return Order.BACKWARD if reverse is not self.shape.flipped else Order.FORWARD

    def _spread(self, number: int, fold: Fold) -> None:
        """Carry the last value of a fold back to all levels."""
        name = f"last.{number}"
        self.temporaries.append(Temporary(name, self.values.dtype))
        spans = self.shape.spans(At.FACE, 2)
        ordered = spans if fold.reverse else spans[::-1]
        end = self.shape.points(fold.source)[0 if fold.reverse else -1]
        blocks: list[tuple[Span, tuple[Statement, ...]]] = []
        for place, span in enumerate(ordered):
            reader = self.values.at(span.sample)
            step = -2 if fold.reverse else 2
            value = reader.read(name, span.sample + step)
            if place == 0:
                state = [reader.read(each, end) for each in self.values.folds[number]]
                value = reader.inside(fold.finish, state, [], end)
            blocks.append((span, (assign(name, value, fold.place),)))
        self.add(self._order(not fold.reverse), blocks)
        self.values.kept[number] = Keep(name, True, {})

    def _total(self, fold: Fold, result: Result) -> None:
        """Compute a fold with one state straight into its field over the horizontal."""
        blocks: list[tuple[Span, tuple[Statement, ...]]] = []
        for span, first in self._sweep(fold):
            reader = self.values.at(span.sample)
            state: Expr = Read(result.name, (0, 0, 0), self.values.dtype)
            state = reader.expr(fold.start[0]) if first else state
            (value,) = self._taken_in(fold, span.sample, [state], first=first)
            blocks.append((span, (assign(result.name, value, result.place),)))
        self.add(self._order(fold.reverse), blocks)


def parts_of(item: Item) -> tuple[int, ...]:
    """Return the items that an item is made of."""
    match item:
        case _Compute():
            return item.operands
        case Stencil():
            ends = (end.value for end in (item.bottom, item.top) if end is not None)
            return (*item.arguments, *(value for value in ends if value >= 0))
        case Fold():
            return (*item.arguments, *item.start, *item.step, item.finish)
        case _:
            return ()


def _is_plain(fold: Fold) -> bool:
    """Whether a fold's value is its only state, so that a field can hold it."""
    return fold.total and len(fold.start) == 1


def assign(name: str, value: Expr, place: Place | None) -> Assign:
    """Return a statement that points at its place in the text."""
    location = Location(0, 0) if place is None else Location(place.line, place.column)
    return Assign(name, value, location)


def program_of(lowering: Lowering, metric: Metric, name: str) -> Program:
    """Return the program with the fields and scalars that it uses."""
    columns, dtype = lowering.columns, lowering.values.dtype
    computations = tuple(lowering.computations)
    bare = Program(name, (), (), (), tuple(lowering.temporaries), computations)
    found = list(_uses(bare))
    read = {node.name for node in found if isinstance(node, Read)}
    given = {node.name for node in found if isinstance(node, Parameter)}
    written = {a.target for body in program_bodies(bare) for a in assignments(body)}
    leaves = [item for item in columns.items if isinstance(item, Leaf)]
    inputs = [Field(leaf.name, leaf.dtype, _axes(leaf.at), True, False) for leaf in leaves]
    outputs = [
        Field(r.name, dtype, _axes(columns.items[r.value].at), r.name in read, True)
        for r in columns.results
        if r.name in written
    ]
    fields = [f for f in (*inputs, *metric_fields(metric, dtype)) if f.name in read]
    fields = [*{f.name: f for f in fields}.values(), *outputs]
    scalars = tuple(Scalar(each, dtype) for each in sorted(given))
    arguments = (*(f.name for f in fields), *(s.name for s in scalars))
    temporaries = tuple(t for t in lowering.temporaries if t.name in written)
    return Program(name, arguments, tuple(fields), scalars, temporaries, computations)


def _uses(program: Program) -> Iterable[Expr]:
    for body in program_bodies(program):
        for expr in expressions(body):
            yield from walk(expr)


def _axes(at: At) -> tuple[Axis, ...]:
    return _SPACE[:2] if at is At.FLAT else _SPACE
