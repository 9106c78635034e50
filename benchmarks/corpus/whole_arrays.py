"""Programs of the corpus as expressions on whole arrays, for libraries with NumPy's names."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from corpus.calls import CorpusCall
from corpus.cases import CorpusCase
from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    If,
    Interval,
    Number,
    Parameter,
    Program,
    Read,
    Select,
    Statement,
    Unary,
    While,
)
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import irregular, program_bodies, statements

__all__ = ["sample", "whole_arrays"]

_Box = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
_SAME = ("exp", "log", "sqrt", "abs", "sin", "cos", "tan", "floor", "ceil", "tanh")


def sample(cases: Sequence[CorpusCase], number: int, seed: int = 21) -> list[CorpusCase]:
    """Return some of the programs that have expressions on whole arrays."""
    able = [case for case in cases if _is_able(_program(case))]
    return random.Random(seed).sample(able, min(number, len(able)))


def whole_arrays(call: CorpusCall, library: Any) -> Callable[[Mapping[str, Any]], None]:
    """Return a function that changes the written arrays of a call as its program does."""
    writer = _WholeArrays(call, library)
    return writer.run


def _program(case: CorpusCase) -> Program:
    return CorpusCall(case, "float64", "KJI", case.domain).compiled.program


def _is_able(program: Program) -> bool:
    every = [s for body in program_bodies(program) for s in statements(body)]
    return (
        all(computation.order is Order.PARALLEL for computation in program.computations)
        and not (program.made or program.tables or program.lookups or program.regions)
        and not any(isinstance(one, While) for one in every)
        and not any(irregular(body) for body in program_bodies(program))
    )


class _WholeArrays:
    """Runs the statements of a program one after the other, each on all points that need it."""

    def __init__(self, call: CorpusCall, library: Any) -> None:
        self.call, self.library = call, library
        self.program, self.facts = call.compiled.program, call.compiled.facts
        self.axes = {field.name: field.axes for field in self.program.fields}

    def run(self, arrays: Mapping[str, Any]) -> None:
        """Compute; what lies outside the domain stays as it is."""
        held: dict[str, Any] = {}
        for name, array in arrays.items():
            index = tuple(slice(None) if axis in self.axes[name] else None for axis in Axis)
            held[name] = array[index]
        some = next(array for name, array in held.items() if len(self.axes[name]) == 3)
        for temporary in self.program.temporaries:
            held[temporary.name] = self.library.zeros_like(some)
        extents = self.facts.statements
        for computation, blocks in zip(self.program.computations, extents, strict=True):
            for block, bodies in zip(computation.blocks, blocks, strict=True):
                for statement, extent in zip(block.body, bodies, strict=True):
                    box = self._box(extent, block.interval)
                    self._statement(statement, held, box, None)

    def _box(self, extent: Horizontal, interval: Interval) -> _Box:
        ni, nj, nk = self.call.domain
        (il, ih), (jl, jh) = extent
        levels = (interval.start.level(nk), interval.end.level(nk))
        return (il, ni + ih), (jl, nj + jh), levels

    def _statement(self, statement: Statement, held: dict[str, Any], box: _Box, mask: Any) -> None:
        match statement:
            case Assign(target, value):
                place = self._place(target, box, (0, 0, 0))
                new = self._value(value, held, box)
                if mask is not None:
                    new = self.library.where(mask, new, held[target][place])
                held[target][place] = new
            case If(condition, then, otherwise):
                true = self._value(condition, held, box)
                for body, test in ((then, true), (otherwise, ~true)):
                    for inner in body:
                        self._statement(inner, held, box, test if mask is None else mask & test)
            case While():
                raise NotImplementedError
            case _:
                assert_never(statement)

    def _place(self, name: str, box: _Box, offset: tuple[int, int, int]) -> tuple[slice, ...]:
        """Return where a box lies in an array; temporaries have the shape of fields."""
        axes = self.axes.get(name, tuple(Axis))
        return tuple(
            slice(low + halo + step, high + halo + step) if axis in axes else slice(None)
            for axis, (low, high), halo, step in zip(Axis, box, self.call.halo, offset, strict=True)
        )

    def _value(self, expr: Expr, held: Mapping[str, Any], box: _Box) -> Any:
        def inner(node: Expr) -> Any:
            return self._value(node, held, box)

        match expr:
            case Number(_, value):
                return value
            case Parameter(name):
                return self.call.case.scalars[name]
            case Read(name, offset):
                return held[name][self._place(name, box, offset)]
            case Unary("not", operand):
                return ~inner(operand)
            case Unary(_, operand):
                return -inner(operand)
            case Binary(operator, left, right):
                return _binary(operator, inner(left), inner(right))
            case Select(condition, then, otherwise):
                return self.library.where(inner(condition), inner(then), inner(otherwise))
            case Cast(_, operand):
                return inner(operand)
            case Call(function, arguments):
                return self._call(function, [inner(one) for one in arguments])
            case _:
                assert_never(expr)

    def _call(self, function: str, values: list[Any]) -> Any:
        if function in ("min", "max"):
            first, second = values
            test = first < second if function == "min" else first > second
            return self.library.where(test, first, second)
        if function == "pow":
            return values[0] ** values[1]
        if function in _SAME:
            return getattr(self.library, function)(values[0])
        raise NotImplementedError(function)


def _binary(operator: str, left: Any, right: Any) -> Any:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "==":
            return left == right
        case "and":
            return left & right
        case "or":
            return left | right
        case _:
            raise NotImplementedError(operator)
