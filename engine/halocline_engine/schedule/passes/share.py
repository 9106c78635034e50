"""Compute equal subexpressions of a kernel once.

After this, no value that occurs twice in straight-line code of a section is written out twice: it
has a register, assigned just before the statement that needs it first. Compilers would find most of
this themselves, but their time grows with the size of the text, and a load that stands on both
sides of a store to another array they must repeat. Arithmetic of numbers and scalars stays as it
is: it is one value for all points, which backends can see. So does what only narrow regions read:
all other points would load it in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, assert_never

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    If,
    Number,
    Parameter,
    Read,
    Select,
    Statement,
    Temporary,
    Unary,
    While,
)
from halocline_engine.ir.walk import (
    Access,
    bodies_of,
    children,
    head,
    is_uniform,
    reads_of,
    rewrite,
    targets_of,
)
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.rare import narrow_masks, rare_reads
from halocline_engine.schedule.stages import Names
from halocline_engine.schedule.storage.temporaries import map_kernels

__all__ = ["share"]

#: What makes two expressions equal: the node's own data and the numbers of its operands.
_Key: TypeAlias = tuple[tuple[int, ...], tuple[object, ...]]


def share(schedule: Schedule) -> Schedule:
    """Return the schedule with repeated values in registers."""
    names = Names({t.name: t.dtype for t in schedule.program.temporaries})
    narrow = narrow_masks(schedule.program)
    return replace(
        schedule, steps=map_kernels(schedule.steps, lambda kernel: _kernel(kernel, names, narrow))
    )


def _kernel(kernel: Kernel, names: Names, narrow: frozenset[str]) -> Kernel:
    known = set(names.types)
    registers = frozenset(t.name for t in kernel.registers)
    sections = tuple(
        replace(
            section,
            body=_Scope(names, registers, rare_reads(section.body, narrow)).body(section.body),
        )
        for section in kernel.sections
    )
    new = [Temporary(name, dtype) for name, dtype in names.types.items() if name not in known]
    return replace(kernel, sections=sections, registers=(*kernel.registers, *new))


class _Scope:
    """Straight-line code: numbers its values, then rewrites it with the repeated ones named."""

    def __init__(self, names: Names, registers: frozenset[str], rare: frozenset[Access]) -> None:
        self._names = names
        self._registers = registers
        self._rare = rare
        self._numbers: dict[_Key, int] = {}
        self._uses: list[int] = []
        self._named: dict[int, str] = {}

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return the statements with assignments to registers before them."""
        versions: dict[str, int] = {}
        counted: list[int] = []
        for statement in body:
            for value in _once(statement):
                self._count(value, versions, counted)
            _advance(versions, statement)
        numbers = iter(counted)
        new: list[Statement] = []
        for statement in body:
            values = [self._rewrite(one, numbers, new.append) for one in _once(statement)]
            new.append(self._with(statement, values))
        return tuple(new)

    def _with(self, statement: Statement, values: list[Expr]) -> Statement:
        """Return a statement with other expressions, and with the code that it holds done."""
        inner = [
            _Scope(self._names, self._registers, self._rare).body(one)
            for one in bodies_of(statement)
        ]
        match statement:
            case Assign(level=None):
                return replace(statement, value=values[0])
            case Assign():
                return replace(statement, level=values[0], value=values[1])
            case If():
                return replace(statement, condition=values[0], then=inner[0], otherwise=inner[1])
            case While():
                return replace(statement, body=inner[0])
            case _:
                assert_never(statement)

    def _count(self, value: Expr, versions: dict[str, int], counted: list[int]) -> None:
        """Give every part of a value a number, and count how many different values use each.

        The numbers are appended to `counted`, those of operands first.
        """
        stack: list[int] = []

        def visit(expr: Expr) -> Expr:
            key = _key(expr, stack, versions)
            if key not in self._numbers:
                self._numbers[key] = len(self._uses)
                self._uses.append(0)
                for operand in key[0]:
                    self._uses[operand] += 1
            stack.append(self._numbers[key])
            counted.append(stack[-1])
            return expr

        rewrite(value, visit)
        self._uses[stack.pop()] += 1

    def _rewrite(
        self, value: Expr, numbers: Iterator[int], emit: Callable[[Statement], None]
    ) -> Expr:
        def visit(expr: Expr) -> Expr:
            number = next(numbers)
            if self._uses[number] < 2 or self._is_at_hand(expr):
                return expr
            if number not in self._named:
                self._named[number] = self._names.fresh("common", expr.dtype)
                emit(Assign(self._named[number], expr))
            return Read(self._named[number], (0, 0, 0), expr.dtype)

        return rewrite(value, visit)

    def _is_at_hand(self, expr: Expr) -> bool:
        if is_uniform(expr) or (isinstance(expr, Read) and expr.name in self._registers):
            return True
        return bool(self._rare) and any((r.name, r.offset) in self._rare for r in reads_of(expr))


def _once(statement: Statement) -> tuple[Expr, ...]:
    """Return the expressions that a statement evaluates once, before all that it holds."""
    return () if isinstance(statement, While) else head(statement)


def _advance(versions: dict[str, int], statement: Statement) -> None:
    """Say that what the statement assigns has another value from here on."""
    for name in targets_of((statement,)):
        versions[name] = versions.get(name, 0) + 1


def _key(expr: Expr, stack: list[int], versions: dict[str, int]) -> _Key:
    """Return the key of an expression whose operands' numbers end the stack, and take them off."""
    count = len(children(expr))
    operands = tuple(stack[len(stack) - count :])
    del stack[len(stack) - count :]
    match expr:
        case Number(dtype, value):
            return operands, ("number", dtype, repr(value))
        case Read(name, offset):
            return operands, ("read", name, offset, versions.get(name, 0))
        case Parameter(name, _):
            return operands, ("parameter", name)
        case Unary(operator, _, dtype) | Binary(operator, _, _, dtype):
            return operands, (operator, dtype)
        case Call(function, _, dtype):
            return operands, ("call", function, dtype)
        case Select(_, _, _, dtype):
            return operands, ("select", dtype)
        case Cast(dtype, _):
            return operands, ("cast", dtype)
        case _:
            assert_never(expr)
