"""Count points of fields from others than the program does.

Where face `i` of a program is the value with the number `i - 1`, a read at an offset is one at an
offset less. A statement that assigns to such fields alone moves with them::

    u[1, 0, 0]           u[0, 0, 0]
    u = h - h[-1, 0, 0]  u = h[1, 0, 0] - h

What other statements assign, or read beside the point afterwards, is kept as a temporary, which the
field gets in the end from its neighbour::

    u = a                u. = a    ...    u = u.[1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from halocline_engine.ir.nodes import (
    Assign,
    Block,
    Bound,
    Computation,
    Expr,
    Field,
    If,
    Interval,
    Offset,
    Program,
    Read,
    Scratch,
    Statement,
    Temporary,
    While,
)
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import reads, rewrite_statement, targets_of

__all__ = ["shift_fields"]

_ALL = Interval(Bound(False, 0), Bound(True, 0))


def shift_fields(
    program: Program, moves: Mapping[str, tuple[int, int]], complete: Collection[str]
) -> Program:
    """Return the program on fields whose point `(0, 0)` is the program's point of their move.

    Those that are `complete` are written everywhere before anything reads them.
    """
    written = {f.name: f for f in program.fields if f.written}
    moved = {name: moves[name] for name in written if any(moves.get(name, (0, 0)))}
    going = _moving(program, moved)
    kept = {name: written[name] for name in moved if name not in going}
    names = {name: f"{name}." for name in kept}
    planes = {name: f for name, f in kept.items() if Axis.K not in f.axes}
    before = [
        _copied(names[name], Read(name, _plus((0, 0, 0), moves[name], -1), field.dtype), field)
        for name, field in kept.items()
        if name not in complete
    ]
    after = [
        _copied(name, Read(names[name], (*moves[name], 0), field.dtype), field)
        for name, field in kept.items()
    ]

    def moving(statement: Statement) -> Statement:
        (own,) = {going.get(name, (0, 0)) for name in targets_of((statement,))} or {(0, 0)}

        def read(expr: Expr) -> Expr:
            if not isinstance(expr, Read):
                return expr
            here = _plus(expr.offset, own, 1)
            if expr.name in names:
                return replace(expr, name=names[expr.name], offset=here)
            return replace(expr, offset=_plus(here, moves.get(expr.name, (0, 0)), -1))

        return _renamed(rewrite_statement(statement, read), names)

    computations = (
        replace(
            one,
            blocks=tuple(
                replace(block, body=tuple(map(moving, block.body))) for block in one.blocks
            ),
        )
        for one in program.computations
    )
    fields = (
        replace(one, read=one.name not in complete) if one.name in kept else one
        for one in program.fields
    )
    flat = (Field(names[name], f.dtype, f.axes, True, True) for name, f in planes.items())
    made = (Temporary(names[name], f.dtype) for name, f in kept.items() if name not in planes)
    return replace(
        program,
        fields=(*fields, *flat),
        temporaries=(*program.temporaries, *made),
        scratch=(*program.scratch, *(Scratch(names[name]) for name in planes)),
        computations=(*before, *computations, *after),
    )


def _moving(
    program: Program, moved: Mapping[str, tuple[int, int]]
) -> Mapping[str, tuple[int, int]]:
    """Return the fields of which all statements that assign to them can move with them.

    Such a statement assigns to nothing that moves otherwise. It reads nothing beside its own point
    that has been assigned, but for temporaries of earlier computations, and nothing else reads what
    it assigns.
    """
    written = {field.name for field in program.fields if field.written}
    going = dict(moved)
    while True:
        refused: set[str] = set()
        assigned: set[str] = set()
        for computation in program.computations:
            bodies = [block.body for block in computation.blocks]
            inside = {name for body in bodies for name in targets_of(body)}
            for statement in (one for body in bodies for one in body):
                targets = targets_of((statement,))
                several = {going.get(name, (0, 0)) for name in targets}
                own = next(iter(several)) if len(several) == 1 else (0, 0)
                late = (assigned | set(targets)) & written
                if computation.order is not Order.PARALLEL:
                    late |= inside
                for read in reads((statement,)):
                    beside = _plus(_plus(read.offset, own, 1), going.get(read.name, (0, 0)), -1)
                    if read.name in late and (any(beside[:2]) and beside != read.offset):
                        refused |= {read.name, *targets} & going.keys()
                if len(several) > 1:
                    refused |= set(targets) & going.keys()
                assigned |= set(targets)
        if not refused:
            return going
        going = {name: move for name, move in going.items() if name not in refused}


def _copied(target: str, value: Read, field: Field) -> Computation:
    """Return what copies a value to all levels; what has none is assigned level by level."""
    order = Order.PARALLEL if Axis.K in field.axes else Order.FORWARD
    return Computation(order, (Block(_ALL, (Assign(target, value),)),))


def _plus(offset: Offset, move: tuple[int, int], times: int) -> Offset:
    return offset[0] + times * move[0], offset[1] + times * move[1], offset[2]


def _renamed(statement: Statement, names: Mapping[str, str]) -> Statement:
    """Return a statement that assigns to other names."""
    match statement:
        case Assign(target):
            return replace(statement, target=names.get(target, target))
        case If(_, then, otherwise):
            return replace(
                statement,
                then=tuple(_renamed(one, names) for one in then),
                otherwise=tuple(_renamed(one, names) for one in otherwise),
            )
        case While(_, body):
            return replace(statement, body=tuple(_renamed(one, names) for one in body))
        case _:
            assert_never(statement)
