"""How many rows along J a thread of a PARALLEL kernel computes.

A thread that loads one element at a time cannot keep the memory of a large device busy. With
several rows it has more loads under way, and neighbouring rows share what they read. Their number
is bounded by the registers that hold what was loaded.
"""

from __future__ import annotations

from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import Call, Read
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import expressions, reads, walk
from halocline_engine.schedule.nodes import Section

__all__ = ["loads_of", "rows_per_thread"]

_CHOICES = (4, 2)
#: Registers of 4 bytes for what is loaded; a thread can have 255 in all.
_REGISTERS = 96
#: Functions that are a few instructions; each other one is many, and is written once for each row.
_LIGHT = frozenset(
    ("abs", "min", "max", "sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite")
)
_MOST_CALLS = 4


def loads_of(section: Section, entry: Entry) -> tuple[Read, ...]:
    """Return the distinct reads of arrays that the kernel does not write, by first appearance."""
    return tuple(
        dict.fromkeys(
            read
            for read in reads(section.body)
            if read.name in entry.arrays and read.name not in entry.written
        )
    )


def rows_per_thread(entry: Entry, *, disjoint: bool) -> int:
    """Return how many rows a thread computes.

    It is one where arrays may share memory, since loads then cannot go before stores, in columns,
    which march along K, and where rows would need too many registers or too much code.
    """
    kernel = entry.kernel
    if kernel.order is not Order.PARALLEL or not disjoint or kernel.extent != CENTRE:
        return 1
    calls = _calls(entry)
    for rows in _CHOICES:
        if rows * calls <= _MOST_CALLS and all(
            _registers(section, entry, rows) <= _REGISTERS for section in kernel.sections
        ):
            return rows
    return 1


def _calls(entry: Entry) -> int:
    """Return how many calls of long functions the kernel's text has."""
    return sum(
        isinstance(node, Call) and node.function not in _LIGHT
        for section in entry.kernel.sections
        for expr in expressions(section.body)
        for node in walk(expr)
    )


def _registers(section: Section, entry: Entry, rows: int) -> int:
    """Return how many registers of 4 bytes hold what `rows` rows load."""
    places = {
        (read.name, (i, j + row, k)): -(-read.dtype.itemsize // 4)
        for row in range(rows)
        for read in loads_of(section, entry)
        for i, j, k in (read.offset,)
    }
    return sum(places.values())
