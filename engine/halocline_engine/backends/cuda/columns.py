"""Kernels of FORWARD and BACKWARD computations: a thread computes a column."""

from __future__ import annotations

from halocline_engine.backends.cuda.body import Scope, element
from halocline_engine.backends.cuda.carry import Carry, carry_of
from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.backends.cuda.frame import (
    bound,
    indent,
    inside,
    offsets,
    section_body,
    signed,
    touched,
)
from halocline_engine.backends.cuda.spell import TYPES
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Section

__all__ = ["columns"]


def columns(entry: Entry, scope: Scope) -> list[str]:
    """Return the body of a kernel whose threads compute columns."""
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    lines = [
        f"const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x){signed(i_low)};",
        "const int j = row + (int)(blockIdx.y * blockDim.y + threadIdx.y);",
        f"if (i >= ni{signed(i_high)} || j >= nj{signed(j_high)}) return;",
        *inside(scope),
    ]
    for section in entry.kernel.sections:
        lines += ["{", *indent(_column_section(section, entry, scope)), "}"]
    return lines


def _column_section(section: Section, entry: Entry, scope: Scope) -> list[str]:
    """Return the loop over the levels of a section, and before it what the loop carries."""
    order = entry.kernel.order
    carry = carry_of(section, order, frozenset(entry.arrays) - scope.guarded)
    start, end = bound(section.interval.start), bound(section.interval.end)
    if order is Order.FORWARD:
        first, loop = start, f"for (int k = {start}; k < {end}; ++k) {{"
    else:
        first, loop = f"{end} - 1", f"for (int k = {end} - 1; k >= {start}; --k) {{"
    names = touched(section)
    body = [
        *offsets([name for name in entry.arrays if name in names], scope),
        *section_body(section, scope, carry),
        *(f"before{n} = here{n};" for n in carry.numbers.values()),
    ]
    return [*_carry_in(carry, scope, first, f"{start} < {end}"), loop, *indent(body), "}"]


def _carry_in(carry: Carry, scope: Scope, first: str, filled: str) -> list[str]:
    """Load what the first level reads of the level before it.

    A buffer has the levels of the domain only; no program reads it elsewhere, but a branch that
    the first level does not take may name it.
    """
    if not carry.numbers:
        return []
    lines = [f"{TYPES[scope.dtypes[name]]} before{n} = 0;" for name, n in carry.numbers.items()]
    loads = [
        f"{_within(name, carry, scope)}before{n} = {element(scope, name, (0, 0, carry.step))};"
        for name, n in carry.numbers.items()
    ]
    inner = [f"const int k = {first};", *offsets(carry.numbers, scope), *loads]
    return [*lines, f"if ({filled}) {{", *indent(inner), "}"]


def _within(name: str, carry: Carry, scope: Scope) -> str:
    if name in scope.fields:
        return ""
    return "if (k > 0) " if carry.step < 0 else "if (k + 1 < nk) "
