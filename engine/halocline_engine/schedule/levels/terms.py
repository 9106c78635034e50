"""Values of a column by what they are, wherever they stand: terms.

A level reads `a * b` at itself and at the level above; the level above reads the same value at
itself and at the one below. Both are one term, looked at from two levels: a reference is the number
of a term and how many levels away it is meant. Equal expressions are one term, moved or not, so
that threads which have a level each can tell what they all compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    Number,
    Offset,
    Parameter,
    Read,
    Select,
    Unary,
)
from halocline_engine.ir.walk import assignments, children
from halocline_engine.schedule.nodes import Kernel, Section

__all__ = ["Ref", "Term", "Terms", "same_head", "terms_of"]

#: A term, and how many levels above the one at hand.
Ref: TypeAlias = tuple[int, int]
_HERE: Offset = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Term:
    """A value at a level: the node it came from, and its operands seen from there.

    An `invariant` term is the same on all levels, and is referred to with 0 levels; one that is not
    `wide` is the same in all columns.
    """

    node: Expr
    operands: tuple[Ref, ...]
    invariant: bool
    wide: bool


@dataclass(frozen=True, slots=True)
class Terms:
    """All terms of a kernel, operands before what is made of them.

    `results` gives for each section the arrays that it writes, in order, and their values.
    """

    terms: tuple[Term, ...]
    results: tuple[tuple[tuple[str, Ref], ...], ...]


def terms_of(kernel: Kernel, flat: Set[str], narrow: Set[str]) -> Terms | None:
    """Return the terms of a PARALLEL kernel, or None where a point is more than its assignments.

    That is where a statement has a condition, or an array is read that the kernel writes, but for
    its new value at the point itself. Fields in `flat` have no levels; arrays in `narrow` are the
    same in all columns.
    """
    written = {a.target for section in kernel.sections for a in assignments(section.body)}
    registers = {register.name for register in kernel.registers}
    maker = _Maker(flat, narrow, written)
    results: list[tuple[tuple[str, Ref], ...]] = []
    for section in kernel.sections:
        found = maker.section(section, registers)
        if found is None:
            return None
        results.append(found)
    return Terms(tuple(maker.terms), tuple(results))


@dataclass(slots=True)
class _Maker:
    """Numbers terms; a node with operands is moved so that the first that has levels is at 0."""

    flat: Set[str]
    narrow: Set[str]
    written: Set[str]
    terms: list[Term] = field(default_factory=list[Term])
    numbers: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])

    def section(self, section: Section, registers: Set[str]) -> tuple[tuple[str, Ref], ...] | None:
        values: dict[str, Ref] = {}
        for statement in section.body:
            if not isinstance(statement, Assign):
                return None
            value = self.ref(statement.value, values)
            if value is None:
                return None
            values[statement.target] = value
        return tuple((name, ref) for name, ref in values.items() if name not in registers)

    def ref(self, expr: Expr, values: Mapping[str, Ref]) -> Ref | None:
        """Return the term of an expression, and where it is; `values` are those of assignments."""
        if isinstance(expr, Read):
            return self._read(expr, values)
        operands: list[Ref] = []
        for child in children(expr):
            operand = self.ref(child, values)
            if operand is None:
                return None
            operands.append(operand)
        placed = [shift for number, shift in operands if not self.terms[number].invariant]
        shift = placed[0] if placed else 0
        own = tuple(
            (number, 0 if self.terms[number].invariant else at - shift) for number, at in operands
        )
        wide = any(self.terms[number].wide for number, _ in own)
        term = Term(expr, own, invariant=not placed, wide=wide)
        return self._number((_head(expr), own), term), shift

    def _read(self, read: Read, values: Mapping[str, Ref]) -> Ref | None:
        if read.name in values and read.offset == _HERE:
            return values[read.name]
        if read.name in self.written:
            return None
        i, j, k = read.offset
        invariant = read.name in self.flat
        node = Read(read.name, (i, j, 0), read.dtype)
        term = Term(node, (), invariant=invariant, wide=read.name not in self.narrow)
        return self._number(("read", read.name, i, j), term), 0 if invariant else k

    def _number(self, key: tuple[object, ...], term: Term) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.terms)
            self.terms.append(term)
        return self.numbers[key]


def same_head(one: Term, two: Term) -> bool:
    """Return whether two terms are the same operation, whatever its operands."""
    return len(one.operands) == len(two.operands) and _head(one.node) == _head(two.node)


def _head(expr: Expr) -> tuple[object, ...]:
    """Return what tells a node from others with the same operands."""
    match expr:
        case Number(dtype, value):
            return "number", dtype, repr(value)
        case Read(name, offset):
            return "read", name, offset
        case Parameter(name):
            return "parameter", name
        case Unary(operator, _, dtype) | Binary(operator, _, _, dtype):
            return type(expr).__name__, operator, dtype
        case Call(function, _, dtype):
            return "call", function, dtype
        case Select(_, _, _, dtype):
            return "select", dtype
        case Cast(dtype):
            return "cast", dtype
        case _:
            assert_never(expr)
