"""Programs of the corpus as expressions on whole arrays, for libraries with NumPy's names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
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

__all__ = [
    "in_memory_order",
    "pure_whole_arrays",
    "sample",
    "whole_arrays",
    "whole_arrays_text",
]

_Box = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
_LOGICAL = {"and": "&", "or": "|"}
_SAME = ("exp", "log", "sqrt", "abs", "sin", "cos", "tan", "floor", "ceil", "tanh")


def sample(cases: Sequence[CorpusCase], number: int, seed: int = 21) -> list[CorpusCase]:
    """Return some of the programs that have expressions on whole arrays."""
    able = [case for case in cases if _is_able(_program(case))]
    return random.Random(seed).sample(able, min(number, len(able)))


def in_memory_order(call: CorpusCall, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a call with their axes as they lie in memory, those of size 1 too."""
    axes = {field.name: field.axes for field in call.compiled.program.fields}
    order = [list(Axis).index(Axis(axis)) for axis in call.layout]
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        index = tuple(slice(None) if axis in axes[name] else None for axis in Axis)
        found[name] = array[index].transpose(order)
    return found


def whole_arrays(call: CorpusCall, library: Any) -> Callable[[Mapping[str, Any]], None]:
    """Return a function that changes the written arrays of a call as its program does.

    It is given those that `in_memory_order` returns, as compilers of whole arrays go through them
    in the order of their axes. It has no loops and calls nothing but the library.
    """
    names: dict[str, Any] = {"library": library}
    exec(compile(whole_arrays_text(call), call.case.name, "exec"), names)
    return names["work"]


def pure_whole_arrays(
    call: CorpusCall, library: Any
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]:
    """Return a function of the arrays that are only read, and of the others, which it returns.

    It changes none of them, as JAX wants it.
    """
    names: dict[str, Any] = {"library": library}
    written = [field.name for field in call.compiled.program.fields if field.written]
    lines = (
        "def work(fixed, changed):",
        "    arrays = {**fixed, **changed}",
        *(f"    {line}" for line in _Writer(call, pure=True).lines()),
        f"    return {{{', '.join(f'{name!r}: f_{name}' for name in written)}}}",
    )
    exec(compile("\n".join(lines), call.case.name, "exec"), names)
    return names["work"]


def whole_arrays_text(call: CorpusCall) -> str:
    """Return the text of the function, a statement for each statement of the program."""
    return "\n".join(["def work(arrays):", *(f"    {line}" for line in _Writer(call).lines())])


def _program(case: CorpusCase) -> Program:
    return CorpusCall(case, "float64", "KJI", case.domain).compiled.program


def _is_able(program: Program) -> bool:
    every = [s for body in program_bodies(program) for s in statements(body)]
    return (
        all(computation.order is Order.PARALLEL for computation in program.computations)
        and not (program.made or program.tables or program.lookups or program.regions)
        and not program.components
        and not any(isinstance(one, While) for one in every)
        and not any(irregular(body) for body in program_bodies(program))
    )


class _Writer:
    """Writes the statements of a program one after the other, each on all points that need it."""

    def __init__(self, call: CorpusCall, *, pure: bool = False) -> None:
        self.call, self.pure = call, pure
        self.program, self.facts = call.compiled.program, call.compiled.facts
        self.axes = {field.name: field.axes for field in self.program.fields}
        self.masks = 0

    def lines(self) -> Iterator[str]:
        """Yield the lines; what lies outside the domain stays as it is."""
        fields = [field for field in self.program.fields if field.name not in self.program.made]
        yield from (f"f_{field.name} = arrays[{field.name!r}]" for field in fields)
        some = next(field.name for field in fields if len(field.axes) == 3)
        for temporary in self.program.temporaries:
            yield f"{_variable(temporary.name)} = library.zeros_like(f_{some})"
        extents = self.facts.statements
        for computation, blocks in zip(self.program.computations, extents, strict=True):
            for block, bodies in zip(computation.blocks, blocks, strict=True):
                for statement, extent in zip(block.body, bodies, strict=True):
                    box = self._box(extent, block.interval)
                    yield from self._statement(statement, box, "")

    def _box(self, extent: Horizontal, interval: Interval) -> _Box:
        ni, nj, nk = self.call.domain
        (il, ih), (jl, jh) = extent
        levels = (interval.start.level(nk), interval.end.level(nk))
        return (il, ni + ih), (jl, nj + jh), levels

    def _statement(self, statement: Statement, box: _Box, mask: str) -> Iterator[str]:
        match statement:
            case Assign(target, value):
                place, new = self._place(target, box, (0, 0, 0)), self._value(value, box)
                value = f"library.where({mask}, {new}, {place})" if mask else new
                whole, _, index = place.partition("[")
                yield (
                    f"{whole} = {whole}.at[{index}.set({value})"
                    if self.pure
                    else f"{place} = {value}"
                )
            case If(condition, then, otherwise):
                self.masks += 1
                test = f"m{self.masks}"
                yield f"{test} = {self._value(condition, box)}"
                for body, sign in ((then, ""), (otherwise, "~")):
                    inner = f"({mask} & {sign}{test})" if mask else f"{sign}{test}"
                    for one in body:
                        yield from self._statement(one, box, inner)
            case While():
                raise NotImplementedError
            case _:
                assert_never(statement)

    def _place(self, name: str, box: _Box, offset: tuple[int, int, int]) -> str:
        """Return where a box lies in an array; temporaries have the shape of fields."""
        axes = self.axes.get(name, tuple(Axis))
        parts = {
            axis: f"{low + halo + step}:{high + halo + step}" if axis in axes else ":"
            for axis, (low, high), halo, step in zip(Axis, box, self.call.halo, offset, strict=True)
        }
        return f"{_variable(name)}[{', '.join(parts[Axis(axis)] for axis in self.call.layout)}]"

    def _value(self, expr: Expr, box: _Box) -> str:
        def inner(node: Expr) -> str:
            return self._value(node, box)

        match expr:
            case Number(_, value):
                return repr(value)
            case Parameter(name):
                return repr(self.call.case.scalars[name])
            case Read(name, offset):
                return self._place(name, box, offset)
            case Unary("not", operand):
                return f"(~{inner(operand)})"
            case Unary(_, operand):
                return f"(-{inner(operand)})"
            case Binary(operator, left, right):
                return f"({inner(left)} {_LOGICAL.get(operator, operator)} {inner(right)})"
            case Select(condition, then, otherwise):
                return f"library.where({inner(condition)}, {inner(then)}, {inner(otherwise)})"
            case Cast(_, operand):
                return inner(operand)
            case Call(function, arguments):
                return _call(function, [inner(one) for one in arguments])
            case _:
                assert_never(expr)


def _variable(name: str) -> str:
    """Return the variable of a name, in which a second life of a temporary has a point."""
    return f"f_{name.replace('.', '_')}"


def _call(function: str, values: list[str]) -> str:
    if function in ("min", "max"):
        test = f"{values[0]} {'<' if function == 'min' else '>'} {values[1]}"
        return f"library.where({test}, {values[0]}, {values[1]})"
    if function == "pow":
        return f"({values[0]} ** {values[1]})"
    if function in _SAME:
        return f"library.{function}({values[0]})"
    raise NotImplementedError(function)
