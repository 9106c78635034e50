"""Split an `if` whose statements need each other's neighbours.

After this, no `If` assigns a temporary and reads it at a horizontal offset, or assigns a field and
a temporary at a level: such an `If` becomes its condition, kept in a temporary, and one masked
statement after the other. So every top-level statement can run on all its points in any order, and
has one extent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Expr,
    If,
    Location,
    Program,
    Read,
    Statement,
    Temporary,
    Unary,
)
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import assignments, is_entangled, reads_of

__all__ = ["split_conditionals"]


def split_conditionals(program: Program) -> Program:
    """Return the program with the conditionals split that need it."""
    names = frozenset(temporary.name for temporary in program.temporaries)
    masks = _Masks(names, frozenset(program.regions))
    computations = tuple(
        replace(
            computation,
            blocks=tuple(
                replace(block, body=tuple(s for t in block.body for s in _split(t, masks)))
                for block in computation.blocks
            ),
        )
        for computation in program.computations
    )
    if computations == program.computations:
        return program
    return replace(
        program,
        computations=computations,
        temporaries=(*program.temporaries, *(Temporary(n, DType.BOOL) for n in masks.made)),
    )


@dataclass(slots=True)
class _Masks:
    """Names of new temporaries; the dot keeps them apart from the names of a text."""

    temporaries: frozenset[str]
    regions: frozenset[str]
    made: list[str] = field(default_factory=list[str])

    def stays(self, condition: Expr) -> bool:
        """Whether a condition is one of regions or scalars, which no statement changes."""
        return all(read.name in self.regions for read in reads_of(condition))

    def fresh(self) -> str:
        """Return the next name."""
        self.made.append(f"mask.{len(self.made)}")
        return self.made[-1]


def _split(statement: Statement, masks: _Masks) -> Iterator[Statement]:
    """Yield the statement, or what it is split into."""
    if not isinstance(statement, If) or not _must_split(statement, masks.temporaries):
        yield statement
        return
    test = yield from _kept(statement.condition, statement.location, masks)
    for inner in statement.then:
        yield from _under(test, inner, masks)
    for inner in statement.otherwise:
        yield from _under(Unary("not", test, DType.BOOL), inner, masks)


def _must_split(statement: If, temporaries: frozenset[str]) -> bool:
    """Whether its statements need extents of their own, which one with a level cannot get later."""
    if is_entangled(statement, temporaries):
        return True
    several = list(assignments((statement,)))
    wide = any(one.level is not None and one.target in temporaries for one in several)
    return wide and any(one.target not in temporaries for one in several)


def _under(test: Expr, statement: Statement, masks: _Masks) -> Iterator[Statement]:
    """Yield the statement under a test that is kept, split again where it must be."""
    if not isinstance(statement, If) or not _must_split(statement, masks.temporaries):
        yield If(test, (statement,), (), statement.location)
        return
    condition = yield from _kept(statement.condition, statement.location, masks)
    for branch, expr in (
        (statement.then, condition),
        (statement.otherwise, Unary("not", condition, DType.BOOL)),
    ):
        for nested in branch:
            yield from _under(Binary("and", test, expr, DType.BOOL), nested, masks)


def _kept(condition: Expr, location: Location, masks: _Masks) -> Generator[Statement, None, Expr]:
    """Return a condition that no statement changes; yield the assignment that keeps it."""
    if masks.stays(condition):
        return condition
    mask = masks.fresh()
    yield Assign(mask, condition, location)
    return Read(mask, (0, 0, 0), DType.BOOL)
