"""Loops of points that go in step, as text.

A loop whose turns differ from point to point has no vectors. Here some points, the lanes, take each
turn together: what a point holds from one turn to the next is in memory of the lanes, and a loop
over lanes computes one turn of those whose condition holds. Each point computes what it computes
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from halocline_engine.backends.cpu.builtins import SCOPES
from halocline_engine.ir.nodes import FMA, Assign, Binary, Call, Cast, Expr, If, Statement, While
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import (
    assignments,
    expressions,
    irregular,
    reads,
    statements,
    walk,
)
from halocline_engine.schedule.passes.cost import operations
from halocline_engine.schedule.storage.coverage import flow

__all__ = ["Lanes", "may_go_in_step"]

#: How many points go in step: with fewer, vectors and their loops begin and end more often.
_LANES = 64
#: The most nodes of a body: compilers take long for vectors of more.
_MOST_NODES = 2000
#: Additions of a turn from which on vectors gain more than waiting lanes, and memory, may cost.
_LEAST_WORK = 16
#: Functions that loops of vectors have.
_VECTORS = frozenset((FMA, "abs", "min", "max", "sqrt", "exp", "log", "pow", "floor", "ceil"))


def may_go_in_step(body: Sequence[Statement]) -> bool:
    """Return whether a body has loops with much to compute, and nothing that keeps vectors away."""
    loops = [one for one in statements(body) if isinstance(one, While)]
    if operations(expressions(loops)) < _LEAST_WORK or irregular(body):
        return False
    nodes = [node for value in expressions(body) for node in walk(value)]
    return len(nodes) <= _MOST_NODES and all(map(_has_vectors, nodes))


def _has_vectors(node: Expr) -> bool:
    match node:
        case Call(function, arguments):
            return function in _VECTORS and all(one.dtype.is_float for one in arguments)
        case Binary(operator):
            return operator != "%"
        case Cast(dtype, operand):
            return not (dtype.is_integer and operand.dtype.is_float)
        case _:
            return True


def _pieces(body: Sequence[Statement]) -> Iterator[tuple[Statement, ...]]:
    """Yield what each loop over lanes computes; a condition as what is assigned to no name."""
    for part in _parts(body):
        match part:
            case If(condition, then, otherwise):
                yield (Assign("", condition),)
                yield from _pieces(then)
                yield from _pieces(otherwise)
            case While(condition, inner) if _has_loops(inner):
                yield (Assign("", condition),)
                yield from _pieces(inner)
            case While():
                yield (part,)
            case _:
                yield part


def _parts(body: Sequence[Statement]) -> Iterator[If | While | tuple[Statement, ...]]:
    """Yield statements with loops, and the runs of statements between them."""
    run: list[Statement] = []
    for statement in body:
        if isinstance(statement, Assign) or not _has_loops((statement,)):
            run.append(statement)
            continue
        if run:
            yield tuple(run)
        run = []
        yield statement
    if run:
        yield tuple(run)


def _has_loops(body: Sequence[Statement]) -> bool:
    return any(isinstance(one, While) for one in statements(body))


def _touched(piece: Sequence[Statement]) -> set[str]:
    """Return the names that statements read or assign."""
    return {read.name for read in reads(piece)} | {one.target for one in assignments(piece)}


def _kept(body: Sequence[Statement], registers: Mapping[str, DType]) -> dict[str, DType]:
    """Return the registers that have a value between two loops over lanes, or two turns of one."""
    pieces = [*_pieces(body)]
    times = Counter(name for piece in pieces for name in _touched(piece))
    early = {name for piece in pieces for name in flow(piece)[0]}
    return {name: d for name, d in registers.items() if times[name] > 1 or name in early}


@dataclass(slots=True)
class Lanes:
    """Writes loops over lanes.

    `index` is the name of a point's index; `registers` has the types and, in `names`, the names of
    registers in the text. `spell` writes an expression, and `write` statements without loops, so
    deep. Scopes from `scope` on are for the memory of lanes.
    """

    index: str
    registers: Mapping[str, DType]
    names: Mapping[str, str]
    spell: Callable[[Expr], str]
    write: Callable[[tuple[Statement, ...], int], Iterator[str]]
    scope: int
    _kept: dict[str, tuple[int, DType]] = field(default_factory=dict[str, tuple[int, DType]])
    _masks: list[str] = field(default_factory=list[str])

    def lines(self, body: Sequence[Statement], low: str, high: str) -> Iterator[str]:
        """Yield the loop of a body over the points from `low` to before `high`."""
        kept = _kept(body, self.registers)
        self._kept = {name: (n, kept[name]) for n, name in enumerate(kept)}
        for number, dtype in self._kept.values():
            yield f"q{number} = pointer_{dtype}(room({_LANES * dtype.itemsize}))"
        yield f"beyond = {high}"
        yield f"for first in range({low}, beyond, {_LANES}):"
        yield f"    last = min(first + {_LANES}, beyond)"
        yield from _indented(self._block(body, None))

    def _block(self, body: Sequence[Statement], guard: str | None) -> Iterator[str]:
        """Yield the loops over lanes of statements, for the lanes that a mask has."""
        for part in _parts(body):
            match part:
                case If(condition, then, otherwise):
                    yield from self._branches(condition, then, otherwise, guard)
                case While(condition, inner) if _has_loops(inner):
                    mask, turn = self._mask(), f"turn{len(self._masks)}"
                    yield f"{mask} = pointer_bool(room({_LANES}))"
                    yield f"{turn} = 1"
                    yield f"while {turn}:"
                    yield f"    {turn} = 0"
                    test = [
                        *self._tested(condition, guard),
                        f"{turn} |= on",
                        self._held(mask, "on"),
                    ]
                    yield from _indented(self._over((Assign("", condition),), test))
                    yield from _indented(self._block(inner, mask))
                case While(condition, inner):
                    yield "turn = 1"
                    yield "while turn:"
                    yield "    turn = 0"
                    test = [*self._tested(condition, guard), "turn |= on", "if on:"]
                    yield from _indented(self._over((part,), [*test, *self.write(inner, 1)]))
                case _ if guard is None:
                    yield from self._over(part, self.write(part, 0))
                case _:
                    yield from self._over(part, [f"if {self._holds(guard)}:", *self.write(part, 1)])

    def _branches(
        self,
        condition: Expr,
        then: tuple[Statement, ...],
        otherwise: tuple[Statement, ...],
        guard: str | None,
    ) -> Iterator[str]:
        """Yield both branches of a condition, each for its lanes."""
        one, two = self._mask(), self._mask()
        yield from (f"{mask} = pointer_bool(room({_LANES}))" for mask in (one, two))
        known = "True" if guard is None else self._holds(guard)
        test = [*self._tested(condition, guard), self._held(one, "on")]
        test.append(self._held(two, f"{known} & (not on)"))
        yield from self._over((Assign("", condition),), test)
        yield from self._block(then, one)
        yield from self._block(otherwise, two)

    def _over(self, piece: Sequence[Statement], lines: Iterable[str]) -> Iterator[str]:
        """Yield a loop over lanes, with what it brings from their memory and puts back."""
        touched, assigned = _touched(piece), {one.target for one in assignments(piece)}
        yield f"for {self.index} in range(first, last):"
        for name in (one for one in self._kept if one in touched):
            yield f"    {self.names[name]} = load_{self._place(name)})"
        yield from _indented(lines)
        for name in (one for one in self._kept if one in assigned):
            yield f"    store_{self._place(name)}, {self.names[name]})"

    def _tested(self, condition: Expr, guard: str | None) -> list[str]:
        known = "" if guard is None else f"{self._holds(guard)} & "
        return [f"on = {known}{self.spell(condition)}"]

    def _mask(self) -> str:
        self._masks.append(f"m{len(self._masks)}")
        return self._masks[-1]

    def _holds(self, mask: str) -> str:
        return f"load_{self._scope(len(self._kept))}({mask}, {self.index} - first)"

    def _held(self, mask: str, value: str) -> str:
        return f"store_{self._scope(len(self._kept))}({mask}, {self.index} - first, {value})"

    def _place(self, name: str) -> str:
        number, dtype = self._kept[name]
        return f"{self._scope(number)}(q{number}, ({self.index} - first) * {dtype.itemsize}"

    def _scope(self, number: int) -> int:
        return min(self.scope + number, SCOPES - 1)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
