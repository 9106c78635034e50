"""Axes along which a program reads neighbours, or its result depends on positions."""

from __future__ import annotations

from collections.abc import Sequence

from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Bound, Field, Interval, Program
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import assignments, program_bodies, reads

__all__ = ["neighbour_axes", "position_axes"]

_WHOLE = Interval(Bound(False, 0), Bound(True, 0))


def neighbour_axes(field: Field, facts: Facts) -> list[Axis]:
    """Return the axes along which a field is read beside the point."""
    extents = zip(Axis, facts.fields[field.name], strict=True)
    return [axis for axis, (low, high) in extents if low < 0 or high > 0]


def position_axes(program: Program, used: Sequence[Field]) -> list[Axis]:
    """Return the axes along which the result depends on the position of a point.

    These are I and J for indices and regions, and K for levels: their indices, intervals, other
    levels that are read, and values that go from level to level in what has no levels itself.
    """
    read = {one.name for body in program_bodies(program) for one in reads(body)}
    axes = {one.axis for one in program.positions if one.name in read}
    if _depends_on_levels(program, used):
        axes.add(Axis.K)
    return [axis for axis in Axis if axis in axes]


def _depends_on_levels(program: Program, used: Sequence[Field]) -> bool:
    if any(block.interval != _WHOLE for one in program.computations for block in one.blocks):
        return True
    flat = {one.name for one in program.scratch if not one.loops}
    if any(Axis.K in field.axes for field in used):
        flat |= {field.name for field in used if field.written and Axis.K not in field.axes}
    tables = {lookup.name for lookup in program.lookups}
    for body in program_bodies(program):
        if any(one.level is not None or one.target in flat for one in assignments(body)):
            return True
        own = (one for one in reads(body) if one.name not in tables)
        if any(one.offset[2] or one.level is not None for one in own):
            return True
    return False
