"""Components that scalars choose become fields, which a call finds before kernels run.

`rate[0, 0, 0][plume]` is a choice among all components of `rate` at each point, though all points
choose the same one: kernels would load, hold and compare several. Here it is the read of one field,
a `Choice`. The whole is left as it is where components are assigned and reached in another way as
well, since two fields would share memory. A level that only a run knows has limits of its own for
each component, and stays a choice at each point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Choice,
    Components,
    Expr,
    Field,
    If,
    Number,
    Parameter,
    Program,
    Read,
    Select,
    Statement,
    While,
)
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import (
    assignments,
    program_bodies,
    reads,
    rewrite,
    with_expressions,
)

__all__ = ["choose_components"]


def choose_components(program: Program) -> Program:
    """Return what kernels compute, with the choices that calls make for them."""
    for whole in program.components:
        parts = tuple(whole.field(n) for n in range(math.prod(whole.shape)))
        if len(parts) > 1:
            program = _with_choices(program, whole, parts)
    return program


def _with_choices(program: Program, whole: Components, parts: tuple[str, ...]) -> Program:
    chooser = _Chooser(whole, parts)
    computations = tuple(
        replace(
            computation,
            blocks=tuple(
                replace(block, body=chooser.body(block.body)) for block in computation.blocks
            ),
        )
        for computation in program.computations
    )
    made = replace(program, computations=computations)
    touched = {name for body in program_bodies(made) for name in _names(body)}
    assigned = any(one.written for one in program.fields if one.name in parts)
    if not chooser.found or (
        assigned and (len(chooser.found) > 1 or not touched.isdisjoint(parts))
    ):
        return program
    axes = next(one.axes for one in program.fields if one.name == parts[0])
    written = {one.target for body in program_bodies(made) for one in assignments(body)}
    read = {one.name for body in program_bodies(made) for one in reads(body)}
    fields = tuple(
        Field(name, whole.dtype, axes, name in read, name in written)
        for name in chooser.found.values()
    )
    choices = tuple(Choice(name, parts, index) for index, name in chooser.found.items())
    left = tuple(one for one in program.fields if one.name not in parts or one.name in touched)
    return replace(made, fields=(*left, *fields), choices=(*program.choices, *choices))


def _names(body: Sequence[Statement]) -> Iterator[str]:
    yield from (one.target for one in assignments(body))
    yield from (one.name for one in reads(body))


@dataclass(frozen=True, slots=True)
class _Chooser:
    """Rewrites bodies; `found` has the names of what indices choose."""

    whole: Components
    parts: tuple[str, ...]
    found: dict[Expr, str] = field(default_factory=dict[Expr, str])

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return the statements of a body."""
        return tuple(self._statement(one) for one in body)

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, If) and (one := self._assigned(statement)) is not None:
            return replace(statement, then=(one,))
        new = with_expressions(statement, lambda value: rewrite(value, self._chosen))
        match new:
            case If(_, then, otherwise):
                return replace(new, then=self.body(then), otherwise=self.body(otherwise))
            case While(_, inner):
                return replace(new, body=self.body(inner))
            case _:
                return new

    def _assigned(self, statement: If) -> Assign | None:
        """Return the assignment of what an index chooses, in the place of one for each part."""
        index = self._range(statement.condition)
        if index is None or statement.otherwise:
            return None
        stored = self._stored(statement.then, index, 0)
        if stored is None or not self._is_one_value(stored):
            return None
        value = rewrite(stored[0].value, self._chosen)
        return replace(stored[0], target=self._name(index), value=value)

    def _chosen(self, expr: Expr) -> Expr:
        """Return a read in the place of a choice among reads of all parts."""
        match expr:
            case Select(Binary("<", index, Number()), _, _) if _is_evaluable(index):
                several = _read(expr, index, 0)
                first = several[0] if several else None
                if several is None or first is None or first.level is not None:
                    return expr
                wanted = [replace(first, name=name) for name in self.parts]
                return replace(first, name=self._name(index)) if several == wanted else expr
            case _:
                return expr

    def _range(self, condition: Expr) -> Expr | None:
        """Return the index of which a condition says that it is one of the parts."""
        match condition:
            case Binary(
                "and",
                Binary(">=", index, Number(_, 0)),
                Binary("<", other, Number(_, count)),
            ) if index == other and count == len(self.parts) and _is_evaluable(index):
                return index
            case _:
                return None

    def _stored(self, body: tuple[Statement, ...], index: Expr, first: int) -> list[Assign] | None:
        """Return the assignments among which an index chooses, which begins with `first`."""
        match body:
            case (Assign() as one,):
                return [one]
            case (If(Binary("<", other, Number(_, middle)), then, otherwise),) if other == index:
                low = self._stored(then, index, first)
                high = self._stored(otherwise, index, int(middle))
                if low is None or high is None or len(low) != middle - first:
                    return None
                return [*low, *high]
            case _:
                return None

    def _is_one_value(self, stored: Sequence[Assign]) -> bool:
        """Whether each part is assigned, all of them the same."""
        wanted = [replace(stored[0], target=name) for name in self.parts]
        return stored[0].level is None and list(stored) == wanted

    def _name(self, index: Expr) -> str:
        return self.found.setdefault(index, f"{self.whole.name}.[{len(self.found)}]")


def _read(expr: Expr, index: Expr, first: int) -> list[Read] | None:
    """Return the reads among which an index chooses, which begins with `first`."""
    match expr:
        case Read():
            return [expr]
        case Select(Binary("<", other, Number(_, middle)), then, otherwise) if other == index:
            low, high = _read(then, index, first), _read(otherwise, index, int(middle))
            if low is None or high is None or len(low) != middle - first:
                return None
            return [*low, *high]
        case _:
            return None


def _is_evaluable(index: Expr) -> bool:
    """Whether `backends.made.arrays.chosen_parts` can evaluate an index."""
    match index:
        case Number(dtype) | Parameter(_, dtype):
            return dtype.is_integer
        case Cast(DType.INT64, operand):
            return _is_evaluable(operand)
        case Binary("+" | "-" | "*", left, right, DType.INT64):
            return _is_evaluable(left) and _is_evaluable(right)
        case Call("min" | "max", arguments, DType.INT64):
            return all(map(_is_evaluable, arguments))
        case _:
            return False
