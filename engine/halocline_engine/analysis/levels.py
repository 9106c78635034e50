"""Levels that a program touches: bounds of intervals and vertical offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.errors import DependenceError
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Block,
    Bound,
    Computation,
    Interval,
    Location,
    Program,
)
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import head, reads_of, statements

__all__ = ["field_levels", "least_levels", "refuse_outside_temporaries", "touched_levels"]


#: What is looked up at a level that only a run knows may be on any of the domain's.
_ALL = Interval(Bound(from_end=False, offset=0), Bound(from_end=True, offset=0))


@dataclass(frozen=True, slots=True)
class _Access:
    """A name used on an interval at a vertical offset (0 for a write)."""

    name: str
    interval: Interval
    offset: int
    location: Location


def least_levels(program: Program) -> int:
    """Return the smallest number of levels on which the program has a meaning.

    On it no interval is empty, reversed or overlaps another one of its computation, and no
    temporary is read outside the domain.
    """
    temporaries = {temporary.name for temporary in program.temporaries}
    by_intervals = (_least_of(computation) for computation in program.computations)
    by_reads = (_least_for(a) for a in _accesses(program) if a.name in temporaries)
    return max((0, *by_intervals, *by_reads))


def field_levels(program: Program, least: int) -> dict[str, Range]:
    """Return for each field its (k-, k+) relative to the domain's first and last level.

    A bound that is anchored at the other end of the domain moves with the number of levels; it
    counts as if there were `least` levels, but never as outside the domain: `touched_levels` says
    exactly what a given number of levels touches.
    """
    tables = {lookup.name for lookup in program.lookups}
    by_name: dict[str, list[_Access]] = {
        field.name: [] for field in program.fields if field.name not in tables
    }
    for access in _accesses(program):
        if access.name in by_name:
            by_name[access.name].append(access)
    return {
        field.name: _range(by_name.get(field.name, []), least) if Axis.K in field.axes else (0, 0)
        for field in program.fields
    }


def touched_levels(program: Program, levels: int) -> dict[str, Range]:
    """Return the first and the last level that each field with a K axis is touched at.

    Both count from the domain's first level, and may lie outside of it; fields that a domain of
    `levels` levels never touches are left out.
    """
    vertical = {field.name for field in program.fields if Axis.K in field.axes}
    vertical -= {lookup.name for lookup in program.lookups}
    found: dict[str, Range] = {}
    for access in _accesses(program):
        first = access.interval.start.level(levels) + access.offset
        last = access.interval.end.level(levels) + access.offset - 1
        if access.name in vertical and first <= last:
            low, high = found.get(access.name, (first, last))
            found[access.name] = (min(low, first), max(high, last))
    return found


def refuse_outside_temporaries(program: Program) -> None:
    """Raise `DependenceError` where a temporary is read above the last or below the first level."""
    temporaries = {temporary.name for temporary in program.temporaries}
    for access in _accesses(program):
        if access.name not in temporaries:
            continue
        start, end = access.interval.start, access.interval.end
        below = not start.from_end and start.offset + access.offset < 0
        above = end.from_end and end.offset + access.offset > 0
        if below or above:
            edge = "below the first level" if below else "above the last level"
            raise DependenceError(
                f"Temporary '{access.name}' is read at the vertical offset {access.offset:+d}, "
                f"which is {edge} of the domain, where it has no value.",
                hint="Shorten the interval so that the read stays inside the domain's levels.",
                rule="temporary-levels",
                line=access.location.line,
                column=access.location.column,
            )


def _accesses(program: Program) -> Iterator[_Access]:
    for computation in program.computations:
        for block in computation.blocks:
            yield from _block_accesses(block)


def _block_accesses(block: Block) -> Iterator[_Access]:
    for statement in statements(block.body):
        where = statement.location
        if isinstance(statement, Assign):
            levels = block.interval if statement.level is None else _ALL
            yield _Access(statement.target, levels, 0, where)
        for read in (read for expr in head(statement) for read in reads_of(expr)):
            if read.offset[2] == ANY_LEVEL:
                yield _Access(read.name, _ALL, 0, where)
            else:
                yield _Access(read.name, block.interval, read.offset[2], where)


def _least_of(computation: Computation) -> int:
    """Return how many levels a computation needs: what is anchored at either end must fit."""
    bounds = [bound for b in computation.blocks for bound in (b.interval.start, b.interval.end)]
    from_start = max((0, *(bound.offset for bound in bounds if not bound.from_end)))
    from_end = max((0, *(-bound.offset for bound in bounds if bound.from_end)))
    spans = any(
        b.interval.end.from_end and not b.interval.start.from_end for b in computation.blocks
    )
    return from_start + from_end + (1 if spans else 0)


def _least_for(access: _Access) -> int:
    """Return how many levels keep the read of a temporary inside the domain."""
    start, end = access.interval.start, access.interval.end
    low = -(start.offset + access.offset) if start.from_end else 0
    high = 0 if end.from_end else end.offset + access.offset
    return max(low, high)


def _range(accesses: list[_Access], least: int) -> Range:
    """Return the signed vertical range of one field."""
    if not accesses:
        return (0, 0)
    lows: list[int] = []
    highs: list[int] = []
    for access in accesses:
        start, end = access.interval.start, access.interval.end
        first = start.offset + access.offset
        last = end.offset + access.offset
        lows.append(max(0, least + first) if start.from_end else first)
        highs.append(last if end.from_end else min(0, last - least))
    return min(lows), max(highs)
