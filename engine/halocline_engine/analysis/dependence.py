"""Refuse programs whose result would depend on the order in which points are computed.

The rules are GT4Py's, so that halos of written fields never matter and every statement can run on
all its points at once: see `check`.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.analysis.extents import horizontal_needs
from halocline_engine.errors import DependenceError
from halocline_engine.ir.extent import CENTRE, Horizontal
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Block,
    Computation,
    Field,
    If,
    Location,
    Number,
    Program,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import (
    assignments,
    bodies_of,
    head,
    program_bodies,
    reads,
    reads_of,
    statements,
    targets_of,
)

__all__ = ["check"]


def check(program: Program) -> None:
    """Raise `DependenceError` at the first rule that the program breaks.

    * write-axes: fields are written with all of I, J, K, or with I, J in FORWARD and BACKWARD.
    * self-offset: no statement reads its own target at a horizontal offset.
    * block-offset: what a block writes, it does not read at a horizontal offset; but a temporary
      whose first assignment stands in that block.
    * level-offset: what a PARALLEL block writes, it does not read on another level; but a block of
      one level.
    * written-extent: a field that is written is needed on the domain only, in the whole program.
    * while-offset: what the body of a `while` writes, the `while` does not read at a horizontal
      offset.
    * region-offset: what was written, not in a region, is not read at a horizontal offset in one.
    * loop-carried-extent: no level needs ever more neighbours of the level before.
    """
    for computation in program.computations:
        for block in computation.blocks:
            _write_axes(program, computation, block)
    first = _first_blocks(program)
    number = 0
    for computation in program.computations:
        for block in computation.blocks:
            own = {name for name, where in first.items() if where == number}
            _horizontal(block, own)
            _loops(block)
            if computation.order is Order.PARALLEL and not _is_one_level(block):
                _vertical(program, block)
            number += 1
    _regions(program)
    _written_extents(program)


def _first_blocks(program: Program) -> dict[str, int]:
    """Return for each temporary the number of the block that assigns it first."""
    temporaries = {temporary.name for temporary in program.temporaries}
    first: dict[str, int] = {}
    for number, body in enumerate(program_bodies(program)):
        for assign in assignments(body):
            if assign.target in temporaries:
                first.setdefault(assign.target, number)
    return first


def _is_one_level(block: Block) -> bool:
    start, end = block.interval.start, block.interval.end
    return start.from_end == end.from_end and end.offset - start.offset == 1


def _direct_reads(body: tuple[Statement, ...]) -> Iterator[tuple[Read, Location]]:
    """Yield every read with the place of the statement whose value or condition it stands in."""
    for statement in statements(body):
        for read in (read for expr in head(statement) for read in reads_of(expr)):
            yield read, statement.location


def _write_axes(program: Program, computation: Computation, block: Block) -> None:
    fields = {field.name: field for field in program.fields}
    for assign in assignments(block.body):
        field = fields.get(assign.target)
        if field is None or field.axes == tuple(Axis):
            continue
        axes = ", ".join(axis.value for axis in field.axes)
        if field.axes != (Axis.I, Axis.J):
            raise _fault(
                f"Field '{field.name}' has the axes ({axes}) and cannot be written.",
                "Only fields with the axes (I, J, K) are written, and in FORWARD and BACKWARD "
                "computations those with (I, J).",
                "write-axes",
                assign.location,
            )
        if computation.order is Order.PARALLEL:
            raise _fault(
                f"Field '{field.name}' has the axes (I, J) and is written in a PARALLEL "
                "computation, where all levels would write the same point.",
                "Use computation(FORWARD) or computation(BACKWARD).",
                "write-axes",
                assign.location,
            )


def _horizontal(block: Block, own: set[str]) -> None:
    """Check the rules self-offset and block-offset; `own` temporaries begin in this block."""
    for assign in assignments(block.body):
        for read in reads_of(assign.value):
            if read.name == assign.target and read.offset[:2] != (0, 0):
                raise _fault(
                    f"'{assign.target}' is assigned from its own neighbour at the offset "
                    f"{_shown(read)}.",
                    "Assign to another name, so that every point reads old values.",
                    "self-offset",
                    assign.location,
                )
    written = {assign.target for assign in assignments(block.body)} - own
    for read, location in _direct_reads(block.body):
        if read.name in written and read.offset[:2] != (0, 0):
            raise _fault(
                f"'{read.name}' is written and read at the offset {_shown(read)} in the "
                "same block.",
                "Assign to a new name: a block reads at offsets only temporaries that it assigns "
                "first.",
                "block-offset",
                location,
            )


def _loops(block: Block) -> None:
    """Check the rule while-offset."""
    for loop in (one for one in statements(block.body) if isinstance(one, While)):
        written = targets_of(loop.body)
        for read in reads((loop,)):
            if read.name in written and read.offset[:2] != (0, 0):
                raise _fault(
                    f"'{read.name}' is written in a 'while' that reads it at the offset "
                    f"{_shown(read)}.",
                    "Read a copy that is assigned before the 'while'.",
                    "while-offset",
                    loop.location,
                )


def _regions(program: Program) -> None:
    """Check the rule region-offset."""
    written: set[str] = set()
    for body in program_bodies(program):
        for statement in body:
            written |= set(_outside_regions(statement, program))
            if program.regions:
                _region(statement, program, written)


def _outside_regions(statement: Statement, program: Program) -> Iterator[str]:
    """Yield what a statement assigns outside of regions."""
    if isinstance(statement, Assign):
        yield statement.target
    elif not _is_region(statement, program):
        for inner in (one for body in bodies_of(statement) for one in body):
            yield from _outside_regions(inner, program)


def _is_region(statement: Statement, program: Program) -> bool:
    return isinstance(statement, If) and any(
        read.name in program.regions for read in reads_of(statement.condition)
    )


def _region(statement: Statement, program: Program, written: set[str]) -> None:
    """Check a statement, or what is in it where it is no region."""
    if not _is_region(statement, program):
        for inner in (one for body in bodies_of(statement) for one in body):
            _region(inner, program, written)
        return
    for read, location in _direct_reads((statement,)):
        if read.name in written and read.offset[:2] != (0, 0):
            raise _fault(
                f"'{read.name}' is written before, and read at the offset {_shown(read)} in"
                " a region.",
                "Assign the value at the offset to a temporary before the region, and read that.",
                "region-offset",
                location,
            )


def _vertical(program: Program, block: Block) -> None:
    """Check the rule level-offset in a PARALLEL block of more than one level."""
    written = {assign.target for assign in assignments(block.body)}
    for read, location in _direct_reads(block.body):
        if read.name in written and read.offset[2]:
            temporary = any(read.name == t.name for t in program.temporaries)
            raise _fault(
                f"'{read.name}' is written and read on another level, at the offset "
                f"{_shown(read)}, in the same PARALLEL block.",
                "Assign it in a computation of its own before."
                if temporary
                else "Use computation(FORWARD) or computation(BACKWARD), or write another field.",
                "level-offset",
                location,
            )


def _written_extents(program: Program) -> None:
    """Check the rules written-extent and loop-carried-extent."""
    needs = horizontal_needs(program).names
    for field in program.fields:
        if field.written and needs[field.name] != CENTRE:
            read, location = _first_offset_read(program, field)
            if read is not None:
                raise _fault(
                    f"Field '{field.name}' is written, but its neighbour at the offset "
                    f"{_shown(read)} is read.",
                    "Write another field, or read a copy in a temporary that is assigned before "
                    "and not written back.",
                    "written-extent",
                    location,
                )
            raise _fault(
                f"Field '{field.name}' is written, but through temporaries it is needed up to "
                f"{_reach(needs[field.name])} outside the domain.",
                "Write another field: the halo of a written field has no defined value.",
                "written-extent",
                location,
            )


def _first_offset_read(program: Program, field: Field) -> tuple[Read | None, Location]:
    """Return the first read at a horizontal offset, or None and the place of the first read."""
    found = [
        (read, location)
        for body in program_bodies(program)
        for read, location in _direct_reads(body)
        if read.name == field.name
    ]
    for read, location in found:
        if read.offset[:2] != (0, 0):
            return read, location
    return None, found[0][1]


def _shown(read: Read) -> str:
    i, j, k = read.offset
    if isinstance(read.level, Number):
        return f"({i}, {j})"  # a temporary over I and J
    return f"({i}, {j}, at a level)" if k == ANY_LEVEL else f"({i}, {j}, {k})"


def _reach(extent: Horizontal) -> str:
    """Say how far an extent reaches."""
    reach = {axis: max(-low, high) for axis, (low, high) in zip("IJ", extent, strict=True)}
    return " and ".join(f"{cells} points along {axis}" for axis, cells in reach.items() if cells)


def _fault(message: str, hint: str, rule: str, location: Location) -> DependenceError:
    return DependenceError(
        message, hint=hint, rule=rule, line=location.line, column=location.column
    )
