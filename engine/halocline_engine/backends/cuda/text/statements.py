"""Printer of the statements of one point as CUDA C++."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from halocline_engine.backends.cuda.model.entries import Kind, Stride
from halocline_engine.backends.cuda.text.expressions import expression_text
from halocline_engine.ir.nodes import Assign, Expr, If, Offset, Read, Statement, While
from halocline_engine.ir.types import DType

__all__ = ["HERE", "Scope", "body_lines", "element"]

HERE: Offset = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Scope:
    """Meaning of the names of a kernel in its code.

    `arrays`, `scalars` and `registers` map the program's names to those of the code; `kinds` gives
    each array the number of its stride kind and that kind; the fields in `guarded` are written only
    where the point is inside the domain, and those in `aligned` have their points at multiples of
    16 bytes. `point` gives the variables for how many points along I and J the point lies behind
    the one that offsets are counted from; `values` has places of elements that are loaded already,
    `outputs` those of elements that are stored later, and `behind` the statement that follows each
    assignment of one of them. Divisions by what is in `divisors` are products with its reciprocal.
    Of the arrays in `stacked`, a thread has its own column, with so many elements from a level to
    the next. If not empty, `quotient` is the text of a division, with gaps for its operands.
    """

    arrays: Mapping[str, str]
    kinds: Mapping[str, tuple[int, Kind]]
    scalars: Mapping[str, str]
    dtypes: Mapping[str, DType]
    fields: frozenset[str]
    guarded: frozenset[str]
    registers: Mapping[str, str]
    aligned: frozenset[str] = frozenset()
    point: tuple[str, str] = ("", "")
    values: Mapping[tuple[str, Offset], str] = field(default_factory=dict[tuple[str, Offset], str])
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    behind: Mapping[str, str] = field(default_factory=dict[str, str])
    divisors: frozenset[Expr] = frozenset()
    stacked: Mapping[str, int] = field(default_factory=dict[str, int])
    quotient: str = ""


def element(scope: Scope, name: str, offset: Offset, level: str | None = None) -> str:
    """Return an element of an array at an offset from the point, or at a level of its column."""
    if name in scope.stacked:
        k = f"(k {offset[2]:+})" if offset[2] else "k"
        k = k if level is None else f"(int)({level})"
        step = scope.stacked[name]
        return f"c_{scope.arrays[name]}[{k}{f' * {step}' if step != 1 else ''}]"
    number, kind = scope.kinds[name]
    text = f"o{number}"
    for axis, stride, more in zip("ij", kind, scope.point, strict=False):
        if more and stride is not Stride.NONE:
            text += f" + {more}" if stride is Stride.ONE else f" + {more} * s{number}{axis}"
    if level is not None:
        offset = (*offset[:2], 0)
        if kind[2] is not Stride.NONE:
            # What comes first is the same for all levels.
            by = "" if kind[2] is Stride.ONE else f" * s{number}k"
            text += f" - (index_t)k{by} + (index_t)({level}){by}"
    for axis, stride, steps in zip("ijk", kind, offset, strict=True):
        if steps == 0 or stride is Stride.NONE:
            continue
        sign, count = ("+" if steps > 0 else "-"), abs(steps)
        if stride is Stride.ONE:
            text += f" {sign} {count}"
        else:
            text += f" {sign} {f'{count} * ' if count > 1 else ''}s{number}{axis}"
    return f"{scope.arrays[name]}[{text}]"


def body_lines(body: tuple[Statement, ...], scope: Scope) -> list[str]:
    """Return the lines of a body."""
    return _Writer(scope).lines(body)


@dataclass(slots=True)
class _Writer:
    """Writes statements in text order."""

    scope: Scope

    def lines(self, body: tuple[Statement, ...]) -> list[str]:
        lines: list[str] = []
        for statement in body:
            match statement:
                case Assign(target, value, _, level):
                    at = None if level is None else self._value(level)
                    lines.append(self._assign(target, self._value(value), at))
                case While(condition, inner):
                    lines.append(f"while ({self._condition(condition)}) {{")
                    lines += [f"  {line}" for line in self.lines(inner)]
                    lines.append("}")
                case If(condition, then, otherwise):
                    lines.append(f"if ({self._value(condition)}) {{")
                    lines += [f"  {line}" for line in self.lines(then)]
                    if otherwise:
                        lines.append("} else {")
                        lines += [f"  {line}" for line in self.lines(otherwise)]
                    lines.append("}")
                case _:
                    assert_never(statement)
        return lines

    def _value(self, expr: Expr) -> str:
        scalar = self.scope.scalars.__getitem__
        return expression_text(expr, self._read, scalar, self.scope.divisors, self.scope.quotient)

    def _condition(self, expr: Expr) -> str:
        """Return the condition of a loop; the compiler does not see what changes its values."""
        scope = self.scope
        return expression_text(
            expr,
            lambda read: f"opaque({self._read(read)})",
            scope.scalars.__getitem__,
            scope.divisors,
            scope.quotient,
        )

    def _read(self, read: Read) -> str:
        if read.name in self.scope.registers:
            return self.scope.registers[read.name]
        if read.level is not None:
            return element(self.scope, read.name, read.offset, self._value(read.level))
        if read.offset == HERE and read.name in self.scope.outputs:
            return self.scope.outputs[read.name]
        loaded = self.scope.values.get((read.name, read.offset))
        return loaded or element(self.scope, read.name, read.offset)

    def _assign(self, target: str, value: str, level: str | None) -> str:
        scope = self.scope
        if target in scope.registers:
            return f"{scope.registers[target]} = {value};"
        if target in scope.outputs:
            behind = f" {scope.behind[target]}" if target in scope.behind else ""
            return f"{scope.outputs[target]} = {value};{behind}"
        place = element(scope, target, HERE, level)
        guard = "if (inside) " if target in scope.guarded else ""
        return f"{guard}{place} = {value};"
